import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fairlane import AsyncMongoTransport, Lease, WorkerPool

URL = os.environ.get("MONGODB_URL", "mongodb://localhost:27017")

Event = dict[str, str]


async def handle(lease: Lease[Event]) -> None:
    print("handled", lease.group_id, lease.event["kind"], flush=True)


@asynccontextmanager
async def make_pool() -> AsyncIterator[WorkerPool[Event]]:
    async with AsyncMongoTransport[Event].from_url(URL, "app") as transport:
        yield WorkerPool(transport, handle, concurrency=32)
    print("closed", flush=True)
