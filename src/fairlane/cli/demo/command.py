"""The command line of `fairlane demo`."""

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from pymongo.errors import PyMongoError
from rich.console import Console

from fairlane.cli.demo.display import Display
from fairlane.cli.demo.input import BadInput, read_events, read_sample
from fairlane.cli.demo.plan import DriverName, Plan
from fairlane.cli.demo.report import table, to_json
from fairlane.cli.demo.run import Result, run
from fairlane.errors import ConfigurationError, FairlaneError

__all__ = ("demo",)

BROKEN = 1
USAGE = 2
INTERRUPTED = 130
TERMINATED = 143
SHOWN_BREACHES = 10


def demo(
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE.jsonl",
            help='Events in publish order, a line {"group": "...", "event": ...} each. '
            "Without it a small sample is used.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON object.")
    ] = False,
    no_kill: Annotated[
        bool, typer.Option("--no-kill", help="Do not kill a worker process in the middle.")
    ] = False,
    workers: Annotated[
        int, typer.Option(min=1, max=2000, help="Concurrent claimers, over all processes.")
    ] = 64,
    processes: Annotated[int, typer.Option(min=1, max=64, help="Worker processes.")] = 2,
    driver: Annotated[
        DriverName, typer.Option(help="The MongoDB driver to use.")
    ] = DriverName.MOTOR,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Use only the first N events of the input.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="FAIRLANE_URL",
            help="A running server to use, in a new database that is dropped at the end. "
            "Without it a local server is started.",
        ),
    ] = None,
) -> None:
    """Work off a stream of events with many workers, kill one of them, and check every promise.

    Exit status: 0 if every event was handled, in order in its group, never by two workers at once,
    and nothing was left behind; 1 if not; 2 if the command line or the input is wrong.
    """
    console = Console(stderr=True)
    try:
        events = read_sample(limit) if input_file is None else read_events(input_file, limit)
        plan = Plan(
            events=tuple(events),
            workers=workers,
            processes=processes,
            driver=driver,
            url=url,
            is_killing=not no_kill,
        )
        result = _perform(plan, console)
    except (BadInput, ConfigurationError) as error:
        _fail(console, str(error), USAGE)
    except (FairlaneError, PyMongoError) as error:
        _fail(console, str(error), BROKEN)
    except KeyboardInterrupt:
        _fail(console, "interrupted", INTERRUPTED)
    except asyncio.CancelledError:
        _fail(console, "terminated", TERMINATED)
    _show(result, as_json=as_json, console=console)
    raise typer.Exit(0 if result.report.ok else BROKEN)


def _perform(plan: Plan, console: Console) -> Result:
    try:
        with Display(console, len(plan.events)) as display:
            return asyncio.run(_terminable(run(plan, display)))
    except BaseExceptionGroup as group:
        raise _first(group) from group


async def _terminable(work: Coroutine[Any, Any, Result]) -> Result:
    """Let SIGTERM clean up as Ctrl-C does."""
    task = asyncio.current_task()
    assert task is not None
    with suppress(NotImplementedError):  # Windows has no such signal
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _fail(console: Console, problem: str, status: int) -> NoReturn:
    console.print(f"fairlane demo: {problem}", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(status)


def _show(result: Result, *, as_json: bool, console: Console) -> None:
    if as_json:
        typer.echo(to_json(result.report))
    else:
        Console().print(table(result.report, result.left))
    breaches = result.verdict.breaches
    for breach in breaches[:SHOWN_BREACHES]:
        kind = breach.kind.replace("_", " ")
        console.print(f"{kind}: {breach.detail}", markup=False, highlight=False, soft_wrap=True)
    if hidden := len(breaches[SHOWN_BREACHES:]):
        console.print(f"... and {hidden} more")
