"""One lease from its claim to its settlement."""

import asyncio
import logging
from typing import Generic

import anyio
from anyio.abc import TaskGroup

from fairlane.model import E
from fairlane.retry import Reject, Retry
from fairlane.worker._calling import Handler, ThreadCall, is_async
from fairlane.worker._cancellation import (
    Owner,
    StrayCancellation,
    contained,
    deliver_cancellation,
)
from fairlane.worker._health import Vitals
from fairlane.worker._held import Held
from fairlane.worker._outcome import ACK, RELEASE, Outcome, after_failure, before_delivery
from fairlane.worker._renewal import Renewer
from fairlane.worker._settings import Settings
from fairlane.worker._settling import Settling
from fairlane.worker.events import Reporter

__all__ = ("Handling",)

logger = logging.getLogger(__name__)


class Handling(Generic[E]):
    """Runs the handler on a lease, renews the lease meanwhile, and settles it."""

    def __init__(
        self,
        handler: Handler[E],
        settings: Settings,
        *,
        owner: Owner,
        renewer: Renewer[E],
        settling: Settling[E],
        vitals: Vitals,
        report: Reporter,
    ) -> None:
        self._handler = handler
        self._is_async = is_async(handler)
        self._settings = settings
        self._owner = owner
        self._renewer = renewer
        self._settling = settling
        self._vitals = vitals
        self._report = report
        self._threads = anyio.CapacityLimiter(settings.concurrency)

    async def handle(self, held: Held[E], renewals: TaskGroup) -> None:
        """Deliver and settle. Cancelled, it gives the lease back unless the handler has ended."""
        worn_out = before_delivery(held.lease.attempt, self._settings.max_attempts)
        try:
            if worn_out is not None:
                held.outcome = worn_out
            else:
                await self._deliver(held, renewals)
        finally:
            await self._settling.settle(held)
        if held.thread is not None and held.is_occupied:
            await held.thread.ended.wait()  # it keeps its slot: the number of threads is bounded

    async def _deliver(self, held: Held[E], renewals: TaskGroup) -> None:
        with anyio.CancelScope(deadline=held.give_up_at) as scope, self._vitals.running():
            renewals.start_soon(self._renewer.keep, held, scope)
            try:
                held.outcome = await self._answer(held)
            finally:
                held.renewing.cancel()
                if scope.cancel_called and held.lost is None:
                    held.lost = "it could not be renewed in time"

    async def _answer(self, held: Held[E]) -> Outcome:
        try:
            await contained(self._call(held))
        except asyncio.CancelledError:
            held.outcome = RELEASE
            raise
        except (Exception, SystemExit) as error:
            if isinstance(error, StrayCancellation) and self._owner.is_cancelled:
                return RELEASE  # `asyncio.run` ends: it cancels every task, not only its own
            return self._failed(held, error)
        return ACK

    async def _call(self, held: Held[E]) -> None:
        if self._is_async:
            answer = self._handler(held.lease)
            assert answer is not None
            await answer
        else:
            held.thread = ThreadCall(self._handler, held.lease)
            await held.thread.run(self._threads)
        await deliver_cancellation()  # here it fails the message, later it would be forgotten

    def _failed(self, held: Held[E], error: BaseException) -> Outcome:
        outcome = after_failure(
            error,
            attempt=held.lease.attempt,
            max_attempts=self._settings.max_attempts,
            backoff=self._settings.backoff,
        )
        is_expected = isinstance(error, Retry | Reject)
        logger.log(
            logging.INFO if is_expected else logging.ERROR,
            "the handler failed on group %r (seq %d, attempt %d of %d): %s",
            held.lease.group_id,
            held.lease.seq,
            held.lease.attempt,
            self._settings.max_attempts,
            outcome.reason,
            exc_info=None if is_expected else error,
            extra=held.log_extra,
        )
        self._report("handler_failed", held.lease, reason=outcome.reason)
        return outcome
