"""The command line of `fairlane worker`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from fairlane.cli.outcome import USAGE, complain
from fairlane.cli.worker.plan import HealthPlan, LogFormat, LogLevel, LoopName, Plan
from fairlane.cli.worker.process import work
from fairlane.cli.worker.supervisor import supervise

__all__ = ("worker",)


def worker(
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:POOL",
            help="A WorkerPool, or a function that makes one: plain, async, or an "
            "@asynccontextmanager that yields it.",
        ),
    ],
    processes: Annotated[
        int, typer.Option(metavar="N", min=1, max=256, help="Worker processes, supervised.")
    ] = 1,
    app_dir: Annotated[
        Path,
        typer.Option("--app-dir", metavar="DIR", help="Where modules are looked for first."),
    ] = Path(),
    loop: Annotated[
        LoopName, typer.Option(help="The event loop; auto is uvloop where it is installed.")
    ] = LoopName.AUTO,
    kill_after: Annotated[
        float | None,
        typer.Option(
            "--kill-after",
            metavar="SECONDS",
            min=0,
            help="Leave at once if draining takes longer than this.",
        ),
    ] = None,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="Lines of text, or JSON objects.")
    ] = LogFormat.TEXT,
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="The least that is logged.")
    ] = LogLevel.INFO,
    health_port: Annotated[
        int | None,
        typer.Option(
            "--health-port",
            metavar="PORT",
            min=0,
            max=65_535,
            help="Answer GET /health there; 0 is any free port.",
        ),
    ] = None,
    health_host: Annotated[
        str, typer.Option("--health-host", metavar="HOST", help="Where --health-port listens.")
    ] = "127.0.0.1",
    health_file: Annotated[
        Path | None,
        typer.Option("--health-file", metavar="FILE", help="Write health there each second."),
    ] = None,
) -> None:
    """Run a worker pool of yours as a process, or as several.

    The first SIGINT or SIGTERM drains: handlers at work may end. A second one cancels them, and
    their leases are given back. A third one leaves at once.

    Exit status: 0 drained, no lease is left behind; 1 the pool or its factory failed, or no server
    answered; 2 the command line, the module, a setting or the login is wrong; 3 processes ended
    again and again before they had worked; 130 or 143 left at once, after SIGINT or SIGTERM.
    """
    plan = Plan(
        target=target,
        app_dir=os.path.abspath(app_dir),
        loop=loop,
        log_format=log_format,
        log_level=log_level,
        kill_after=kill_after,
    )
    health = HealthPlan(host=health_host, port=health_port, file=health_file)
    if problem := _problem(health, processes):
        complain("worker", problem)
        raise typer.Exit(USAGE)
    raise typer.Exit(work(plan, health) if processes == 1 else supervise(plan, health, processes))


def _problem(health: HealthPlan, processes: int) -> str | None:
    if processes > 1 and os.name != "posix":
        return "--processes needs POSIX: start the command several times instead"
    if health.file is not None and not health.file.parent.is_dir():
        return f"--health-file: there is no folder {health.file.parent}"
    return None
