"""Keep a lease alive while its handler works; stop the handler when that fails."""

import logging
from itertools import count
from typing import Generic

import anyio

from fairlane.errors import LeaseLost
from fairlane.retry import Backoff
from fairlane.worker._cancellation import contained
from fairlane.worker._health import Vitals
from fairlane.worker._held import Held
from fairlane.worker._work import W, WorkSource

__all__ = ("Renewer",)

logger = logging.getLogger(__name__)

PAUSE = Backoff(base=0.05, cap=2.0)

TOLERANCE = 0.1
"""Seconds by which a wait may last too long without being worth a line."""


class Renewer(Generic[W]):
    def __init__(self, source: WorkSource[W], vitals: Vitals) -> None:
        self._source = source
        self._vitals = vitals
        self._failing: set[str] = set()  # tokens of leases
        self._blocked_until = 0.0

    async def keep(self, held: Held[W]) -> None:
        """Renew until `held.renewing` is cancelled; each renewal moves the handler's deadline.

        The deadline is the guard: it ends the handler in time even while a renewal hangs.
        """
        due = max(held.renew_at, held.taken_at)
        with held.renewing:
            try:
                while True:
                    await self._sleep_until(due, held)
                    await self._renew(held)
                    due = max(held.renew_at, anyio.current_time())
            except LeaseLost:
                held.lose(
                    "somebody else has it, or the handler settled it itself, which the pool does"
                )
                held.working.cancel()
            finally:
                self._end_of_trouble(held)

    async def _sleep_until(self, due: float, held: Held[W]) -> None:
        try:
            await anyio.sleep_until(due)
        finally:  # a handler that blocked the loop may have ended, which cancels the renewals
            self._note_delay(due, held)

    def _note_delay(self, due: float, held: Held[W]) -> None:
        """Tell of each time that the loop stood still, once for all leases."""
        now = anyio.current_time()
        if now - due < max(TOLERANCE, held.visibility / 12) or due < self._blocked_until:
            return
        self._blocked_until = now
        logger.warning(
            "the event loop was blocked for %.1f s or longer, so no lease could be renewed; "
            "make a handler that blocks a plain function (`def`), which runs in a thread",
            now - due,
            extra=held.log_extra,
        )

    async def _renew(self, held: Held[W]) -> None:
        for attempt in count(1):
            if await self._try_once(held):
                self._end_of_trouble(held)
                return
            await anyio.sleep(min(PAUSE.delay(attempt), held.visibility / 12))

    async def _try_once(self, held: Held[W]) -> bool:
        asked_at = anyio.current_time()
        try:
            # A reply that never comes must leave time for a second try.
            limit = held.visibility / 6
            with anyio.move_on_after(limit):
                work = await contained(self._source.extend(held.work, held.visibility))
                held.renewed(work, held.visibility, asked_at=asked_at)
                return True
        except LeaseLost:
            raise
        except Exception as error:
            self._note_trouble(held, error)
        else:
            self._note_trouble(held, TimeoutError(f"no answer within {limit:g} s"))
        return False

    def _note_trouble(self, held: Held[W], error: Exception) -> None:
        """With all slots taken nothing is claimed, and only renewals can tell of an outage."""
        if held.work.token in self._failing:
            return
        self._failing.add(held.work.token)
        self._vitals.fail("renewing")
        logger.warning(
            "cannot renew the lease on %s, trying on: %r",
            held.work.name,
            error,
            extra=held.log_extra,
        )

    def _end_of_trouble(self, held: Held[W]) -> None:
        self._failing.discard(held.work.token)
        if not self._failing:
            self._vitals.recover("renewing")
