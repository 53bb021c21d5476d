"""The how-to page on operating a deployment, typed from its top to its end in one database."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fairlane import AsyncJobQueue, AsyncMongoTransport
from fairlane.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "how-to" / "operate.md").read_text()
OF_THE_SERVER = re.compile(r"^((ok|warning) server .*|-> .*)$")


@pytest.fixture
async def db_of_the_page(connect: Any, db_name: str) -> str:
    """Make what the page speaks of: a dead letter, a failed job, and what waits."""
    client = connect("pymongo")
    async with AsyncMongoTransport[Any](client, db_name) as transport:
        await transport.publish("order-42", {"kind": "paid"})
        lease = await transport.claim("w")
        assert lease is not None
        await transport.dead_letter(lease, "the total is missing")
        for group in ("order-42", "order-43", "order-44", "order-44"):
            await transport.publish(group, {"kind": "paid"})
    async with AsyncJobQueue(client, db_name) as queue:
        await queue.enqueue_many([1, 2, 3], "email")
        job = await queue.claim()
        assert job is not None
        await queue.fail(job, error="no such address")
    return db_name


def typed(page: str) -> Iterator[tuple[list[str], list[str]]]:
    """Return what is typed in the blocks of a page, as words, and what it says is printed."""
    for block in re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        for entry in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, printed = entry.partition("\n")
            yield shlex.split(command), alike(printed)


def alike(printed: str) -> list[str]:
    """Return lines without what differs from run to run, and from server to server."""
    lines = []
    for line in printed.splitlines():
        text = re.sub(r"[0-9a-f]{32}", "ID", line)
        text = re.sub(r"find_one_and_update|update_one", "COMMAND", text)
        text = re.sub(r"(database|connection) +\S+", r"\1 NAME", text)
        text = re.sub("ahead of|behind", "BESIDE", text)
        text = re.sub(r"\d[\d,.:]*", "N", text)
        text = " ".join(re.sub("─+", "─", text).split())
        if text and not OF_THE_SERVER.match(text):
            lines.append(text)
    return lines


def test_page_says_what_its_commands_print(fairlane_url: str, db_of_the_page: str) -> None:
    environment = {"FAIRLANE_URL": fairlane_url, "FAIRLANE_DB": db_of_the_page}
    (export, *entries) = typed(PAGE)
    assert export[0][0] == "export"
    assert {each.partition("=")[0] for each in export[0][1:]} == environment.keys()
    for (program, *arguments), printed in entries:
        assert program == "fairlane"
        done = CliRunner().invoke(app, arguments, env=environment)
        assert alike(done.stdout) == printed, done.stderr
        assert done.exit_code in ((0, 1) if arguments == ["doctor"] else (0,))


def test_every_block_of_the_page_is_typed() -> None:
    assert PAGE.count("```") == 2 * len(re.findall(r"^```console\n\$ ", PAGE, re.MULTILINE))


def test_reference_names_every_command_option_and_variable() -> None:
    page = (DOCS / "reference" / "command.md").read_text()
    group = typer.main.get_group(app)
    dead = group.commands["dead"]
    assert isinstance(dead, typer.core.TyperGroup)
    commands = {**group.commands, **{f"dead {name}": each for name, each in dead.commands.items()}}
    parameters = [each for command in commands.values() for each in command.params]
    options = [name for each in parameters for name in each.opts if name.startswith("-")]
    variables = [each.envvar for each in parameters if isinstance(each.envvar, str)]
    assert [name for name in (*commands, *options, *variables) if f"{name}" not in page] == []
