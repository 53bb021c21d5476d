"""The command lines of `fairlane dead list`, `show`, `redrive` and `resume`."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from fairlane.cli.dead.burials import Burials, FailedJobs, Letters
from fairlane.cli.outcome import FAILED, OK, Refused, complain, conclude
from fairlane.cli.screen import show
from fairlane.cli.target import URL, Db, Prefix, Target, Timeout, Url, opened
from fairlane.cli.text import indented, json_line, plain

__all__ = ("Choice", "dead_list", "dead_redrive", "dead_resume", "dead_show")

OfGroup = Annotated[
    str | None,
    typer.Option(
        "--group", metavar="GROUP", help="Dead letters of this group.", show_default=False
    ),
]
OfJobs = Annotated[bool, typer.Option("--jobs", help="Failed jobs instead of dead letters.")]
OfType = Annotated[
    str | None,
    typer.Option("--type", metavar="TYPE", help="Failed jobs of this type.", show_default=False),
]
PAYLOADS = frozenset({"event", "payload"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which of the dead a command is about; a type is one of jobs."""

    group: str | None
    type: str | None
    jobs: bool

    @property
    def is_jobs(self) -> bool:
        return self.jobs or self.type is not None

    @property
    def is_part(self) -> bool:
        return self.group is not None or self.type is not None


def dead_list(
    group: OfGroup = None,
    jobs: OfJobs = False,
    type_: OfType = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, help="Show at most so many, oldest first.")
    ] = 50,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object for each, one a line.")
    ] = False,
    url: Url = URL,
    db: Db = "fairlane",
    prefix: Prefix = "fairlane",
    timeout: Timeout = 5.0,
) -> None:
    """List dead letters, or failed jobs: what is not tried any more, and why.

    Exit status: 0, also if there are none; 1 if there is nothing of that name, or the server
    failed; 2 if the command line is wrong; 130 after Ctrl-C; 141 if the reader of a pipe has gone.
    """
    target = Target(url=url, db_name=db, prefix=prefix, timeout=timeout)
    choice = Choice(group=group, type=type_, jobs=jobs)
    conclude("dead list", _list(target, choice, limit, as_json))


def dead_show(
    key: Annotated[
        str, typer.Argument(metavar="ID", help="Number of the message, or id of the job.")
    ],
    group: OfGroup = None,
    jobs: OfJobs = False,
    type_: OfType = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
    url: Url = URL,
    db: Db = "fairlane",
    prefix: Prefix = "fairlane",
    timeout: Timeout = 5.0,
) -> None:
    """Show a dead letter, or a failed job, with its whole payload.

    A letter is looked for among those before it; --group makes that short where there are many.

    Exit status: 0; 1 if there is none, or the server failed; 2 if the command line is wrong; 130
    after Ctrl-C.
    """
    target = Target(url=url, db_name=db, prefix=prefix, timeout=timeout)
    choice = Choice(group=group, type=type_, jobs=jobs)
    conclude("dead show", _show(target, choice, key, as_json))


def dead_redrive(
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...", help="Numbers of messages, or ids of jobs.", show_default=False
        ),
    ] = None,
    group: OfGroup = None,
    jobs: OfJobs = False,
    type_: OfType = None,
    is_all: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
    url: Url = URL,
    db: Db = "fairlane",
    prefix: Prefix = "fairlane",
    timeout: Timeout = 5.0,
) -> None:
    """Let dead letters, or failed jobs, be tried again, and print how many.

    A letter goes to the end of its group, or to its front if it stops it, and the group goes on; a
    job gets all its attempts again.

    Exit status: 0; 1 if one of the ids is not dead (the others are redriven), or the server failed;
    2 if the command line is wrong; 130 after Ctrl-C: what was begun is finished by the next one.
    """
    target = Target(url=url, db_name=db, prefix=prefix, timeout=timeout)
    choice = Choice(group=group, type=type_, jobs=jobs)
    conclude("dead redrive", _redrive(target, choice, keys or [], is_all, as_json))


def dead_resume(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The message group.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
    url: Url = URL,
    db: Db = "fairlane",
    prefix: Prefix = "fairlane",
    timeout: Timeout = 5.0,
) -> None:
    """Let a group go on that a dead letter stops, without that message.

    The letter stays; to deliver it first, redrive it instead.

    Exit status: 0; 1 if the group is not stopped, or the server failed; 2 if the command line is
    wrong; 130 after Ctrl-C.
    """
    target = Target(url=url, db_name=db, prefix=prefix, timeout=timeout)
    conclude("dead resume", _resume(target, group, as_json))


@asynccontextmanager
async def _burials(target: Target, choice: Choice) -> AsyncIterator[Burials]:
    if choice.is_jobs and choice.group is not None:
        raise Refused("jobs have no groups: leave --group out, or --jobs and --type")
    async with opened(target) as deployment:
        deployment.check_found(messages=not choice.is_jobs, jobs=choice.is_jobs)
        if choice.is_jobs:
            yield FailedJobs(deployment, choice.type)
        else:
            yield Letters(deployment, choice.group)


async def _list(target: Target, choice: Choice, limit: int, as_json: bool) -> int:
    rows: list[tuple[str, ...]] = []
    async with _burials(target, choice) as burials, aclosing(burials.each(limit + 1)) as each:
        number = 0
        async for flat in each:
            if (number := number + 1) > limit:
                complain("dead list", f"there are more than {limit:,}: --limit shows more")
                break
            if as_json:
                typer.echo(json_line(flat))
            else:
                rows.append(burials.row(flat))
    if rows:
        show(_table(burials.columns, rows))
    elif not as_json:
        complain("dead list", f"there is no {burials.noun}")
    return OK


async def _show(target: Target, choice: Choice, key: str, as_json: bool) -> int:
    async with _burials(target, choice) as burials:
        flat = await burials.find(key)
    if as_json:
        typer.echo(json_line(flat))
        return OK
    for name, value in flat.items():
        if name in PAYLOADS or not (value is None or value is False):
            said = indented(value) if name in PAYLOADS else _in_words(value)
            typer.echo(f"{name.replace('_', ' '):<13} {said}")
    return OK


async def _redrive(
    target: Target, choice: Choice, keys: Sequence[str], is_all: bool, as_json: bool
) -> int:
    if bool(keys) + choice.is_part + is_all != 1:
        raise Refused("which ones? Ids, or --group, or --type, or --all")
    async with _burials(target, choice) as burials:
        redriven = {key: await burials.redrive(key) for key in keys or (None,)}
    number = sum(redriven.values())
    typer.echo(json_line({"redriven": number}) if as_json else str(number))
    missing = [key for key, done in redriven.items() if key is not None and not done]
    for key in missing:
        complain("dead redrive", f"there is no {burials.noun} {key}, or it cannot be redriven")
    return FAILED if missing else OK


async def _resume(target: Target, group: str, as_json: bool) -> int:
    async with opened(target) as deployment:
        deployment.check_found(messages=True, jobs=False)
        is_resumed = await deployment.transport().resume(group)
    if as_json:
        typer.echo(json_line({"resumed": is_resumed}))
    elif not is_resumed:
        complain("dead resume", f"group {group!r} is not stopped")
    return OK if is_resumed else FAILED


def _in_words(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    return "\n".join(map(plain, str(value).splitlines()))


def _table(columns: Iterable[str], rows: Iterable[tuple[str, ...]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    return table
