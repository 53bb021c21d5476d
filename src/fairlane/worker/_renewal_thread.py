"""Renew leases where no handler can get into the way: in a thread, by connections of its own."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Generic

import anyio

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
    separate = source.separate
    if separate is not None:
        async with _in_thread(RenewalThread(renewals, separate)):
            yield
        return
    async with anyio.create_task_group() as group:
        group.start_soon(renewals.run_singly, source.extend)
        yield
        group.cancel_scope.cancel()


class RenewalThread(Generic[W]):
    def __init__(self, renewals: Renewals[W], separate: Callable[[], Separate[W]]) -> None:
        self._renewals = renewals
        self._separate = separate
        self._handlers = ThisLoop()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False
        self.ended = anyio.Event()

    def start(self) -> None:
        # A daemon: one that waits for a dead server must not keep the process alive.
        threading.Thread(target=self._live, name="fairlane-renewals", daemon=True).start()

    def stop(self) -> None:
        # Race: the thread begins just now. It sees this, or has a loop by now.
        self._is_stopping = True
        if self._loop is not None:
            in_loop(self._loop, self._stopped.set)()

    def _live(self) -> None:
        # Of the same kind, so that both loops read the same clock.
        kind = type(self._handlers.loop)
        try:
            with asyncio.Runner(loop_factory=kind) as runner:
                runner.run(self._main())
        finally:
            in_loop(self._handlers.loop, self.ended.set)()

    async def _main(self) -> None:
        self._stopped = anyio.Event()
        self._loop = asyncio.get_running_loop()
        while not self._is_stopping:
            try:
                await self._renew_until_stopped()
            except Exception:  # no lease may be lost by a fault in here
                logger.exception("the renewals begin again in %g s", RESTART_SECONDS)
                await anyio.sleep(RESTART_SECONDS)

    async def _renew_until_stopped(self) -> None:
        separate = self._separate()
        try:
            async with anyio.create_task_group() as group:
                watch = OtherLoop(self._handlers, group)
                group.start_soon(self._renewals.run, separate.extend_many, watch)
                await self._stopped.wait()
                group.cancel_scope.cancel()
        finally:
            with anyio.move_on_after(CLOSING_SECONDS, shield=True):
                await separate.close()


@asynccontextmanager
async def _in_thread(thread: RenewalThread[W]) -> AsyncIterator[None]:
    thread.start()
    try:
        yield
    finally:
        thread.stop()
        with anyio.move_on_after(CLOSING_SECONDS, shield=True):
            await thread.ended.wait()
