"""Get leases for the free handler slots, and rest while there is nothing to claim."""

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Generic

import anyio
import anyio.lowlevel

from fairlane.containing import contained
from fairlane.worker._health import Vitals
from fairlane.worker._held import Held
from fairlane.worker._lanes import Lanes
from fairlane.worker._outage import Outage, is_hopeless
from fairlane.worker._resting import Bell, Rest
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
        self._lanes = Lanes(settings.slots)
        self._freed = Bell()
        self.rest = Rest(
            settings.poll_interval, vitals, stopping=stopping, reserved=self._lanes.reserved
        )
        self._foresee = None if source.foresee is None else partial(self._look, source.foresee)
        self._outage = Outage("claiming", vitals)
        self.hopeless: Exception | None = None

    async def fetch(self, start: Callable[[Held[W]], None]) -> None:
        """Claim for the free slots until stopped. The slot comes first: no lease waits for one."""
        while not self._stopping.is_set():
            floor = self._lanes.open_floor
            if floor is None:
                await self._freed.wait()
            elif self.rest.is_lull(floor):
                await self.rest.until_ring(floor)
            else:
                await self._fetch(floor, start)
                await anyio.lowlevel.checkpoint()  # what is leased begins before more is

    async def _fetch(self, floor: int, start: Callable[[Held[W]], None]) -> None:
        slots = self._lanes.take(floor, self._share)
        try:
            held = await self._claim(floor, slots)
        except Exception as error:
            self._give_back_slots(floor, slots)
            await self._recover(error)
        else:
            for each in held:
                each.lane = self._lanes.place(floor, each.work.priority)
            self._give_back_slots(floor, slots - len(held))
            if held:
                await self._use(held, start)
            elif floor == self._lanes.lowest:
                await self._rest()

    def free_slot(self, held: Held[W]) -> None:
        self._give_back_slots(held.lane, 1)
        self.rest.expect_more(held.lane)  # the group of the message that is done, for instance

    @property
    def _share(self) -> int:
        """For how many pieces of work a claimer asks at most."""
        if not self._source.takes_many:
            return 1
        return min(math.ceil(self._lanes.total / self._settings.claimers), MOST)

    def _give_back_slots(self, floor: int, number: int) -> None:
        self._lanes.give_back(floor, number)
        for _ in range(number):
            self._freed.ring()

    def look_again(self) -> None:
        """Something may be claimable; do not sleep over it."""
        self.rest.announced()

    def wake_all(self) -> None:
        """Let every fetcher see that it is to stop."""
        self._freed.wake_all()
        self.rest.bell.wake_all()

    async def _claim(self, floor: int, n: int) -> list[Held[W]]:
        asked_at = anyio.current_time()
        self.rest.claim_begins(floor)
        with self._asking():
            leased = await contained(self._source.claim(n, floor))
        self.rest.claim_ends(floor, len(leased))
        now = anyio.current_time()
        return [Held(work, asked_at=asked_at, now=now) for work in leased]

    async def _use(self, held: Sequence[Held[W]], start: Callable[[Held[W]], None]) -> None:
        """Hand the slots on with the leases."""
        if self._stopping.is_set():
            async with anyio.create_task_group() as group:
                for each in held:
                    group.start_soon(self._give_back, each)
        else:
            self.rest.expect_more(max(each.lane for each in held))
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
        """Wait for a reason to try again."""
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
