"""Let a write that has begun be finished, whoever cancels the caller meanwhile."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import anyio

__all__ = ("finish", "outlast")

T = TypeVar("T")
logger: logging.Logger = logging.getLogger(__name__)

DEADLINE = 2.0


async def finish(
    work: Coroutine[Any, Any, T],
    *,
    undo: Callable[[T], Awaitable[object]] | None = None,
    deadline: float = DEADLINE,
) -> T:
    """Run `work` to its end even if the caller is cancelled; then let the cancellation go on.

    A cancelled caller never sees the result, so `undo` gets it first. From the moment of the
    cancellation `work` and `undo` have `deadline` seconds together; past it they are cancelled.
    `asyncio.run` cancels all tasks when its main one ends, this `work` too: end your tasks first.
    """
    task = asyncio.ensure_future(work)
    try:
        # asyncio's own cancellation passes through anyio's shields, hence a task and a wait.
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await _settle(_undone(task, undo), deadline)
        raise
    return task.result()


async def outlast(task: asyncio.Future[Any], seconds: float) -> None:
    """Wait so long for a task, absorbing cancellations: a first one is already on its way up.

    Shielded: a scope of anyio that is cancelled would cancel the wait in every turn of the loop.
    """
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + seconds
    with anyio.CancelScope(shield=True):
        while not task.done() and (left := ends_at - loop.time()) > 0:
            try:
                await asyncio.wait((task,), timeout=left)
            except asyncio.CancelledError:
                continue


async def _undone(task: asyncio.Future[T], undo: Callable[[T], Awaitable[object]] | None) -> None:
    try:
        result = await task
        if undo is not None:
            await undo(result)
    except Exception as error:
        logger.warning("a cancelled call failed while it was being finished: %r", error)


async def _settle(work: Coroutine[Any, Any, None], deadline: float) -> None:
    """Run `work` to its end, or cancel it at the deadline."""
    task = asyncio.ensure_future(work)
    await outlast(task, deadline)
    if not task.done():
        # Whoever was cancelled hears that; in an outage it would be a line for every call.
        logger.debug("a cancelled call could not be finished within %g s", deadline)
        task.cancel()
        await asyncio.wait((task,), timeout=1.0)
