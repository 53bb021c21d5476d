"""What an operator types: refused before anybody is asked, or understood as it was meant."""

import re
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fairlane.cli import publish, repair
from fairlane.cli.app import app
from fairlane.cli.dead import command as dead
from fairlane.cli.stats import command as stats
from fairlane.cli.target import Target

COMMANDS = (
    ["publish", "g", "1"],
    ["stats"],
    ["dead", "list"],
    ["dead", "show", "1"],
    ["dead", "redrive", "--all"],
    ["dead", "resume", "g"],
    ["repair"],
)
HELP = [command[:2] if command[0] == "dead" else command[:1] for command in COMMANDS] + [["doctor"]]


class Reached(Exception):
    """The command line was understood; this is where a server would be asked."""

    def __init__(self, target: Target) -> None:
        self.target = target
        super().__init__(target)


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def opened(target: Target) -> Any:
        raise Reached(target.checked())
        yield

    for module in (publish, repair, dead, stats):
        monkeypatch.setattr(module, "opened", opened)


def invoke(*arguments: str, typed: str | bytes = "", **environment: str) -> Result:
    variables = {"FAIRLANE_URL": None, "FAIRLANE_DB": None, "FAIRLANE_PREFIX": None, **environment}
    return CliRunner().invoke(app, arguments, input=typed, env=variables)


def target_of(result: Result) -> Target:
    assert isinstance(result.exception, Reached), result.output
    return result.exception.target


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_is_told_where_by_options(command: list[str]) -> None:
    where = ["--url", "mongodb://h", "--db", "app", "--prefix", "p", "--timeout", "2"]
    expected = Target(url="mongodb://h", db_name="app", prefix="p", timeout=2.0)
    assert target_of(invoke(*command, *where)) == expected


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_is_told_where_by_variables(command: list[str]) -> None:
    result = invoke(*command, FAIRLANE_URL="mongodb://h", FAIRLANE_DB="app", FAIRLANE_PREFIX="p")
    assert target_of(result) == Target(url="mongodb://h", db_name="app", prefix="p")


def test_defaults_are_those_of_the_library() -> None:
    target = target_of(invoke("stats"))
    assert (target.url, target.db_name) == ("mongodb://localhost:27017", "fairlane")
    assert target.prefix == "fairlane"


@pytest.mark.parametrize(
    "arguments",
    [
        ("publish",),
        ("publish", "g"),
        ("publish", "g", "paid"),
        ("publish", "g", "1", "--input", "-"),
        ("publish", "g", "1", "--priority", "5"),
        ("publish", "--input", "no/such/file.jsonl"),
        ("publish", "--input", "-", "--message-id", "m"),
        ("dead", "redrive"),
        ("dead", "redrive", "1", "--all"),
        ("dead", "redrive", "--all", "--group", "g"),
        ("dead", "list", "--jobs", "--group", "g"),
        ("dead", "list", "--type", "t", "--group", "g"),
        ("dead", "list", "--limit", "0"),
        ("dead", "show"),
        ("dead", "show", "1", "--nonsense"),
        ("dead", "redrive", "-x"),
        ("dead", "resume"),
        ("stats", "--db", "a b"),
        ("stats", "--prefix", "$"),
        ("stats", "--timeout", "0"),
        ("repair", "--nonsense"),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_is_2_with_a_reason_and_nobody_is_asked(
    arguments: tuple[str, ...],
) -> None:
    result = invoke(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"group": "a"', "not JSON"),
        ('{"group": "a"}', 'not an object with "group", "event"'),
        ('{"event": 1}', 'not an object with "group", "event"'),
        ("[1]", "not an object"),
        ('{"group": "a", "event": 1, "prioritty": 2}', "not an object"),
        ('{"group": 1, "event": 1}', "group must be a str"),
        ('{"group": "a", "event": 1, "priority": 5}', "from 0 to 4"),
        ('{"group": "\\ud800", "event": 1}', "not valid Unicode"),
        (b'{"group": "\xff", "event": 1}', "codec"),
    ],
)
def test_a_bad_line_is_named_by_its_number_and_nothing_is_published(
    line: str | bytes, said: str
) -> None:
    bad = line if isinstance(line, bytes) else line.encode()
    result = invoke("publish", "--input", "-", typed=b'{"group": "a", "event": 1}\n\n' + bad)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "line 3: " in result.stderr
    assert said in result.stderr


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    path.write_text(
        '{"group": "a", "event": {"n": 1}, "priority": 3}\n{"group": "", "event": null}'
    )
    return path


def test_lines_of_a_file_become_items_with_the_given_priority(lines: Path) -> None:
    items = publish._items(None, None, lines, 2)
    assert [(item.group, item.event, item.priority) for item in items] == [
        ("a", {"n": 1}, 3),
        ("", None, 2),
    ]


def shown(*arguments: str) -> str:
    """Return a help text in one line, without the colours that some environments ask for."""
    text = CliRunner().invoke(app, [*arguments, "--help"], env={"COLUMNS": "200"}).stdout
    return " ".join(re.sub(r"\x1b\[[\d;]*m", "", text).split())


@pytest.mark.parametrize("arguments", HELP, ids=" ".join)
def test_help_names_the_statuses_and_the_variables(arguments: list[str]) -> None:
    text = shown(*arguments)
    for word in ("Exit status: 0", "130 after Ctrl-C", "FAIRLANE_URL", "--json", "--timeout"):
        assert word in text
    assert "bool" not in text.lower()


def test_help_of_all_names_every_command() -> None:
    text = shown()
    for name in ("demo", "publish", "stats", "dead", "repair", "doctor"):
        assert f" {name} " in text
