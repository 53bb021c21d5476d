"""The command line of `fairlane repair`."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from fairlane.cli.outcome import OK, conclude
from fairlane.cli.target import URL, Db, Deployment, Prefix, Target, Timeout, Url, opened
from fairlane.cli.text import json_line

__all__ = ("repair",)

MESSAGES = {
    "examined": "looked at",
    "repaired": "groups that had lost their lock",
    "adopted": "groups taken over from another design",
    "finished": "interrupted moves to or from the dead letters",
    "moved": "groups put where claimers look",
}
JOBS = {
    "requeued": "jobs whose worker is gone, pending again",
    "failed": "jobs whose worker is gone, without an attempt left",
    "moved": "jobs put where claimers look",
}


def repair(
    full: Annotated[
        bool,
        typer.Option("--full", help="Look at every group, not only at what was published lately."),
    ] = False,
    no_indexes: Annotated[
        bool, typer.Option("--no-indexes", help="Do not create indexes that are missing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object.")] = False,
    url: Url = URL,
    db: Db = "fairlane",
    prefix: Prefix = "fairlane",
    timeout: Timeout = 5.0,
) -> None:
    """Put right what dying programs left half-done; safe at any time, beside running workers.

    Worker pools do the same in the background. Missing indexes are created, too.

    Exit status: 0 if it was done, whether or not there was anything to do; 1 if there is nothing
    of that name, or the server failed; 2 if the command line is wrong, or another index stands in
    the way; 130 after Ctrl-C.
    """
    target = Target(url=url, db_name=db, prefix=prefix, timeout=timeout)
    conclude("repair", _repair(target, full, not no_indexes, as_json))


async def _repair(target: Target, full: bool, has_indexes: bool, as_json: bool) -> int:
    async with opened(target) as deployment:
        deployment.check_found()
        messages = await _messages(deployment, full, has_indexes)
        jobs = await _jobs(deployment, has_indexes)
    if as_json:
        typer.echo(json_line({"messages": messages, "jobs": jobs}))
    else:
        _show("messages", messages, MESSAGES)
        _show("jobs", jobs, JOBS)
    return OK


async def _messages(deployment: Deployment, full: bool, has_indexes: bool) -> dict[str, Any] | None:
    if not deployment.has_messages:
        return None
    async with deployment.transport(ensure_indexes=has_indexes) as transport:
        report = await transport.repair(full=full)
        return {**asdict(report), "moved": await transport.reconcile()}


async def _jobs(deployment: Deployment, has_indexes: bool) -> dict[str, Any] | None:
    if not deployment.has_jobs:
        return None
    async with deployment.queue(ensure_indexes=has_indexes) as queue:
        report = await queue.reclaim_stale()
        return {**asdict(report), "moved": await queue.reconcile()}


def _show(noun: str, done: dict[str, Any] | None, words: dict[str, str]) -> None:
    if done is None:
        return
    typer.echo(noun)
    for key, meaning in words.items():
        typer.echo(f"{done[key]:>8,}  {meaning}")
