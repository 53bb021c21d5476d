"""The input of `fairlane demo`: what is an event, and what is refused with its line number."""

import json
from pathlib import Path

import pytest

from fairlane.cli.demo.input import BadInput, BadLines, parse_events, read_events, read_sample


def parse(*lines: str | bytes, limit: int | None = None):
    raw = [line.encode() if isinstance(line, str) else line for line in lines]
    return parse_events(raw, source="events.jsonl", limit=limit)


def problem(*lines: str | bytes) -> tuple[int, str]:
    with pytest.raises(BadLines) as caught:
        parse(*lines)
    return caught.value.problems[0]


def test_events_keep_their_order_and_are_numbered_in_their_group():
    events = parse(
        '{"group": "a", "event": 1}', '{"group": "b", "event": 2}', '{"group": "a", "event": 3}'
    )
    assert [(e.group, e.index, e.body) for e in events] == [("a", 0, 1), ("b", 0, 2), ("a", 1, 3)]


@pytest.mark.parametrize(
    "body",
    [None, True, 0, -(2**63), 2**63 - 1, 1.5, "", "é☕", [], [[1], {}], {"$a": {"b.c": {"": 0}}}],
)
def test_an_event_may_be_any_json(body: object):
    (event,) = parse(json.dumps({"group": "g", "event": body}))
    assert event.body == body


@pytest.mark.parametrize("group", ["", "$ne", "a.b", "nul\0", "x" * 5000, "Łódź"])
def test_a_group_may_be_any_string(group: str):
    (event,) = parse(json.dumps({"group": group, "event": 0}))
    assert event.group == group


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ("nonsense", "not JSON"),
        ('{"group": "a", "event": 1} {}', "not JSON"),
        (b'{"group": "\xff", "event": 1}', "not UTF-8"),
        ("[]", "must be an object with group and event, not an array"),
        ("null", "must be an object with group and event, not null"),
        ('"text"', "must be an object with group and event, not a string"),
        ('{"event": 1}', "has no group"),
        ('{"group": "a"}', "has no event"),
        ("{}", "has no event and no group"),
        ('{"group": 7, "event": 1}', "group must be a string, not a number"),
        ('{"group": true, "event": 1}', "group must be a string, not a boolean"),
        ('{"group": null, "event": 1}', "group must be a string, not null"),
        ('{"group": {"$ne": 1}, "event": 1}', "group must be a string, not an object"),
        ('{"group": "a", "event": 1, "evnt": 2}', "has keys besides group and event: 'evnt'"),
        ('{"group": "\\ud800", "event": 1}', "not valid Unicode"),
        ('{"group": "a", "event": NaN}', "NaN is not a JSON value"),
        ('{"group": "a", "event": -Infinity}', "-Infinity is not a JSON value"),
        ('{"group": "a", "event": 1e400}', "too large: 1e400"),
        ('{"group": "a", "event": {"n": [9223372036854775808]}}', "cannot store event.n[0]"),
        ('{"group": "a", "event": {"\\u0000": 1}}', "cannot store event"),
        ('{"group": "a", "event": "\\ud800"}', "cannot store event"),
        ('{"group": "a", "event": ' + "9" * 5000 + "}", "4300"),
        ('{"group": "a", "event": ' + "[" * 95 + "]" * 95 + "}", "nested deeper than 90 levels"),
        ('{"group": "a", "event": ' + "[" * 9999 + "]" * 9999 + "}", "nested"),
        ('{"group": "a", "event": "' + "x" * 2**24 + '"}', "cannot store event"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(line: str | bytes, says: str):
    number, what = problem('{"group": "a", "event": 0}', line)
    assert (number, says in what) == (2, True), what


def test_all_bad_lines_are_named_at_once():
    with pytest.raises(BadLines, match=r"(?s)has 2 bad lines.*line 1: .*line 3: "):
        parse("{", '{"group": "a", "event": 0}', "[]")


def test_a_long_list_of_bad_lines_is_cut():
    with pytest.raises(BadLines, match=r"line 10: .*\n  \.\.\. and 5 more$"):
        parse(*["{"] * 15)


def test_blank_lines_are_skipped_but_counted():
    assert problem("\n", '{"group": "a", "event": 0}\r\n', "  ", "{")[0] == 4


def test_a_byte_order_mark_is_ignored():
    assert len(parse(b'\xef\xbb\xbf{"group": "a", "event": 0}')) == 1


def test_limit_takes_the_first_events():
    events = parse(*(f'{{"group": "g", "event": {n}}}' for n in range(5)), limit=3)
    assert [event.body for event in events] == [0, 1, 2]


def test_a_bad_line_past_the_limit_is_refused_too():
    with pytest.raises(BadLines):
        parse('{"group": "a", "event": 0}', "{", limit=1)


def test_an_input_without_events_is_refused():
    with pytest.raises(BadInput, match="has no events"):
        parse("\n")


def test_a_line_separator_inside_a_string_does_not_end_the_line(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    path.write_bytes('{"group": "a", "event": "one\u2028two\x85"}\n'.encode())
    assert [event.body for event in read_events(path)] == ["one\u2028two\x85"]


@pytest.mark.parametrize("name", ["missing.jsonl", "."])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str):
    with pytest.raises(BadInput, match="cannot read"):
        read_events(tmp_path / name)


def test_the_sample_has_many_groups_of_uneven_size():
    sizes: dict[str, int] = {}
    for event in read_sample():
        sizes[event.group] = event.index + 1
    assert 300 <= sum(sizes.values()) <= 600
    assert len(sizes) > 40
    assert max(sizes.values()) > 20 * min(sizes.values())
