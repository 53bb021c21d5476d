"""The command line of `fairlane demo`."""

import asyncio
import logging
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from pymongo.errors import PyMongoError
from rich.console import Console

from fairlane.cli.demo.database import brief
from fairlane.cli.demo.display import Display, say
from fairlane.cli.demo.input import BadInput, read_events, read_sample
from fairlane.cli.demo.plan import DriverName, Plan
from fairlane.cli.demo.report import Result, to_json
from fairlane.cli.demo.run import run
from fairlane.cli.demo.table import table
from fairlane.errors import ConfigurationError, FairlaneError

__all__ = ("Stopped", "demo")

BROKEN = 1
USAGE = 2
SIGNALLED = 128
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SHOWN_BREACHES = 10


def demo(
    input_file: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE",
            help='Events in publish order, a JSON line {"group": "...", "event": ...} each. '
            "Without it a small sample is used.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON object.")
    ] = False,
    no_kill: Annotated[
        bool,
        typer.Option("--no-kill", help="Do not kill a worker process in the middle."),
    ] = False,
    workers: Annotated[
        int,
        typer.Option(metavar="N", min=1, max=2000, help="Concurrent claimers, over all processes."),
    ] = 64,
    processes: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Worker processes.")
    ] = 2,
    driver: Annotated[
        DriverName, typer.Option(help="The MongoDB driver to use.")
    ] = DriverName.MOTOR,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Use only the first N events of the input."),
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="FAIRLANE_URL",
            help="A running server to use, in a new database that is dropped at the end. "
            "Without it a local server is started.",
        ),
    ] = None,
) -> None:
    """Work off a stream of events with many workers, kill one of them, and check every promise.

    Some first deliveries are made to fail on purpose: they must be repeated before what follows.

    Exit status: 0 if every event was handled, in order in its group, never by two workers at once,
    and nothing was left behind; 1 if not, or if the server failed; 2 if the command line or the
    input is wrong; 130 after Ctrl-C, 143 after SIGTERM.
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
    except FairlaneError as error:
        _fail(console, str(error), BROKEN)
    except PyMongoError as error:
        _fail(console, f"the server failed: {brief(error)}", BROKEN)
    except Stopped as stopped:
        _ignore_signals()
        _fail(console, str(stopped), SIGNALLED + stopped.number)
    except KeyboardInterrupt:  # before there was a loop, or where a loop cannot handle signals
        _fail(console, str(Stopped(signal.SIGINT)), SIGNALLED + signal.SIGINT)
    _show(result, as_json=as_json, console=console)
    raise typer.Exit(0 if result.report.ok else BROKEN)


class Stopped(Exception):
    """A signal asked the demo to end; all that it started is gone."""

    def __init__(self, number: int) -> None:
        self.number: int = number
        super().__init__(f"stopped by {signal.Signals(number).name}")


def _perform(plan: Plan, console: Console) -> Result:
    logging.getLogger("fairlane").addHandler(logging.NullHandler())  # errors are shown below
    try:
        with Display(console, len(plan.events)) as display:
            return asyncio.run(_stoppable(run(plan, display), display))
    except BaseExceptionGroup as group:
        raise _first(group) from group


async def _stoppable(work: Coroutine[Any, Any, Result], display: Display) -> Result:
    """Clean up and raise `Stopped` on SIGINT and SIGTERM; impatient repetitions change nothing."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    received: list[int] = []

    def stop(number: int, _: object) -> None:
        if not received:
            loop.call_soon_threadsafe(display.stopping)
            loop.call_soon_threadsafe(task.cancel)
        received.append(number)

    # Not the loop's handlers: those go with the loop, and the process dies of the next signal.
    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        return await work
    except asyncio.CancelledError:
        if received:
            raise Stopped(received[0]) from None
        raise
    finally:
        if not received:
            for number, handler in before.items():
                signal.signal(number, handler)


def _ignore_signals() -> None:
    """Let the process end with its own status, whatever else it is sent."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _fail(console: Console, problem: str, status: int) -> NoReturn:
    say(console, f"fairlane demo: {problem}")
    raise typer.Exit(status)


def _show(result: Result, *, as_json: bool, console: Console) -> None:
    if as_json:
        typer.echo(to_json(result.report))
    else:
        Console().print(table(result))
    breaches = result.verdict.breaches
    for breach in breaches[:SHOWN_BREACHES]:
        say(console, f"{breach.kind.replace('_', ' ')}: {breach.detail}")
    if hidden := len(breaches[SHOWN_BREACHES:]):
        console.print(f"... and {hidden} more")
