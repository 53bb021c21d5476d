"""Let a write that has begun be finished, whoever cancels the caller meanwhile."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import anyio

__all__ = ("finish",)

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


async def _undone(task: asyncio.Future[T], undo: Callable[[T], Awaitable[object]] | None) -> None:
    try:
        result = await task
        if undo is not None:
            await undo(result)
    except Exception as error:
        logger.warning("a cancelled call failed while it was being finished: %r", error)


async def _settle(work: Coroutine[Any, Any, None], deadline: float) -> None:
    """Wait for `work`, absorbing further cancellations: the first one is already on its way up."""
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + deadline
    task = asyncio.ensure_future(work)
    while not task.done() and (left := ends_at - loop.time()) > 0:
        try:
            await asyncio.wait((task,), timeout=left)
        except asyncio.CancelledError:
            continue
    if not task.done():
        logger.warning("a cancelled call could not be finished within %g s", deadline)
        task.cancel()
        await asyncio.wait((task,), timeout=1.0)
