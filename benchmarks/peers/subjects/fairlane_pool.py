"""Fairlane as its documentation says: a `WorkerPool` with as many slots as there are workers.

A message counts as settled when the pool reports its lease as acknowledged.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from benchmarks.peers._child import AsyncSubject, Event, rested, run
from benchmarks.peers._log import Log
from benchmarks.peers._records import Orders
from benchmarks.peers.subjects.fairlane_verbs import publishing
from fairlane import AsyncMongoTransport, Lease, WorkerPool
from fairlane.worker.events import WorkerEvent


@asynccontextmanager
async def working(orders: Orders) -> AsyncIterator[Callable[[Log], Awaitable[None]]]:
    async with AsyncMongoTransport[Event].from_url(orders.url, orders.database) as transport:

        async def work(log: Log) -> None:
            async with _pool(transport, orders, log):
                await rested(log)

        yield work


def _pool(transport: AsyncMongoTransport[Event], orders: Orders, log: Log) -> WorkerPool[Event]:
    running: dict[tuple[str, int], list[int]] = {}

    async def handle(lease: Lease[Event]) -> None:
        numbers = [message.event["n"] for message in lease.messages]
        for number in numbers:
            log.handled(number)
        running[lease.group_id, lease.seq] = numbers

    def note(event: WorkerEvent) -> None:
        if event.kind == "acked":
            for number in running.pop((event.group_id, event.seq)):
                log.settled(number)

    return WorkerPool(
        transport, handle, concurrency=orders.sizes.workers, batch=orders.batch, on_event=note
    )


if __name__ == "__main__":
    run(AsyncSubject(publishing, working))
