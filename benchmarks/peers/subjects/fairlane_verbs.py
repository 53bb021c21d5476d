"""Fairlane as a loop of its own: each worker claims one message, acknowledges it, and goes on."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.peers._child import IDLE, AsyncSubject, Event, run
from benchmarks.peers._log import Log
from benchmarks.peers._records import Orders
from fairlane import AsyncMongoTransport

__all__ = ("publishing",)

Publish = Callable[[str, Event], Awaitable[Any]]


@asynccontextmanager
async def publishing(orders: Orders) -> AsyncIterator[Publish]:
    async with AsyncMongoTransport[Event].from_url(orders.url, orders.database) as transport:
        yield transport.publish


@asynccontextmanager
async def working(orders: Orders) -> AsyncIterator[Callable[[Log], Awaitable[None]]]:
    async with AsyncMongoTransport[Event].from_url(orders.url, orders.database) as transport:

        async def work(log: Log) -> None:
            async with asyncio.TaskGroup() as tasks:
                for worker in range(orders.sizes.workers):
                    tasks.create_task(_loop(transport, f"w{worker}", orders.batch, log))

        yield work


async def _loop(transport: AsyncMongoTransport[Event], name: str, batch: int, log: Log) -> None:
    while not log.is_over:
        lease = await transport.claim(name, batch=batch)
        if lease is None:
            await asyncio.sleep(IDLE)
            continue
        for message in lease.messages:
            log.handled(message.event["n"])
        if await transport.ack(lease):
            for message in lease.messages:
                log.settled(message.event["n"])


if __name__ == "__main__":
    run(AsyncSubject(publishing, working))
