"""Tell health while a process works: over HTTP, in a file."""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio

from fairlane.cli.worker.health import Ask
from fairlane.cli.worker.plan import HealthPlan
from fairlane.cli.worker.serving import HealthServer

__all__ = ("beside", "telling", "write")

logger: logging.Logger = logging.getLogger(__name__)

EVERY = 1.0


@asynccontextmanager
async def telling(plan: HealthPlan, ask: Ask) -> AsyncIterator[None]:
    """Tell what `ask` says for as long as the block lasts.

    Raises `FairlaneError` for a taken port.
    """
    async with AsyncExitStack() as stack:
        if plan.port is not None:
            await stack.enter_async_context(HealthServer(ask).listening(plan.host, plan.port))
        if plan.file is not None:
            await stack.enter_async_context(_written(plan.file, ask))
        yield


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a loop that never ends in the background of a block; its end is that of the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait((task,))
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a loop beside the worker has ended before it", exc_info=error)


async def _repeat(what: Callable[[], Awaitable[None]], seconds: float) -> None:
    """Do it now and again and again; log the first of several failures in a row."""
    is_failing = False
    while True:
        try:
            await what()
        except OSError as error:
            if not is_failing:
                logger.error("health cannot be told, trying on: %s", error)
            is_failing = True
        else:
            is_failing = False
        await asyncio.sleep(seconds)


@asynccontextmanager
async def _written(file: Path, ask: Ask) -> AsyncIterator[None]:
    # Threads of its own: the application may have all of the usual ones at work. The document is
    # made in the loop: a loop that hangs must not look healthy.
    limiter = anyio.CapacityLimiter(1)

    async def tell() -> None:
        await anyio.to_thread.run_sync(write, file, _line(ask), limiter=limiter)

    try:
        async with beside(_repeat(tell, EVERY)):
            yield
    finally:  # also of a worker that failed: the last thing it said must not stay
        with suppress(OSError):
            file.unlink()  # noqa: ASYNC240  the last thing that the process does


def _line(ask: Ask) -> str:
    return json.dumps({"at": datetime.now(UTC).isoformat(), **ask()}) + "\n"


def write(file: Path, text: str) -> None:
    """Replace the file in one step: whoever reads sees the old one or the new one, whole."""
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(file)
