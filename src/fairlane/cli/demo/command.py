"""The command line of `fairlane demo`."""

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from pymongo.errors import PyMongoError
from rich.console import Console
from rich.table import Table

from fairlane.cli.demo.breach import Breach
from fairlane.cli.demo.conducting import Stopped, conduct, ignore_signals
from fairlane.cli.demo.crew import DriverName
from fairlane.cli.demo.database import brief
from fairlane.cli.demo.display import Display, Labels, say
from fairlane.cli.demo.input import BadInput, read_events, read_sample
from fairlane.cli.demo.jobs.plan import JobsPlan, planned
from fairlane.cli.demo.jobs.run import run_jobs
from fairlane.cli.demo.jobs.table import jobs_table
from fairlane.cli.demo.plan import Plan
from fairlane.cli.demo.report import to_json
from fairlane.cli.demo.run import run
from fairlane.cli.demo.table import table
from fairlane.errors import ConfigurationError, FairlaneError

__all__ = ("demo",)

BROKEN = 1
USAGE = 2
SIGNALLED = 128
SHOWN_BREACHES = 10
JOBS = 300
JOB_LABELS = Labels("enqueued", "ended", "repeated")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """What there is to be shown of a judged run; `report` is a dataclass."""

    report: Any
    table: Table
    breaches: Sequence[Breach]


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
    jobs: Annotated[
        bool,
        typer.Option(
            "--jobs",
            help="Work off typed jobs instead: with priorities, delays, unique keys, failures by "
            "plan, and a recurring one.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one JSON object.")
    ] = False,
    no_kill: Annotated[
        bool,
        typer.Option("--no-kill", help="Do not kill a worker process in the middle."),
    ] = False,
    workers: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=2000,
            help="Concurrent claimers (of jobs: handlers), over all processes.",
        ),
    ] = 64,
    processes: Annotated[
        int, typer.Option(metavar="N", min=1, max=64, help="Worker processes.")
    ] = 2,
    driver: Annotated[
        DriverName, typer.Option(help="The MongoDB driver to use.")
    ] = DriverName.MOTOR,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help=f"Use only the first N events of the input, or so many jobs (else {JOBS}).",
        ),
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
    and nothing was left behind (of jobs: if each ended once and as planned, never had two holders,
    and counts its starts as attempts); 1 if not, or if the server failed; 2 if the command line or
    the input is wrong; 130 after Ctrl-C, 143 after SIGTERM.
    """
    console = Console(stderr=True)
    crew = {
        "workers": workers,
        "processes": processes,
        "driver": driver,
        "url": url,
        "is_killing": not no_kill,
    }
    try:
        if jobs:
            shown = _run_jobs(input_file, limit, crew, console)
        else:
            shown = _run_events(input_file, limit, crew, console)
    except (BadInput, ConfigurationError) as error:
        _fail(console, str(error), USAGE)
    except FairlaneError as error:
        _fail(console, str(error), BROKEN)
    except PyMongoError as error:
        _fail(console, f"the server failed: {brief(error)}", BROKEN)
    except Stopped as stopped:
        ignore_signals()
        _fail(console, str(stopped), SIGNALLED + stopped.number)
    except KeyboardInterrupt:  # before there was a loop, or where a loop cannot handle signals
        _fail(console, str(Stopped(signal.SIGINT)), SIGNALLED + signal.SIGINT)
    _show(shown, as_json=as_json, console=console)
    raise typer.Exit(0 if shown.report.ok else BROKEN)


def _run_events(
    source: Path | None, limit: int | None, crew: dict[str, Any], console: Console
) -> _Shown:
    events = read_sample(limit) if source is None else read_events(source, limit)
    plan = Plan(events=tuple(events), **crew)
    display = Display(console, len(events))
    result = conduct(run(plan, display), display)
    return _Shown(report=result.report, table=table(result), breaches=result.verdict.breaches)


def _run_jobs(
    source: Path | None, limit: int | None, crew: dict[str, Any], console: Console
) -> _Shown:
    if source is not None:
        raise BadInput("--input has events, and does not go with --jobs")
    plan = JobsPlan(jobs=planned(JOBS if limit is None else limit), **crew)
    display = Display(console, len(plan.jobs), JOB_LABELS)
    result = conduct(run_jobs(plan, display), display)
    return _Shown(report=result.report, table=jobs_table(result), breaches=result.verdict.breaches)


def _fail(console: Console, problem: str, status: int) -> NoReturn:
    say(console, f"fairlane demo: {problem}")
    raise typer.Exit(status)


def _show(shown: _Shown, *, as_json: bool, console: Console) -> None:
    if as_json:
        typer.echo(to_json(shown.report))
    else:
        Console().print(shown.table)
    for breach in shown.breaches[:SHOWN_BREACHES]:
        say(console, f"{breach.kind.replace('_', ' ')}: {breach.detail}")
    if hidden := len(shown.breaches[SHOWN_BREACHES:]):
        console.print(f"... and {hidden} more")
