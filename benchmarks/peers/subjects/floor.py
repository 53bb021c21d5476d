"""The driver alone: what no queue on this server can go below. Three writes for each message.

Insert, mark as taken, delete. There are no groups, no order, no leases that run out, no fencing.
With `batch` above 1, publishes that are under way at once share an `insert_many`, and one loop
takes and deletes a batch with a command each; with 1 each message has its own three commands.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from bson import ObjectId
from motor.motor_asyncio import AsyncIOMotorClient

from benchmarks.peers._child import IDLE, AsyncSubject, Event, run
from benchmarks.peers._log import Log
from benchmarks.peers._records import Orders

WAITING, TAKEN = 0, 1


class Together:
    """Inserts documents: while a batch is on its way the next one gathers."""

    def __init__(self, messages: Any, batch: int) -> None:
        self._messages = messages
        self._batch = batch
        self._gathered: list[tuple[dict[str, Any], asyncio.Future[None]]] = []
        self._wire = asyncio.Lock()

    async def insert(self, document: dict[str, Any]) -> None:
        done = asyncio.get_running_loop().create_future()
        self._gathered.append((document, done))
        async with self._wire:
            if not done.done():
                await self._flush()

    async def _flush(self) -> None:
        batch, self._gathered = self._gathered[: self._batch], self._gathered[self._batch :]
        await self._messages.insert_many([document for document, _ in batch], ordered=False)
        for _, done in batch:
            done.set_result(None)


@asynccontextmanager
async def opened(orders: Orders) -> AsyncIterator[Any]:
    client: Any = AsyncIOMotorClient(orders.url)
    messages = client[orders.database].floor_messages
    await messages.create_index([("state", 1), ("n", 1)])
    yield messages
    client.close()


@asynccontextmanager
async def publishing(orders: Orders) -> AsyncIterator[Callable[[str, Event], Awaitable[None]]]:
    async with opened(orders) as messages:
        insert = (
            Together(messages, orders.batch).insert if orders.batch > 1 else messages.insert_one
        )

        async def publish(group: str, event: Event) -> None:
            await insert({"state": WAITING, "n": event["n"], "group": group, "event": event})

        yield publish


@asynccontextmanager
async def working(orders: Orders) -> AsyncIterator[Callable[[Log], Awaitable[None]]]:
    async with opened(orders) as messages:

        async def work(log: Log) -> None:
            if orders.batch > 1:
                await _in_batches(messages, orders.batch, log)
                return
            async with asyncio.TaskGroup() as tasks:
                for _ in range(orders.sizes.workers):
                    tasks.create_task(_one_by_one(messages, log))

        yield work


async def _in_batches(messages: Any, batch: int, log: Log) -> None:
    while not log.is_over:
        found = await messages.find({"state": WAITING}).sort("n", 1).limit(batch).to_list(None)
        if not found:
            await asyncio.sleep(IDLE)
            continue
        taken = _those([each["_id"] for each in found])
        await messages.update_many(taken, {"$set": {"state": TAKEN}})
        for each in found:
            log.handled(each["event"]["n"])
        await messages.delete_many(taken)
        for each in found:
            log.settled(each["event"]["n"])


def _those(ids: list[ObjectId]) -> dict[str, Any]:
    return {"_id": {"$in": ids}}


async def _one_by_one(messages: Any, log: Log) -> None:
    while not log.is_over:
        found = await messages.find_one_and_update(
            {"state": WAITING}, {"$set": {"state": TAKEN}}, sort=[("n", 1)]
        )
        if found is None:
            await asyncio.sleep(IDLE)
            continue
        log.handled(found["event"]["n"])
        await messages.delete_one({"_id": found["_id"]})
        log.settled(found["event"]["n"])


if __name__ == "__main__":
    run(AsyncSubject(publishing, working))
