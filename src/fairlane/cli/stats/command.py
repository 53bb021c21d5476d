"""The command line of `fairlane stats`."""

import logging
from typing import Annotated

import typer

from fairlane.cli.outcome import INTERRUPTED, OK, conclude
from fairlane.cli.screen import Screen, show
from fairlane.cli.stats.sample import Sampler, document
from fairlane.cli.stats.table import tables
from fairlane.cli.stats.watch import JsonLines, LiveTable, Pages, watch
from fairlane.cli.target import URL, Db, Prefix, Target, Timeout, Url, address, opened
from fairlane.cli.text import json_line

__all__ = ("stats",)


def stats(
    is_watched: Annotated[
        bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")
    ] = False,
    interval: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", min=0.1, max=86_400, help="Between two looks, with --watch."
        ),
    ] = 2.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object; with --watch one a line.")
    ] = False,
    url: Url = URL,
    db: Db = "fairlane",
    prefix: Prefix = "fairlane",
    timeout: Timeout = 5.0,
) -> None:
    """Count message groups and jobs by what they are, and tell how old the oldest one is.

    Creates nothing. With --watch also the messages that come and go per second; a server that is
    away is waited for.

    Exit status: 0, also after Ctrl-C with --watch; 1 if there is nothing of that name, or the
    server failed; 2 if the command line is wrong; 130 after Ctrl-C without --watch; 141 if the
    reader of a pipe has gone.
    """
    target = Target(url=url, db_name=db, prefix=prefix, timeout=timeout)
    if is_watched:
        logging.getLogger("fairlane").addHandler(logging.NullHandler())  # the display tells it
        conclude("stats", _watch(target, interval, as_json), interrupted=OK)
    conclude("stats", _stats(target, as_json), interrupted=INTERRUPTED)


async def _stats(target: Target, as_json: bool) -> int:
    async with opened(target) as deployment:
        deployment.check_found()
        sample = await Sampler(deployment).take()
    if as_json:
        typer.echo(json_line(document(sample, None)))
    else:
        show(tables(sample, None))
    return OK


async def _watch(target: Target, interval: float, as_json: bool) -> int:
    async with opened(target) as deployment:
        deployment.check_found()
        look = Sampler(deployment).take
        if as_json:
            await watch(look, JsonLines(), interval)
        screen = Screen()
        if not screen.is_terminal:
            await watch(look, Pages(), interval)
        title = f"{address(deployment.driver)}, {target}"
        with LiveTable(title, screen) as display:
            await watch(look, display, interval)
    return OK
