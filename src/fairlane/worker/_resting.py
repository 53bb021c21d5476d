"""When a pool that has found nothing to claim looks again. Here nothing is read or written."""

import math
import random
from collections.abc import Iterable

import anyio

from fairlane.checks import PRIORITIES
from fairlane.worker._health import Vitals
from fairlane.worker._lull import JITTER, SLACK, Lull
from fairlane.worker._work import Foresee

__all__ = ("Bell", "Rest")

GROWTH = 10
LONGEST = 10.0
"""An interval grows tenfold at most, and to so many seconds, while the source is watched."""

STEP = 0.005
WIDEST = 0.5
"""Seconds within which a pool answers a wake-up from elsewhere. All pools hear of each message.

A pool adds a step after a claim that was in vain, and halves after one that was not. For n pools
and one message at a time that comes to some 10 n milliseconds each, of which the first of all takes
about 10; and what is published meanwhile costs the others no claim of its own. At the widest each
pool claims about four times a second for others, however much they publish.
"""

AGAIN = 0.02
"""Seconds after which a pool looks again if what was due was gone when it was claimed.

Doubled, up to `poll_interval`, while something is due that it cannot have.
"""

APART = 0.01
"""A wake-up may tell of what has been claimed just now, in this process."""


class Bell:
    """Wakes one sleeper for each ring. A ring that nobody hears is kept for the next who comes."""

    def __init__(self) -> None:
        self._rings = anyio.Semaphore(0, fast_acquire=True)

    def ring(self) -> None:
        if not self._rings.value:
            self._rings.release()

    def hush(self) -> None:
        """Forget a kept ring: what it told of is about to be looked for."""
        if self._rings.value:
            self._rings.acquire_nowait()

    async def wait(self) -> None:
        await self._rings.acquire()

    def wake_all(self) -> None:
        for _ in range(self._rings.statistics().tasks_waiting):
            self._rings.release()


