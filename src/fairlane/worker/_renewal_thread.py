"""Renew leases where no handler can get into the way: in a thread, by connections of its own."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Generic

import anyio
from anyio.abc import TaskGroup

from fairlane.containing import contained
from fairlane.errors import describe
from fairlane.worker._blocking import OtherLoop, ThisLoop
from fairlane.worker._loops import in_loop
from fairlane.worker._renewal import Renewals
from fairlane.worker._work import Separate, W, WorkSource

__all__ = ("renewing",)

logger = logging.getLogger(__name__)

CLOSING_SECONDS = 1.0
"""How long the end of a pool waits for the connections of its renewals to be closed."""

RESTART_SECONDS = 1.0


@asynccontextmanager
async def renewing(renewals: Renewals[W], source: WorkSource[W]) -> AsyncIterator[None]:
    """Renew meanwhile; in the loop of the handlers only if the source has no other connection."""
    async with anyio.create_task_group() as group:
        if source.separate is None:
            group.start_soon(renewals.run_singly, source.extend)
            yield
        else:
            thread = RenewalThread(renewals, source.separate)
            async with _at_work(thread):
                group.start_soon(_stand_in, thread, renewals, source)
                yield
        group.cancel_scope.cancel()


async def _stand_in(
    thread: "RenewalThread[W]", renewals: Renewals[W], source: WorkSource[W]
) -> None:
    """Renew here if the thread ends before it is told to."""
    await thread.ended.wait()
    if thread.is_stopping:
        return
    logger.error("the thread of the renewals has died; they go on in the loop of the handlers")
    await renewals.run_singly(source.extend)


class RenewalThread(Generic[W]):
    def __init__(self, renewals: Renewals[W], separate: Callable[[], Separate[W]]) -> None:
        self._renewals = renewals
        self._separate = separate
        self._handlers = ThisLoop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.is_stopping = False
        self.ended = anyio.Event()

    def start(self) -> None:
        # A daemon: one that waits for a dead server must not keep the process alive.
        threading.Thread(target=self._live, name="fairlane-renewals", daemon=True).start()

    def stop(self) -> None:
        # Race: the thread begins just now. It sees this, or has a loop by now.
        self.is_stopping = True
        if self._loop is not None:
            in_loop(self._loop, self._stopped.set)()

    def _live(self) -> None:
        # Of the same kind, so that both loops read the same clock.
        kind = type(self._handlers.loop)
        try:
            with asyncio.Runner(loop_factory=kind) as runner:
                runner.run(self._main())
        except BaseException:  # whatever it is, the loop of the handlers stands in
            logger.exception("the thread of the renewals ends")
        finally:
            in_loop(self._handlers.loop, self.ended.set)()

    async def _main(self) -> None:
        self._stopped = anyio.Event()
        self._loop = asyncio.get_running_loop()
        while not self.is_stopping:
            try:
                await self._renew_until_stopped()
            except Exception:
                logger.exception("the renewals begin again in %g s", RESTART_SECONDS)
                await anyio.sleep(RESTART_SECONDS)

    async def _renew_until_stopped(self) -> None:
        separate = self._separate()
        try:
            async with anyio.create_task_group() as group:
                watch = OtherLoop(self._handlers, group)
                extend = Opened(separate, group).extend_many
                group.start_soon(self._renewals.run, extend, watch)
                await self._stopped.wait()
                group.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                await separate.close()


class Opened(Generic[W]):
    """Opens the connections at the first renewal, in a task that outlives the time it may take."""

    def __init__(self, separate: Separate[W], group: TaskGroup) -> None:
        self._separate = separate
        self._group = group
        self._opening: anyio.Event | None = None

    async def extend_many(self, works: Sequence[W], seconds: float) -> Sequence[W | None]:
        if self._opening is None:
            self._opening = anyio.Event()
            self._group.start_soon(self._open, self._opening)
        await self._opening.wait()
        return await self._separate.extend_many(works, seconds)

    async def _open(self, opening: anyio.Event) -> None:
        try:
            await contained(self._separate.open())
        except Exception as error:  # it comes again with the renewal itself
            logger.debug("no connection for renewals: %s", describe(error, 300))
        finally:
            opening.set()


@asynccontextmanager
async def _at_work(thread: RenewalThread[W]) -> AsyncIterator[None]:
    thread.start()
    try:
        yield
    finally:
        thread.stop()
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            await thread.ended.wait()
