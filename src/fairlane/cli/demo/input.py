"""The stream of events: JSON lines `{"group": str, "event": any}`, all checked at the start."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from fairlane import checks
from fairlane.errors import FairlaneError, PayloadError
from fairlane.payload import Payload

__all__ = ("BadInput", "BadLines", "Event", "Json", "parse_events", "read_events", "read_sample")

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

KEYS = {"group", "event"}
DEEPEST = 90
"""MongoDB stores 100 levels of nesting; the message around an event takes some."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
SHOWN_PROBLEMS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event of the stream; `index` is its place in its group, from 0."""

    group: str
    index: int
    body: Json

    def payload(self) -> dict[str, Json]:
        """Return what is published: the event beside its place, so that a handler can record it."""
        return {"index": self.index, "event": self.body}


class BadInput(FairlaneError, ValueError):
    """The input cannot be used; nothing was started."""


class BadLines(BadInput):
    """Lines of the input are wrong; `problems` are `(line number, what is wrong with it)`."""

    def __init__(self, source: str, problems: list[tuple[int, str]]) -> None:
        self.problems = problems
        shown = [f"  line {number}: {what}" for number, what in problems[:SHOWN_PROBLEMS]]
        if hidden := len(problems) - len(shown):
            shown.append(f"  ... and {hidden} more")
        noun = "bad line" if len(problems) == 1 else "bad lines"
        super().__init__("\n".join([f"{source} has {len(problems)} {noun}:", *shown]))


def read_sample(limit: int | None = None) -> list[Event]:
    """Return the first `limit` events of the sample that ships with the package."""
    with files(__package__).joinpath("sample.jsonl").open("rb") as lines:
        return parse_events(lines, source="the sample", limit=limit)


def read_events(path: Path, limit: int | None = None) -> list[Event]:
    """Return the first `limit` events of a file.

    Raises `BadInput` for a file that cannot be read and for bad lines, those past the limit too.
    """
    try:
        with path.open("rb") as lines:
            return parse_events(lines, source=str(path), limit=limit)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from error


def parse_events(lines: Iterable[bytes], *, source: str, limit: int | None = None) -> list[Event]:
    """Return the first `limit` events, having checked every line. Blank lines are skipped."""
    events: list[Event] = []
    problems: list[tuple[int, str]] = []
    indexes: Counter[str] = Counter()
    for number, line in _numbered(lines):
        try:
            group, body = _parse(line)
            event = Event(group=group, index=indexes[group], body=body)
            _check_storable(event)
        except ValueError as error:
            problems.append((number, str(error)))
            continue
        if limit is None or len(events) < limit:
            events.append(event)
            indexes[group] += 1
    if problems:
        raise BadLines(source, problems)
    if not events:
        raise BadInput(f"{source} has no events")
    return events


def _numbered(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(lines, start=1):
        content = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        if content := content.strip():
            yield number, content


def _parse(line: bytes) -> tuple[str, Json]:
    record = _decode(line)
    if not isinstance(record, dict):
        raise ValueError(f"must be an object with group and event, not {_kind(record)}")
    if missing := KEYS - record.keys():
        raise ValueError(f"has no {' and no '.join(sorted(missing))}")
    if extra := record.keys() - KEYS:
        raise ValueError(f"has keys besides group and event: {', '.join(map(repr, sorted(extra)))}")
    group = record["group"]
    if not isinstance(group, str):
        raise ValueError(f"group must be a string, not {_kind(group)}")
    checks.group_id(group)
    return group, record["event"]


def _decode(line: bytes) -> Json:
    try:
        value: Json = json.loads(line.decode(), parse_constant=_refuse, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: {error.reason} at byte {error.start + 1}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def _refuse(constant: str) -> Json:
    raise ValueError(f"not JSON: {constant} is not a JSON value")


def _finite(number: str) -> float:
    value = float(number)
    if math.isinf(value):
        raise ValueError(f"holds a number that is too large: {number}")
    return value


def _check_storable(event: Event) -> None:
    if not _fits(event.body, DEEPEST):
        raise ValueError(f"event is nested deeper than {DEEPEST} levels")
    try:
        Payload[Json](None).encode(event.payload(), group_id=event.group)
    except PayloadError as error:
        path = error.path.removeprefix("event.")
        raise ValueError(f"cannot store {path}: {error.problem}") from error


def _fits(body: Json, levels: int) -> bool:
    if not isinstance(body, dict | list):
        return True
    children = body.values() if isinstance(body, dict) else body
    return levels > 0 and all(_fits(child, levels - 1) for child in children)


def _kind(value: Json) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "a string", list: "an array", dict: "an object"}
    return names.get(type(value), "a number")
