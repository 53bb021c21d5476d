"""beanie-batteries-queue: `push`, and as many of its `Worker`s in one event loop as there are."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from beanie import init_beanie
from beanie_batteries_queue import Task, Worker
from pymongo import AsyncMongoClient

from benchmarks.peers._child import AsyncSubject, Event, run
from benchmarks.peers._log import Log
from benchmarks.peers._records import Orders


class BenchTask(Task):
    """A message. Its worker saves it as finished when `run` has returned."""

    n: int
    group: str
    payload: str
    log: ClassVar[Log | None] = None

    async def run(self) -> None:
        if self.log:
            self.log.handled(self.n)

    async def finish(self) -> None:
        await super().finish()
        if self.log:
            self.log.settled(self.n)


async def open_in(orders: Orders) -> None:
    client: Any = AsyncMongoClient(orders.url)
    await init_beanie(database=client[orders.database], document_models=[BenchTask])


@asynccontextmanager
async def publishing(orders: Orders) -> AsyncIterator[Callable[[str, Event], Awaitable[None]]]:
    await open_in(orders)

    async def publish(group: str, event: Event) -> None:
        await BenchTask(group=group, **event).push()

    yield publish


@asynccontextmanager
async def working(orders: Orders) -> AsyncIterator[Callable[[Log], Awaitable[None]]]:
    await open_in(orders)

    async def work(log: Log) -> None:
        BenchTask.log = log
        async with asyncio.TaskGroup() as tasks:
            for _ in range(orders.sizes.workers):
                tasks.create_task(Worker([BenchTask]).start())

    yield work


if __name__ == "__main__":
    run(AsyncSubject(publishing, working))
