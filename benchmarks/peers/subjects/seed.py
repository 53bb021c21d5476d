"""The protocol of the original design, to the letter, on Motor: known defects and all."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import uuid4

from motor.motor_asyncio import AsyncIOMotorClient

from benchmarks.peers._child import IDLE, AsyncSubject, Event, run
from benchmarks.peers._log import Log
from benchmarks.peers._records import Orders

VISIBILITY = 30.0


class SeedLease(NamedTuple):
    seq: int
    group_id: str
    event: Event
    token: str


class Seed:
    """Publish, claim and ack as they were written down; token checks are reads before writes."""

    def __init__(self, database: Any) -> None:
        self._messages = database.seed_messages
        self._locks = database.seed_locks
        self._counters = database.seed_counters

    async def ensure_index(self) -> None:
        await self._locks.create_index("available_at")

    async def publish(self, group_id: str, event: Event) -> None:
        counter = await self._counters.find_one_and_update(
            {"_id": "seq"}, {"$inc": {"n": 1}}, upsert=True, return_document=True
        )
        message = {"_id": counter["n"], "group_id": group_id, "event": json.dumps(event)}
        await self._messages.insert_one(message)
        ready = {"available_at": 0.0, "token": None, "priority": 0}
        await self._locks.update_one({"_id": group_id}, {"$setOnInsert": ready}, upsert=True)

    async def claim(self, worker_id: str) -> SeedLease | None:
        while True:
            token = f"{worker_id}:{uuid4()}"
            now = time.time()
            leased = await self._locks.find_one_and_update(
                {"available_at": {"$lte": now}, "priority": {"$gte": 0}},
                {"$set": {"token": token, "available_at": now + VISIBILITY}},
                sort=[("available_at", 1)],
            )
            if leased is None:
                return None
            group_id = leased["_id"]
            head = await self._messages.find_one({"group_id": group_id}, sort=[("_id", 1)])
            if head is not None:
                return SeedLease(head["_id"], group_id, json.loads(head["event"]), token)
            await self._locks.delete_one({"_id": group_id, "token": token})

    async def ack(self, lease: SeedLease) -> bool:
        lock = await self._locks.find_one({"_id": lease.group_id})
        if lock is None or lock["token"] != lease.token:
            return False
        await self._messages.delete_one({"_id": lease.seq})
        held = {"_id": lease.group_id, "token": lease.token}
        if await self._messages.find_one({"group_id": lease.group_id}):
            ready = {"available_at": time.time(), "token": None}
            await self._locks.update_one(held, {"$set": ready})
        else:
            await self._locks.delete_one(held)
        return True


@asynccontextmanager
async def opened(orders: Orders) -> AsyncIterator[Seed]:
    client: Any = AsyncIOMotorClient(orders.url)
    seed = Seed(client[orders.database])
    await seed.ensure_index()
    yield seed
    client.close()


@asynccontextmanager
async def publishing(orders: Orders) -> AsyncIterator[Callable[[str, Event], Awaitable[None]]]:
    async with opened(orders) as seed:
        yield seed.publish


@asynccontextmanager
async def working(orders: Orders) -> AsyncIterator[Callable[[Log], Awaitable[None]]]:
    async with opened(orders) as seed:

        async def work(log: Log) -> None:
            async with asyncio.TaskGroup() as tasks:
                for worker in range(orders.sizes.workers):
                    tasks.create_task(_loop(seed, f"w{worker}", log))

        yield work


async def _loop(seed: Seed, name: str, log: Log) -> None:
    while not log.is_over:
        lease = await seed.claim(name)
        if lease is None:
            await asyncio.sleep(IDLE)
            continue
        log.handled(lease.event["n"])
        if await seed.ack(lease):
            log.settled(lease.event["n"])


if __name__ == "__main__":
    run(AsyncSubject(publishing, working))
