"""harel's `AsyncMongoTransport`, driven by claim and ack as its engine drives it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from harel.engine.aio_transport.mongo import AsyncMongoTransport
from harel.spec.states import Event as HarelEvent

from benchmarks.peers._child import IDLE, AsyncSubject, Event, run
from benchmarks.peers._log import Log
from benchmarks.peers._records import Orders

VISIBILITY = 30.0


@asynccontextmanager
async def publishing(orders: Orders) -> AsyncIterator[Callable[[str, Event], Awaitable[None]]]:
    transport = await AsyncMongoTransport.from_url(orders.url, orders.database)

    async def publish(group: str, event: Event) -> None:
        await transport.publish(group, HarelEvent(kind="bench", data=event))

    yield publish


@asynccontextmanager
async def working(orders: Orders) -> AsyncIterator[Callable[[Log], Awaitable[None]]]:
    transport = await AsyncMongoTransport.from_url(orders.url, orders.database)

    async def work(log: Log) -> None:
        async with asyncio.TaskGroup() as tasks:
            for worker in range(orders.sizes.workers):
                tasks.create_task(_loop(transport, f"w{worker}", log))

    yield work


async def _loop(transport: Any, name: str, log: Log) -> None:
    while not log.is_over:
        lease = await transport.claim(name, VISIBILITY)
        if lease is None:
            await asyncio.sleep(IDLE)
            continue
        number = lease.event.data["n"]
        log.handled(number)
        await transport.ack(lease)
        log.settled(number)


if __name__ == "__main__":
    run(AsyncSubject(publishing, working))
