"""Get leases, one for each free handler slot, and rest while there is nothing to claim."""

import logging
import random
from collections.abc import Awaitable, Callable
from typing import Generic

import anyio

from fairlane.model import E
from fairlane.worker._cancellation import contained
from fairlane.worker._health import Vitals
from fairlane.worker._held import Held
from fairlane.worker._outage import Outage, is_hopeless
from fairlane.worker._settings import Settings
from fairlane.worker.source import Source

__all__ = ("Bell", "Fetching")

logger = logging.getLogger(__name__)

JITTER = 0.2


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
        _wake_all(self._rings)


class Fetching(Generic[E]):
    """The claiming side of a run. Any number of `fetch` tasks may share it."""

    def __init__(
        self,
        source: Source[E],
        settings: Settings,
        vitals: Vitals,
        *,
        stopping: anyio.Event,
        give_back: Callable[[Held[E]], Awaitable[None]],
    ) -> None:
        self._source = source
        self._settings = settings
        self._vitals = vitals
        self._stopping = stopping
        self._give_back = give_back
        self._slots = anyio.Semaphore(settings.concurrency)
        self._bell = Bell()
        self._outage = Outage("claiming", vitals)
        self._is_polling = False
        self.hopeless: Exception | None = None

    async def fetch(self, start: Callable[[Held[E]], None]) -> None:
        """Claim for each free slot until stopped. The slot comes first: no lease waits for one."""
        while not self._stopping.is_set():
            await self._slots.acquire()
            if self._stopping.is_set():
                return
            try:
                held = await self._claim()
            except Exception as error:
                self._slots.release()
                await self._recover(error)
            else:
                await self._use(held, start)

    def free_slot(self) -> None:
        self._slots.release()
        self._bell.ring()  # the group of the message that is done may be claimable again

    def look_again(self) -> None:
        """Something may be claimable; do not sleep over it."""
        self._bell.ring()

    def wake_all(self) -> None:
        """Let every fetcher see that it is to stop."""
        _wake_all(self._slots)
        self._bell.wake_all()

    async def _claim(self) -> Held[E] | None:
        settings, asked_at = self._settings, anyio.current_time()
        self._bell.hush()
        claim = self._source.claim(
            settings.worker_id, settings.visibility, settings.min_priority, order=settings.order
        )
        with self._vitals.polling():
            lease = await contained(claim)
        self._outage.end()
        if lease is None:
            return None
        now = anyio.current_time()
        return Held(lease, settings.visibility, asked_at=asked_at, now=now)

    async def _use(self, held: Held[E] | None, start: Callable[[Held[E]], None]) -> None:
        """Hand the slot on with the lease; without one free it, and wait for a reason to retry."""
        if held is None:
            self._slots.release()
            await self._rest()
        elif self._stopping.is_set():
            await self._give_back(held)
        else:
            self._bell.ring()  # where one was, there may be more
            start(held)

    async def _recover(self, error: Exception) -> None:
        if is_hopeless(error, has_worked=self._vitals.has_polled):
            self.hopeless = error
            self._stopping.set()
            return
        with anyio.move_on_after(self._outage.note(error)):
            await self._stopping.wait()

    async def _rest(self) -> None:
        """Sleep until the bell rings; one of all sleepers also wakes up to poll."""
        if self._stopping.is_set():  # meanwhile: the call that wakes all sleepers is over
            return
        if self._is_polling:
            await self._bell.wait()
            return
        self._is_polling = True
        try:
            with anyio.move_on_after(self._settings.poll_interval * random.uniform(1, 1 + JITTER)):
                await self._bell.wait()
        finally:
            self._is_polling = False


def _wake_all(semaphore: anyio.Semaphore) -> None:
    for _ in range(semaphore.statistics().tasks_waiting):
        semaphore.release()
