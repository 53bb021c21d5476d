"""The log of a worker as JSON: one object a line, whatever is logged."""

import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from fairlane.cli.worker import logs
from fairlane.cli.worker.plan import Plan

FORMATTER = logs.JsonLines()


def line(message: str = "said", *arguments: object, **fields: Any) -> dict[str, Any]:
    record = logging.LogRecord("shop", logging.WARNING, "f.py", 1, message, arguments, None)
    vars(record).update(fields)
    text = FORMATTER.format(record)
    assert "\n" not in text
    read: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return read


def test_a_line_tells_when_how_bad_where_and_what() -> None:
    told = line("paid %d", 5, created=0.5, process=7)
    assert told == {
        "at": "1970-01-01T00:00:00.500+00:00",
        "level": "warning",
        "logger": "shop",
        "message": "paid 5",
        "pid": 7,
    }


def test_extra_fields_are_fields_of_the_line() -> None:
    extra: dict[str, Any] = {"group_id": "g\n1", "seq": 5, "attempt": 2, "job_id": "ab"}
    assert line(**extra).items() >= extra.items()


def test_extra_fields_do_not_hide_those_of_every_line() -> None:
    assert line(level="odd", pid="odd", at="odd")["level"] == "warning"


def test_an_error_is_there_with_its_traceback() -> None:
    try:
        raise ValueError("no total")
    except ValueError:
        told = line(exc_info=sys.exc_info())
    assert "ValueError: no total" in told["exception"]


CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({1, 2}, "{1, 2}"),
        (float("nan"), "nan"),
        (CIRCLE, "[[...]]"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (b"x", "b'x'"),
        ("\ud800", "\ud800"),
    ],
)
def test_whatever_is_no_json_is_shown_all_the_same(value: object, shown: object) -> None:
    assert line(value=value, seq=5).items() >= {"value": shown, "seq": 5}.items()


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_lines_go_to_standard_error_from_the_level_on(
    log_format: str, root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.set_up(Plan(target="a:b", log_format=log_format, log_level="warning"))
    logging.getLogger("shop").info("quiet")
    logging.getLogger("shop").warning("loud", extra={"seq": 5})
    (told,) = capsys.readouterr().err.splitlines()
    assert (json.loads(told)["seq"] == 5) if log_format == "json" else told.endswith("shop: loud")
    assert root.level == logging.WARNING
