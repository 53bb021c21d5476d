"""Sources that lease something new for every free slot, and keep nothing of it."""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any

import anyio
from job_fakes import FakeQueue
from worker_fakes import ticks

from fairlane import Job
from fairlane.clock import instant
from fairlane.jobs.working import Demand
from fairlane.model import Lease
from fairlane.worker import Order

__all__ = ("EndlessQueue", "EndlessSource", "SpareEndlessSource", "Supply")

AFTERWARDS = 20
"""Steps of the event loop that a pool takes at most after a settlement."""


class Supply:
    """What may still be leased, and whether all of it is settled."""

    def __init__(self) -> None:
        self.number = 0
        self.extended = 0
        self._left = 0
        self._unsettled = 0
        self._is_settled = anyio.Event()
        self._look: Callable[[], object] = lambda: None

    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]:
        self._look = callback
        return lambda: None

    async def provide(self, items: int) -> None:
        """Let so many more be leased, and wait until the pool is done with them."""
        self._left = self._unsettled = items
        self._is_settled = anyio.Event()
        self._look()
        await self._is_settled.wait()
        await ticks(AFTERWARDS)

    def take(self, most: int) -> range:
        """Return the numbers of the next ones."""
        taken = min(most, self._left)
        self._left -= taken
        self.number += taken
        return range(self.number - taken + 1, self.number + 1)

    async def settle(self, *_: object, **__: object) -> bool:
        await asyncio.sleep(0)
        self._unsettled -= 1
        if not self._unsettled:
            self._is_settled.set()
        return True


class EndlessSource(Supply):
    """Each lease is of another group; `make_event` makes its event of its number."""

    make_event: Callable[[int], Any] = int

    async def claim(
        self,
        worker_id: str,
        visibility: float = 30.0,
        min_priority: int = 0,
        *,
        order: Order = "fair",
    ) -> Lease[Any] | None:
        leases = await self.claim_many(worker_id, 1, visibility)
        return leases[0] if leases else None

    async def claim_many(
        self,
        worker_id: str,
        n: int,
        visibility: float = 30.0,
        min_priority: int = 0,
        *,
        order: Order = "fair",
    ) -> list[Lease[Any]]:
        await asyncio.sleep(0)
        return [
            Lease(
                group_id=f"group-{number}",
                seq=number,
                event=self.make_event(number),
                token=f"{worker_id}:{number}",
                priority=0,
                attempt=1,
                epoch=number,
                expires_at=math.inf,
            )
            for number in self.take(n)
        ]

    async def ack(self, lease: Lease[Any]) -> bool:
        return await self.settle()

    async def nack(
        self, lease: Lease[Any], delay: float = 0.0, *, error: str | None = None
    ) -> bool:
        return await self.settle()

    async def release(self, lease: Lease[Any], *, delay: float = 0.0) -> bool:
        return await self.settle()

    async def dead_letter(
        self, lease: Lease[Any], reason: str, *, traceback: str | None = None
    ) -> bool:
        return await self.settle()

    async def extend(self, lease: Lease[Any], visibility: float = 30.0) -> Lease[Any]:
        self.extended += 1
        return lease


class Spare:
    """What renews the leases of a source in another thread."""

    def __init__(self, source: EndlessSource) -> None:
        self._source = source

    async def __aenter__(self) -> "Spare":
        return self

    async def extend_many(
        self, leases: Sequence[Lease[Any]], visibility: float = 30.0
    ) -> list[Lease[Any] | None]:
        return [await self._source.extend(lease) for lease in leases]

    async def close(self) -> None:
        """There is nothing to close."""


class SpareEndlessSource(EndlessSource):
    @property
    def separate(self) -> Callable[[], Spare] | None:
        return lambda: Spare(self)


class EndlessJobs(Supply):
    """The side for workers of a queue whose jobs are all of the type "work"."""

    separate = watch = None
    lease = 30.0

    def now(self) -> float:
        return 1_000_000.0

    async def claim(self, demand: Demand, n: int) -> list[Job]:
        await asyncio.sleep(0)
        return [
            Job(
                id=f"job-{number}",
                type="work",
                payload=number,
                state="processing",
                priority=0,
                token=f"{demand.worker_id}:{number}",
                attempts=1,
                max_attempts=3,
                created_at=instant(0),
                was_stale=number % 5 == 0,
            )
            for number in self.take(n)
        ]

    async def nothing(self, *_: object, **__: object) -> None:
        await asyncio.sleep(0)

    open = revive = begin = record = overtake = reconcile = nothing
    ack = fail = retry = release = reschedule = Supply.settle


class EndlessQueue(FakeQueue):
    def __init__(self) -> None:
        super().__init__()
        self.endless = EndlessJobs()

    def working_side(self) -> Any:
        return self.endless
