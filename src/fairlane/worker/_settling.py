"""Settle leases: shielded, with a deadline, and again while the lease lasts if nobody answers."""

import logging
from itertools import count
from typing import Generic

import anyio

from fairlane.containing import contained
from fairlane.errors import LeaseLost
from fairlane.retry import Backoff
from fairlane.worker._health import Vitals
from fairlane.worker._held import Held
from fairlane.worker._outage import telling
from fairlane.worker._work import W, WorkSource
from fairlane.worker.events import EventKind, Reporter

__all__ = ("Settling",)

logger = logging.getLogger(__name__)

TRY_SECONDS = 3.0
"""How long one try may take. Not cut short by cancellation.

Then the source is told to give up, and may finish what it has begun: an `AsyncMongoTransport` that
hears nothing from its server takes `fairlane.shield.DEADLINE` for that, two seconds. So the second
try begins five seconds after the first, and a shutdown waits so long for the last one.
"""

PATIENCE_SECONDS = 10.0
"""For so long a settlement is tried at least: a short lease is renewed meanwhile."""

ENDED_SECONDS = 20.0
"""How long a source may take to tell its application and its history of the end of a lease."""

PAUSE = Backoff(base=0.05, cap=2.0)

KINDS: dict[str, EventKind] = {
    "ack": "acked",
    "nack": "nacked",
    "dead_letter": "dead_lettered",
    "release": "released",
}


class Settling(Generic[W]):
    def __init__(self, source: WorkSource[W], vitals: Vitals, report: Reporter) -> None:
        self._source = source
        self._vitals = vitals
        self._report = report
        self._failing: set[str] = set()  # tokens of leases

    async def settle(self, held: Held[W]) -> None:
        """End the lease as `held.outcome` says; tell how it went."""
        try:
            await self._settle(held)
        finally:
            telling = self._source.ended(held.work, held.outcome, held.ending)
            if telling is not None:
                # What an application does there ends some time, whoever cancels.
                with anyio.move_on_after(ENDED_SECONDS, shield=True):
                    await contained(telling)

    async def _settle(self, held: Held[W]) -> None:
        if held.lost is not None:
            self._tell_lost(held, held.lost)
        elif held.is_occupied:
            self._tell_unsettled(held, "a thread still works on the message")
        else:
            answer = None
            try:
                answer = await self._until_answered(held)
            finally:
                self._end_of_trouble(held)
                self._tell(held, answer)

    async def _until_answered(self, held: Held[W]) -> bool | None:
        """Return whether the lease was still held; None if it ran out without an answer.

        It is renewed meanwhile, but not for ever: a settlement may never be possible.
        """
        give_up_at = anyio.current_time() + max(held.visibility, PATIENCE_SECONDS)
        for attempt in count(1):
            answer = await self._try_once(held)
            is_ours = anyio.current_time() < held.safe_until
            if answer is not None:
                # Refused after an unanswered try, while nobody else can hold the group: that try
                # was applied and only its reply was lost.
                return answer or (attempt > 1 and is_ours)
            if not is_ours or anyio.current_time() >= give_up_at:
                break
            await anyio.sleep(PAUSE.delay(attempt))
        return None

    async def _try_once(self, held: Held[W]) -> bool | None:
        try:
            with anyio.move_on_after(TRY_SECONDS, shield=True):
                return await contained(self._call(held))
        except LeaseLost:
            return False
        except Exception as error:
            self._note_trouble(held, error)
        else:
            self._note_trouble(held, TimeoutError(f"no answer within {TRY_SECONDS:g} s"))
        return None

    def _note_trouble(self, held: Held[W], error: Exception) -> None:
        token = held.work.token
        if token in self._failing:
            return
        is_news = not self._failing  # a server that goes away fails all settlements alike
        self._failing.add(token)
        self._vitals.fail("settling")
        logger.warning(
            "cannot %s %s, trying on while the lease lasts: %r",
            held.outcome.verb,
            held.work.name,
            error,
            exc_info=telling(error) if is_news else None,
            extra=held.log_extra,
        )

    def _end_of_trouble(self, held: Held[W]) -> None:
        """Forget it, settled or not: claims tell whether the source is still away."""
        self._failing.discard(held.work.token)
        if not self._failing:
            self._vitals.recover("settling")

    async def _call(self, held: Held[W]) -> bool:
        return await self._source.settle(held.work, held.outcome)

    def _tell(self, held: Held[W], answer: bool | None) -> None:
        outcome = held.outcome
        if answer is None:
            self._tell_unsettled(held, "the source did not answer")
        elif answer:
            self._tell_settled(held)
        else:
            self._tell_lost(
                held,
                f"it was over before the {outcome.verb}: it expired, or the handler settled it "
                "itself, which the pool does",
            )

    def _tell_settled(self, held: Held[W]) -> None:
        work, outcome = held.work, held.outcome
        if outcome.verb == "dead_letter":
            logger.warning(
                "%s: %s, attempt %d: %s",
                work.grave,
                work.name,
                work.attempt,
                outcome.reason,
                extra=held.log_extra,
            )
        self._end(held, KINDS[outcome.verb], outcome.reason, delay=outcome.delay)

    def _end(
        self, held: Held[W], kind: EventKind, reason: str | None, *, delay: float = 0.0
    ) -> None:
        held.ending = kind
        self._report(kind, held.work, delay=delay, reason=reason)

    def _tell_lost(self, held: Held[W], why: str) -> None:
        logger.warning(
            "lost the lease on %s: %s; the pool settled nothing",
            held.work.name,
            why,
            extra=held.log_extra,
        )
        self._end(held, "lease_lost", why)

    def _tell_unsettled(self, held: Held[W], why: str) -> None:
        logger.error(
            "could not %s %s: %s; unless the source did it all the same, it comes again when its "
            "lease has run out",
            held.outcome.verb,
            held.work.name,
            why,
            extra=held.log_extra,
        )
        self._end(held, "unsettled", why)
