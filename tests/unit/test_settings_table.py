"""The page of settings says what the code says: each parameter has a row, with its default."""

import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import typer

from fairlane import (
    AsyncJobQueue,
    AsyncMongoTransport,
    Backoff,
    Discard,
    Fail,
    Jobs,
    NewJob,
    Reject,
    Retry,
    Snooze,
    WorkerPool,
)
from fairlane.cli.app import app
from fairlane.integrations.aiohttp import CleanupContext
from fairlane.integrations.fastapi import Lifespan
from fairlane.testing import ManualClock, local_server

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "settings.md"
REQUIRED, NONE = "required", "none"

Parameter = inspect.Parameter
Row = dict[str, str]

CALLS: dict[str, Callable[..., Any]] = {
    "AsyncMongoTransport": AsyncMongoTransport,
    "AsyncMongoTransport.from_url": AsyncMongoTransport.from_url,
    "AsyncJobQueue": AsyncJobQueue,
    "AsyncJobQueue.connect": AsyncJobQueue.connect,
    "NewJob": NewJob,
    "WorkerPool": WorkerPool,
    "WorkerPool.together": WorkerPool.together,
}
FAMILIES: dict[str, tuple[Callable[..., Any], ...]] = {
    "Backoff and answers": (Backoff, Retry, Snooze, Reject, Fail, Discard),
    "Lifespan and CleanupContext": (Lifespan, CleanupContext),
    "fairlane.testing": (local_server, ManualClock),
}
CLASSES: dict[str, type[Any]] = {
    "The verbs of AsyncMongoTransport": AsyncMongoTransport,
    "The verbs of AsyncJobQueue": AsyncJobQueue,
    "The verbs of Jobs": Jobs,
}
"""Of their verbs only what may be left out has a row."""
TOLD_ELSEWHERE = {"from_url", "connect", "dequeue"}
DEAD = tuple(f"dead {each}" for each in ("list", "show", "redrive", "resume"))
OPERATORS = ("publish", "stats", "repair", "doctor", *DEAD)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(text: str) -> dict[str, list[Row]]:
    """Return the rows of each table by the heading above it."""
    found: dict[str, list[Row]] = {}
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = section.partition("\n")
        lines = [cells(line) for line in body.splitlines() if line.startswith("|")]
        if lines:
            header, _, *rows = lines
            found[heading] = [dict(zip(header, row, strict=True)) for row in rows]
    return found


TABLES = tables(PAGE.read_text())
CONSTANTS = [
    (row["constant"].strip("`"), row["value"].strip("`"))
    for rows in TABLES.values()
    for row in rows
    if "constant" in row
]


def value(cell: str) -> object:
    return eval(cell, {"Backoff": Backoff, "timedelta": timedelta})


def written(cell: str) -> str:
    """Return a default as the page has it, however it is spelt there."""
    return cell if cell in {REQUIRED, NONE} else repr(value(cell.strip("`")))


def default(parameter: Parameter) -> str:
    if parameter.kind in {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}:
        return NONE
    return REQUIRED if parameter.default is Parameter.empty else repr(parameter.default)


def parameters(function: Callable[..., Any]) -> dict[str, str]:
    """Return the defaults of a function by name, starred as a call would be."""
    stars: dict[object, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}
    every = inspect.signature(function).parameters.values()
    return {
        f"{stars.get(each.kind, '')}{each.name}": default(each)
        for each in every
        if each.name != "self"
    }


def rows_of(heading: str) -> dict[str, str]:
    return {row["setting"].strip("`"): written(row["default"]) for row in TABLES[heading]}


def rows_by_verb(heading: str) -> dict[tuple[str, str], str]:
    return {
        (verb.strip("`"), row["setting"].strip("`")): written(row["default"])
        for row in TABLES[heading]
        for verb in row["verb"].split(", ")
    }


def verbs(kind: type[Any]) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name, function in inspect.getmembers(kind, inspect.isroutine):
        if not name.startswith("_") and name not in TOLD_ELSEWHERE:
            yield name, function


def options(command: str) -> Mapping[str, Any]:
    """Return the options of a command by their names."""
    found: Any = typer.main.get_group(app)
    for name in command.split():
        found = found.commands[name]
    return {name: each for each in found.params for name in each.opts if name.startswith("--")}


def shown(option: Any) -> tuple[str, str]:
    """Return default and variable of an option as the page has them."""
    plain = option.default.value if isinstance(option.default, Enum) else option.default
    return NONE if plain is None else f"`{plain}`", f"`{option.envvar}`" if option.envvar else NONE


def rows_of_options(heading: str) -> dict[str, tuple[str, str]]:
    rows = TABLES[heading]
    return {row["option"].strip("`"): (row["default"], row["variable"]) for row in rows}


@pytest.mark.parametrize("heading", CALLS)
def test_each_parameter_has_a_row_with_its_default(heading: str) -> None:
    assert rows_of(heading) == parameters(CALLS[heading])


@pytest.mark.parametrize("heading", FAMILIES)
def test_each_parameter_of_several_has_a_row_with_its_default(heading: str) -> None:
    assert rows_by_verb(heading) == {
        (each.__name__, name): default
        for each in FAMILIES[heading]
        for name, default in parameters(each).items()
    }


@pytest.mark.parametrize("heading", CLASSES)
def test_whatever_may_be_left_out_of_a_verb_has_a_row_with_its_default(heading: str) -> None:
    assert rows_by_verb(heading) == {
        (verb, name): default
        for verb, function in verbs(CLASSES[heading])
        for name, default in parameters(function).items()
        if default != REQUIRED
    }


def test_no_row_is_written_twice() -> None:
    names = Counter(
        (heading, verb, row.get("setting") or row.get("option") or next(iter(row.values())))
        for heading, rows in TABLES.items()
        for row in rows
        for verb in row.get("verb", "").split(", ")
    )
    assert [name for name, times in names.items() if times > 1] == []


def test_each_option_of_a_worker_has_a_row() -> None:
    expected = {name: shown(each) for name, each in options("worker").items()}
    assert rows_of_options("fairlane worker") == expected


@pytest.mark.parametrize("command", OPERATORS)
def test_the_operators_commands_share_what_the_page_says(command: str) -> None:
    shared = rows_of_options("What the operator's commands share")
    taken = {name: shown(each) for name, each in options(command).items()}
    assert {name: taken.get(name) for name in shared} == shared


def test_each_environment_variable_has_a_row() -> None:
    rows = {row["variable"].strip("`") for row in TABLES["Environment variables"]}
    sources = (path.read_text() for path in (ROOT / "src").rglob("*.py"))
    read = {name for source in sources for name in re.findall(r'"(FAIRLANE_[A-Z_]+)"', source)}
    assert rows == read


@pytest.mark.parametrize(("name", "cell"), CONSTANTS)
def test_constant_has_the_value_that_the_page_says(name: str, cell: str) -> None:
    assert repr(pkgutil.resolve_name(name)) == repr(value(cell))


def test_every_table_is_compared() -> None:
    """Also a table that somebody adds."""
    by_options = {"fairlane worker", "What the operator's commands share", "Environment variables"}
    compared = CALLS.keys() | FAMILIES.keys() | CLASSES.keys() | by_options
    of_constants = {heading for heading, rows in TABLES.items() if "constant" in rows[0]}
    assert TABLES.keys() - of_constants == compared
