"""Get leases for the free handler slots, and rest while there is nothing to claim."""

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic

import anyio

from fairlane.containing import contained
from fairlane.worker._health import Vitals
from fairlane.worker._held import Held
from fairlane.worker._outage import Outage, is_hopeless
from fairlane.worker._resting import Rest, wake_all
from fairlane.worker._settings import Settings
from fairlane.worker._work import Foresee, W, WorkSource

__all__ = ("Fetching",)

MOST = 64
"""So many are claimed together at most: the heads of all have to arrive before one is handled."""


class Fetching(Generic[W]):
    """The claiming side of a run. Any number of `fetch` tasks may share it."""

    def __init__(
        self,
        source: WorkSource[W],
        settings: Settings,
        vitals: Vitals,
        *,
        stopping: anyio.Event,
        give_back: Callable[[Held[W]], Coroutine[Any, Any, None]],
    ) -> None:
        self._source = source
        self._settings = settings
        self._vitals = vitals
        self._stopping = stopping
        self._give_back = give_back
        self._slots = anyio.Semaphore(settings.concurrency)
        self.rest = Rest(settings.poll_interval, vitals, stopping=stopping)
        self._foresee = None if source.foresee is None else partial(self._look, source.foresee)
        self._outage = Outage("claiming", vitals)
        self.hopeless: Exception | None = None

    async def fetch(self, start: Callable[[Held[W]], None]) -> None:
        """Claim for the free slots until stopped. The slot comes first: no lease waits for one."""
        while not self._stopping.is_set():
            await self._slots.acquire()
            if self._stopping.is_set():
                return
            slots = 1 + self._take_more_slots()
            try:
                held = await self._claim(slots)
            except Exception as error:
                self._free_slots(slots)
                await self._recover(error)
            else:
                self._free_slots(slots - len(held))
                await self._use(held, start)

    def free_slot(self) -> None:
        self._slots.release()
        self.rest.bell.ring()  # the group of the message that is done may be claimable again

    def _take_more_slots(self) -> int:
        """Take this claimer's share of the slots that are free besides; return how many."""
        if not self._source.takes_many:
            return 0
        share = math.ceil(self._settings.concurrency / self._settings.claimers)
        more = min(self._slots.value, share - 1, MOST - 1)
        for _ in range(more):
            self._slots.acquire_nowait()
        return more

    def _free_slots(self, number: int) -> None:
        for _ in range(number):
            self._slots.release()

    def look_again(self) -> None:
        """Something may be claimable; do not sleep over it."""
        self.rest.bell.ring()

    def wake_all(self) -> None:
        """Let every fetcher see that it is to stop."""
        wake_all(self._slots)
        self.rest.bell.wake_all()

    async def _claim(self, n: int) -> list[Held[W]]:
        asked_at = anyio.current_time()
        self.rest.claim_begins()
        with self._asking():
            leased = await contained(self._source.claim(n))
        self.rest.claim_ends(len(leased))
        now = anyio.current_time()
        return [Held(work, asked_at=asked_at, now=now) for work in leased]

    async def _use(self, held: Sequence[Held[W]], start: Callable[[Held[W]], None]) -> None:
        """Hand the slots on with the leases; without any, wait for a reason to try again."""
        if not held:
            await self._rest()
        elif self._stopping.is_set():
            async with anyio.create_task_group() as group:
                for each in held:
                    group.start_soon(self._give_back, each)
        else:
            self.rest.bell.ring()  # where some were, there may be more
            for each in held:
                start(each)

    async def _recover(self, error: Exception) -> None:
        if is_hopeless(error, has_worked=self._vitals.has_polled):
            self.hopeless = error
            self._stopping.set()
            return
        with anyio.move_on_after(self._outage.note(error)):
            await self._stopping.wait()

    async def _rest(self) -> None:
        if self._stopping.is_set():  # meanwhile: the call that wakes all sleepers is over
            return
        try:
            await self.rest.until_reason(self._foresee)
        except Exception as error:
            await self._recover(error)

    async def _look(self, foresee: Foresee) -> float | None:
        with self._asking():
            return await contained(foresee())

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Tell of a question to the source: that it waits, and that it was answered."""
        seconds = self._vitals.patience
        loop = asyncio.get_running_loop()
        delay = loop.call_later(seconds, self._outage.note_delay, seconds)
        try:
            with self._vitals.polling():
                yield
        finally:
            delay.cancel()
        self._outage.end()