class Rest:
    """The rest of all claimers of a pool: one of those that rest keeps the time for the others.

    It is a `Sleeper`: what others make claimable shortens it. Where slots are `reserved` above some
    floors, and others work on, there is a lull in each of these lanes in which nothing was found.
    """

    def __init__(
        self,
        poll_interval: float,
        vitals: Vitals,
        *,
        stopping: anyio.Event,
        reserved: Iterable[int] = (),
    ) -> None:
        self.bell = Bell()
        self.has_begun = anyio.Event()
        self._poll_interval = self._interval = poll_interval
        self._vitals = vitals
        self._stopping = stopping
        self._spread = 0.0
        self._is_kept = False
        self._scope: anyio.CancelScope | None = None
        self._woken_at = math.inf
        self._due_at = math.inf
        self._is_known = False
        self._is_due_now = False
        self._look_at = math.inf
        self._again = AGAIN
        self._was_woken = False
        self._claimed_at = -math.inf
        self._lulls = {floor: Lull(poll_interval, apart=APART) for floor in reserved}
        self._lulled = 0

    def announced(self) -> None:
        """Something may be claimable; nobody is to sleep over it."""
        for lull in self._lulls.values():
            lull.told()
        self.bell.ring()

    def expect_more(self, lane: int) -> None:
        """Where some work was, up to this lane, there may be more."""
        for lull in self._lulls_up_to(lane):
            lull.end()
        self.bell.ring()

    def wake(self, delay: float, lane: int = PRIORITIES[-1]) -> None:
        for lull in self._lulls_up_to(lane):
            lull.told(delay)
        if self._lulled:
            self.bell.ring()  # whoever hears it sleeps until then
        now = anyio.current_time()
        late = random.uniform(0, self._spread)
        if delay > 0:
            self._due_at = min(self._due_at, now + delay + SLACK + late)
        else:
            self._woken_at = min(self._woken_at, max(now + late, self._claimed_at + APART))
        self._shorten(self._alarm_at)

    def look_soon(self) -> None:
        self._interval = self._poll_interval
        self._shorten(self._next_poll())

    def watched(self, is_watched: bool) -> None:
        self._vitals.watch(is_watched)
        if not is_watched:
            self._is_known = False
            self.look_soon()

    def claim_begins(self, floor: int) -> None:
        """All that has been told so far is about to be looked for, above a reserved floor."""
        if floor in self._lulls:
            self._lulls[floor].claim_begins()
            return
        self.bell.hush()
        self._claimed_at = anyio.current_time()
        self._woken_at = math.inf
        if self._due_at <= self._claimed_at:
            self._due_at, self._is_known = math.inf, False

    def claim_ends(self, floor: int, found: int) -> None:
        if floor in self._lulls:
            self._lulls[floor].claim_ends(found)
            return
        was_woken, self._was_woken = self._was_woken, False
        self._judge_due(found)
        if found:
            self._interval = self._poll_interval
            self._spread = self._spread / 2 if self._spread > STEP else 0.0
        elif was_woken:
            self._spread = min(self._spread + STEP, WIDEST)

    def _judge_due(self, found: int) -> None:
        """What was due now was claimed, or it was gone: when the next one is due is not known."""
        if not self._is_due_now:
            return
        self._is_due_now = False
        if found:
            self._is_known, self._again = False, AGAIN
        elif self._again < self._poll_interval:
            self._look_at = anyio.current_time() + self._again
            self._again *= 2

    async def until_reason(self, foresee: Foresee | None) -> None:
        """Return when there is a reason to claim: a ring, something due, or time to poll.

        With `foresee` a poll is no claim: it tells until when the rest goes on.
        """
        self.has_begun.set()
        if self._is_kept:
            await self.bell.wait()
            return
        self._is_kept = True
        try:
            await self._keep(foresee)
        finally:
            self._is_kept = False

    def is_lull(self, floor: int) -> bool:
        """Whether a claim in this lane is of no use for now."""
        return floor in self._lulls and not self._lulls[floor].is_over

    async def until_ring(self, floor: int) -> None:
        """Return on a ring, or when the lull in this lane is over as far as is known now."""
        self.has_begun.set()
        self._lulled += 1
        try:
            with anyio.CancelScope(deadline=self._lulls[floor].until):
                await self.bell.wait()
        finally:
            self._lulled -= 1

    def _lulls_up_to(self, lane: int) -> Iterable[Lull]:
        return [lull for floor, lull in self._lulls.items() if floor <= lane]

    async def _keep(self, foresee: Foresee | None) -> None:
        if foresee is not None and not self._is_known and await self._is_due(foresee):
            return
        while not self._stopping.is_set() and not await self._is_roused():
            if foresee is None or await self._is_due(foresee):
                return
            self._grow()

    async def _is_roused(self) -> bool:
        """Sleep; tell whether that ends by anything but the time to poll."""
        self._scope = anyio.CancelScope(deadline=min(self._next_poll(), self._alarm_at))
        with self._scope as scope:
            await self.bell.wait()
        self._scope = None
        if not scope.cancelled_caught:
            return True
        self._was_woken = anyio.current_time() >= self._alarm_at
        return self._was_woken

    async def _is_due(self, foresee: Foresee) -> bool:
        """Learn when the first is due; what was known before may have been moved since."""
        self._due_at, self._is_known = math.inf, False
        self._look_at = math.inf
        seconds = await foresee()
        self._is_known = True
        self._is_due_now = seconds is not None and seconds <= 0
        if seconds is not None and seconds > 0:
            self._due_at = min(self._due_at, anyio.current_time() + seconds + SLACK)
            self._again = AGAIN
        return self._is_due_now

    def _grow(self) -> None:
        """Poll less often where all that others do is told."""
        if self._vitals.is_watched:
            longest = min(GROWTH * self._poll_interval, LONGEST)
            self._interval = max(self._poll_interval, min(2 * self._interval, longest))

    @property
    def _alarm_at(self) -> float:
        return min(self._woken_at, self._due_at)

    def _next_poll(self) -> float:
        at = anyio.current_time() + self._interval * random.uniform(1, 1 + JITTER)
        return min(self._look_at, at)

    def _shorten(self, at: float) -> None:
        if self._scope is not None:
            self._scope.deadline = min(self._scope.deadline, at)
