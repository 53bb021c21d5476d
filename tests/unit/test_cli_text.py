"""What an operator reads: nothing that moves the cursor, and JSON that can be read back."""

import json
from datetime import UTC, datetime
from uuid import UUID

import pytest
from bson.decimal128 import Decimal128
from bson.objectid import ObjectId

from fairlane.cli.text import age, event_of, indented, json_line, json_value, plain, preview

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)
VALUES = [
    None,
    "☕",
    [1, 2.5, {"a": True}],
    NOON,
    b"\x00\xff",
    UUID(int=7),
    ObjectId("6b0de9a8d389440a33cdc524"),
    Decimal128("1.10"),
    {"$set": {"a.b": "$$NOW"}},
]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("order-42", "order-42"),
        ("zoë ☕", "zoë ☕"),
        ("\x1b[2J\r\n\t\x07", r"\x1b[2J\r\n\t\x07"),
        ("\u202eright to left", r"\u202eright to left"),
    ],
)
def test_text_is_one_line_without_control_characters(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize("text", ["x" * 100, "\x1b" * 100])
def test_preview_is_never_wider_than_told(text: str) -> None:
    assert len(preview(text, 20)) == 20
    assert preview(text, 20).endswith("...")


def test_preview_of_a_short_text_is_the_text() -> None:
    assert preview("x" * 20, 20) == "x" * 20


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "-"), (0.04, "0.0 s"), (59.9, "59.9 s"), (90, "1.5 min"), (7_200, "2.0 h")],
)
def test_age_is_in_the_largest_unit_that_fits(seconds: float | None, shown: str) -> None:
    assert age(seconds) == shown


def test_age_of_days_is_in_days() -> None:
    assert age(3 * 86_400) == "3.0 d"


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_what_is_printed_as_json_can_be_published_again(value: object) -> None:
    assert event_of(json.dumps(json_value(value))) == value


@pytest.mark.parametrize("text", ["paid", "", "{", '{"$oid": 5}', '{"$date": "x"}', "[1,]"])
def test_what_is_no_event_is_refused_with_its_reason(text: str) -> None:
    with pytest.raises(ValueError, match=r"not (Extended )?JSON: "):
        event_of(text)


def test_a_json_line_is_one_line_of_ascii_with_instants() -> None:
    line = json_line({"group": "☕\n", "at": NOON})
    assert line == r'{"group": "\u2615\n", "at": "2026-12-01T12:00:00+00:00"}'


def test_a_long_value_is_on_several_lines_and_a_short_one_on_one() -> None:
    assert indented({"a": 1}) == '{"a": 1}'
    long = indented({"a": "x" * 100, "b": "\x1b"})
    assert long.splitlines() == ["{", f'  "a": "{"x" * 100}",', r'  "b": "\u001b"', "}"]
