"""All checks in their order, each told as soon as it is done; one that fails stops no other."""

import platform
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from fairlane import __version__
from fairlane.cli.doctor.finding import Finding
from fairlane.cli.doctor.probe import atomicity, probing, write_concern
from fairlane.cli.doctor.reaching import unreached, way
from fairlane.cli.doctor.server import clock, server
from fairlane.cli.doctor.stored import indexes, settings
from fairlane.cli.doctor.strategy import strategy
from fairlane.cli.outcome import brief
from fairlane.cli.target import Deployment, Target, opened
from fairlane.clock import Clock
from fairlane.driver import UNAUTHORIZED
from fairlane.errors import FairlaneError
from fairlane.lease.strategy import Strategy

__all__ = ("Note", "examine", "failure")

EXPECTED = (FairlaneError, PyMongoError)
PATIENCE = 30.0
"""Seconds for each check: a server that hangs must not keep the others from being told."""
Note = Callable[[Finding], None]


async def examine(
    target: Target, note: Note, *, wanted: Strategy = "auto", wall: Clock = time.time
) -> None:
    """Do all checks. Nothing is changed but the probe's own collection, which is dropped."""
    note(_library())
    async with AsyncExitStack() as stack:
        deployment = await _reach(stack, target, note)
        if deployment is None:
            return
        note(await _told("server", server(deployment)))
        note(await _told("clock", clock(deployment, wall)))
        note(await _told("settings", settings(deployment)))
        note(await _told("indexes", indexes(deployment, wanted)))
        note(await _told("strategy", strategy(deployment, wanted)))
        await _probe(deployment, note, wanted)


async def _reach(stack: AsyncExitStack, target: Target, note: Note) -> Deployment | None:
    """Go the way to the server, and tell how far it goes."""
    try:
        deployment = await stack.enter_async_context(opened(target))
        findings = await way(deployment)
    except EXPECTED as error:
        for finding in unreached(target, error):
            note(finding)
        return None
    for finding in findings:
        note(finding)
    return deployment


async def _probe(deployment: Deployment, note: Note, wanted: Strategy) -> None:
    """Race only where a write is acknowledged: elsewhere no claim would end, or none is allowed."""
    is_writable = False
    try:
        async with probing(deployment) as collection:
            written = await _told("write concern", write_concern(deployment, collection))
            note(written)
            is_writable = written.status == "ok"
            if is_writable:
                racing = atomicity(deployment.driver, collection, wanted)
                note(await _told("atomicity", racing))
    except PyMongoError as error:  # it cannot be dropped
        if is_writable:
            note(failure("atomicity", error))


async def _told(check: str, work: Awaitable[Finding]) -> Finding:
    try:
        with pymongo.timeout(PATIENCE):
            return await work
    except EXPECTED as error:
        return failure(check, error)
    except ExceptionGroup as group:
        expected, others = group.split(EXPECTED)
        if others is not None or expected is None:
            raise
        return failure(check, expected.exceptions[0])


def failure(check: str, error: Any) -> Finding:
    """Return what a check says that could not be made."""
    said = brief(error) if isinstance(error, PyMongoError) else str(error)
    if isinstance(error, OperationFailure) and error.code == UNAUTHORIZED:
        return Finding(
            check=check,
            status="warning",
            detail=f"this user may not do that: {said}",
            advice="run this as a user with the role readWrite on the database",
        )
    return Finding(
        check=check,
        status="error",
        detail=said,
        advice="the server failed or has gone: look into its log, and run this again",
    )


def _library() -> Finding:
    versions = {"fairlane": __version__, "Python": platform.python_version()}
    for name in ("pymongo", "motor"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    said = ", ".join(f"{name} {number}" for name, number in versions.items())
    return Finding(check="library", status="ok", detail=said, data=versions)
