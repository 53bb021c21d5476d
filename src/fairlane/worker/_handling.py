"""One lease from its claim to its settlement."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Generic

import anyio

from fairlane.containing import (
    Owner,
    StrayCancellation,
    contained,
    deliver_cancellation,
)
from fairlane.errors import FairlaneError, LeaseLost
from fairlane.worker._calling import ThreadCall
from fairlane.worker._health import Vitals
from fairlane.worker._held import Held
from fairlane.worker._outcome import Outcome
from fairlane.worker._renewal import Renewals
from fairlane.worker._settings import Settings
from fairlane.worker._settling import Settling
from fairlane.worker._work import W, WorkSource
from fairlane.worker.events import Reporter

__all__ = ("Handling",)

logger = logging.getLogger(__name__)


class Handling(Generic[W]):
    """Runs the handler on a lease, renews the lease meanwhile, and settles it."""

    def __init__(
        self,
        source: WorkSource[W],
        settings: Settings,
        *,
        owner: Owner,
        renewals: Renewals[W],
        settling: Settling[W],
        vitals: Vitals,
        report: Reporter,
    ) -> None:
        self._source = source
        self._owner = owner
        self._renewals = renewals
        self._settling = settling
        self._vitals = vitals
        self._report = report
        self._threads = anyio.CapacityLimiter(settings.concurrency)
        self._delivering: set[Held[W]] = set()

    def give_back_unbegun(self) -> None:
        """Give back at once what waits for something, a guard say, before its handler is called."""
        for held in self._delivering:
            if not held.has_begun and held.thread is None:
                held.working.cancel()

    async def handle(self, held: Held[W]) -> None:
        """Deliver and settle. Cancelled, it gives the lease back unless the handler has ended."""
        try:
            refusal = self._source.refusal(held.work)
            if refusal is not None:
                held.outcome = refusal
            else:
                await self._deliver(held)
        finally:
            await self._settling.settle(held)
        self._renewals.discard(held)
        if held.thread is not None and held.is_occupied:
            await held.thread.ended.wait()  # it keeps its slot: the number of threads is bounded

    async def _deliver(self, held: Held[W]) -> None:
        self._delivering.add(held)
        try:
            with held.working, held.guarded(), self._vitals.running():
                if held.lost is None:  # a loop that stood still may start it late
                    held.outcome = await self._answer(held)
        finally:
            self._delivering.discard(held)

    async def _answer(self, held: Held[W]) -> Outcome:
        try:
            return await contained(self._call(held))
        except asyncio.CancelledError:
            held.outcome = held.interruption
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, StrayCancellation) and self._owner.is_cancelled:
                return held.interruption  # `asyncio.run` ends: it cancels all tasks there are
            return await self._failed(held, error)

    async def _call(self, held: Held[W]) -> Outcome:
        hold = HandlersHold(held, self._source, self._threads)
        outcome = await self._source.handle(held.work, hold)
        await deliver_cancellation()  # here it fails the message, later it would be forgotten
        return outcome

    async def _failed(self, held: Held[W], error: BaseException) -> Outcome:
        try:
            outcome = await self._source.judge(held.work, error)
        except asyncio.CancelledError:
            held.outcome = held.interruption
            raise
        is_expected = self._source.is_expected(held.work, error)
        logger.log(
            logging.INFO if is_expected else logging.ERROR,
            "the handler failed on %s, attempt %d: %s",
            held.work.name,
            held.work.attempt,
            outcome.reason,
            exc_info=None if is_expected else error,
            extra=held.log_extra,
        )
        self._report("handler_failed", held.work, reason=outcome.reason)
        return outcome


class HandlersHold(Generic[W]):
    """What a handler may do with the lease that it works under; see `Hold`."""

    def __init__(
        self, held: Held[W], source: WorkSource[W], threads: anyio.CapacityLimiter
    ) -> None:
        self._held = held
        self._source = source
        self._threads = threads
        self._loop = asyncio.get_running_loop()

    @property
    def is_lost(self) -> bool:
        held = self._held
        return held.is_gone or held.lost is not None or self._loop.time() >= held.give_up_at

    def begin(self) -> None:
        self._held.has_begun = True

    async def until_lost(self) -> None:
        await self._held.was_lost.wait()

    async def extend(self, seconds: float) -> None:
        asked_at = anyio.current_time()
        try:
            work = await self._source.extend(self._held.work, seconds)
        except LeaseLost:
            self._held.lose("a renewal that the handler asked for was refused")
            raise
        self._held.renewed(work, seconds, asked_at=asked_at)

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        if self._held.thread is not None:
            raise FairlaneError("a thread works on this already")
        self._held.thread = ThreadCall(function)
        return await self._held.thread.run(self._threads)
