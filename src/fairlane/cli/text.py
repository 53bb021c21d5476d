"""Values as text: for people, who must not be shown control characters, and as JSON."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from bson import json_util
from bson.binary import UuidRepresentation
from bson.json_util import JSONMode, JSONOptions

__all__ = ("age", "event_of", "indented", "json_line", "json_value", "plain", "preview")

EXTENDED: JSONOptions = JSONOptions(
    json_mode=JSONMode.RELAXED,
    tz_aware=True,
    uuid_representation=UuidRepresentation.STANDARD,
)
LINE = 100
UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def plain(text: str) -> str:
    """Return a text on one line, what cannot be printed written as an escape.

    Group ids and reasons are anybody's: they may hold what moves the cursor or clears the screen.
    """
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def preview(text: str, width: int) -> str:
    """Return the beginning of a text, in so many characters."""
    shown = plain(text[: width + 1])
    return shown if len(shown) <= width else f"{shown[: width - 3]}..."


def age(seconds: float | None) -> str:
    """Return a duration in its two largest digits' worth of units."""
    if seconds is None:
        return "-"
    for size, unit in UNITS:
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def event_of(text: str | bytes) -> Any:
    """Read an event: MongoDB's Extended JSON, so any JSON, and {"$date": ...} and its like.

    Raises `ValueError`.
    """
    try:
        return json_util.loads(text, json_options=EXTENDED)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error}") from None
    except Exception as error:  # whatever a `{"$oid": 5}` raises
        raise ValueError(f"not Extended JSON: {error}") from error


def json_value(value: Any) -> Any:
    """Return a BSON value as what `json` can write, in Extended JSON."""
    return json.loads(json_util.dumps(value, json_options=EXTENDED))


def json_line(document: Mapping[str, Any]) -> str:
    """Return a document on one line; instants in ISO 8601."""
    return json.dumps(document, default=_iso)


def indented(value: Any) -> str:
    """Return a BSON value as Extended JSON on several lines, if it is long enough for that."""
    document = json_value(value)
    line = json.dumps(document, ensure_ascii=False)
    return plain(line) if len(line) <= LINE else _lines(document)


def _lines(document: Any) -> str:
    lines = json.dumps(document, ensure_ascii=False, indent=2).splitlines()
    return "\n".join(map(plain, lines))


def _iso(value: object) -> str:
    assert isinstance(value, datetime), value
    return value.isoformat()


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode()
