"""mongo-taskqueue's `AsyncTaskQueue`: append, and loops of `next` and `on_success`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from mongotq import AsyncTaskQueue

from benchmarks.peers._child import IDLE, AsyncSubject, Event, run
from benchmarks.peers._log import Log
from benchmarks.peers._records import Orders


async def opened(orders: Orders) -> Any:
    queue = AsyncTaskQueue(database=orders.database, collection="jobs", host=orders.url, ttl=-1)
    await queue.create_index()
    return queue


@asynccontextmanager
async def publishing(orders: Orders) -> AsyncIterator[Callable[[str, Event], Awaitable[None]]]:
    queue = await opened(orders)

    async def publish(group: str, event: Event) -> None:
        await queue.append({"group": group, **event})

    yield publish


@asynccontextmanager
async def working(orders: Orders) -> AsyncIterator[Callable[[Log], Awaitable[None]]]:
    queue = await opened(orders)

    async def work(log: Log) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(orders.sizes.workers):
                tasks.create_task(_loop(queue, log))

    yield work


async def _loop(queue: Any, log: Log) -> None:
    while not log.is_over:
        task = await queue.next()
        if task is None:
            await asyncio.sleep(IDLE)
            continue
        log.handled(task.payload["n"])
        await queue.on_success(task)
        log.settled(task.payload["n"])


if __name__ == "__main__":
    run(AsyncSubject(publishing, working))
