"""A pool at work beside an application that is not bound to it."""

import asyncio
import logging
from types import TracebackType
from typing import Any, Self

import anyio

from fairlane.errors import FairlaneError, describe
from fairlane.shield import outlast
from fairlane.worker import WorkerPool

__all__ = ("Background",)

logger = logging.getLogger(__name__)

GIVING_BACK = 10.0
"""Seconds for a cancelled pool to give its leases back; six is what it needs at most."""


class Background:
    """A pool in a task of its own from entering to leaving; leaving it waits for the drain.

    `async with pool` would bind the pool to the task that enters it: a failing pool cancels that
    task, and the same one must leave. Frameworks start and stop in tasks of their choice, and go
    on answering requests when the pool has failed.
    """

    def __init__(self, pool: WorkerPool[Any]) -> None:
        self.pool = pool
        self._task: asyncio.Task[None] | None = None

    @property
    def failure(self) -> BaseException | None:
        """Why the pool has ended, if nobody had asked it to."""
        task = self._task
        if task is None or not task.done():
            return None
        if task.cancelled():
            return FairlaneError("the task of the pool was cancelled, but not by the application")
        return task.exception()

    async def __aenter__(self) -> Self:
        name = f"fairlane pool {self.pool.worker_id}"
        self._task = asyncio.create_task(self.pool.run(), name=name)
        self._task.add_done_callback(_log_failure)
        await asyncio.sleep(0)  # its health says "starting" from now on, no longer "stopped"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Drain, or cancel the handlers if the application was; raise what the pool failed with.

        An error of the application itself goes first: that of the pool has been logged.
        """
        if self._task is None:
            return
        if error is None or isinstance(error, Exception):
            await self._drain(self._task)
        else:
            await _cancel(self._task)
        if error is None and self.failure is not None:
            raise self.failure

    async def _drain(self, task: asyncio.Task[None]) -> None:
        self.pool.stop()
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            await _cancel(task)
            raise


async def _cancel(task: asyncio.Task[None]) -> None:
    # Where `asyncio.run` ends it has cancelled every task already, and once is enough: a second
    # time would cut off the giving back of leases.
    if not task.cancelling():
        task.cancel()
    with anyio.CancelScope(shield=True):
        await outlast(task, GIVING_BACK)


def _log_failure(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        logger.error(
            "the worker pool of this application has failed; requests are answered without it: %s",
            describe(error, 300),
            exc_info=error,
        )
