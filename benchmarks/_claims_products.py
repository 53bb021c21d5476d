"""What is claimed in the contention benchmark: groups of a transport, or jobs of a queue."""

from collections.abc import Iterable
from typing import Any, Self

from benchmarks._claims_invariants import Stored
from benchmarks._claims_records import Claimed, ProductName
from fairlane import AsyncJobQueue, AsyncMongoTransport, NewJob
from fairlane.lease.strategy import Strategy

__all__ = ("PRODUCTS", "VISIBILITY", "Groups", "Jobs")

VISIBILITY = 3600.0
"""Seconds. Nothing is settled: everything stays leased until the end."""

CHUNK = 1_000
"""So many are published, or enqueued, by one call."""

TYPES = 32
"""Of jobs; claims take any."""


class Groups:
    """One message in each group."""

    def __init__(
        self, client: Any, database: str, *, strategy: Strategy, partitions: int | None = None
    ) -> None:
        self._transport = AsyncMongoTransport[Any](
            client, database, strategy=strategy, partitions=partitions
        )

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport.close()

    @property
    def strategy(self) -> str:
        return self._transport.strategy

    async def fill(self, number: int) -> None:
        for chunk in _chunks(number):
            await self._transport.publish_many([(f"group-{n}", {"n": n}) for n in chunk])

    async def claim(self, name: str, batch: int) -> list[Claimed]:
        leases = await self._transport.claim_many(name, batch, VISIBILITY)
        return [Claimed(each.group_id, each.token, each.attempt) for each in leases]

    async def stored(self, database: Any) -> list[Stored]:
        fields = {"token": 1, "attempts": 1}
        locks = await database["fairlane_locks"].find({}, fields).to_list(None)
        return [Stored(lock["_id"], lock["token"], lock["attempts"]) for lock in locks]


class Jobs:
    """Jobs of many types, all of one priority, due in the order in which they were enqueued."""

    def __init__(
        self, client: Any, database: str, *, strategy: Strategy, partitions: int | None = None
    ) -> None:
        self._queue = AsyncJobQueue(client, database, strategy=strategy, partitions=partitions)

    async def __aenter__(self) -> Self:
        await self._queue.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._queue.close()

    @property
    def strategy(self) -> str:
        return self._queue.strategy

    async def fill(self, number: int) -> None:
        for chunk in _chunks(number):
            await self._queue.enqueue_many(NewJob({"n": n}, f"type-{n % TYPES}") for n in chunk)

    async def claim(self, name: str, batch: int) -> list[Claimed]:
        jobs = await self._queue.claim_many(batch, worker_id=name, lease=VISIBILITY)
        return [Claimed(job.id, str(job.token), job.attempts) for job in jobs]

    async def stored(self, database: Any) -> list[Stored]:
        fields = {"token": 1, "attempts": 1}
        jobs = await database["fairlane_jobs"].find({}, fields).to_list(None)
        return [Stored(job["_id"], job["token"], job["attempts"]) for job in jobs]


PRODUCTS: dict[ProductName, type[Groups] | type[Jobs]] = {"groups": Groups, "jobs": Jobs}


def _chunks(number: int) -> Iterable[range]:
    return (range(first, min(first + CHUNK, number)) for first in range(0, number, CHUNK))
