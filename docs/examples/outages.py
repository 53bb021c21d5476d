"""An application whose server may be away: it waits for it, tells, and does not keep callers."""

import asyncio
from typing import Any

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError

from fairlane import AsyncMongoTransport, Lease, WorkerPool

URL = "mongodb://localhost:27017"
NOBODY = "mongodb://localhost:1"


handled = asyncio.Event()


async def handle(lease: Lease) -> None:
    print("handled", lease.group_id)
    handled.set()


# [publish]
async def place(transport: AsyncMongoTransport, order: str) -> int:
    """Return the status of the answer to a request."""
    try:
        async with asyncio.timeout(2):
            await transport.publish(order, {"kind": "placed"}, message_id=f"{order}-placed")
    except (TimeoutError, PyMongoError):
        return 503  # the caller may try again: the id makes one message of all its tries
    return 202


# [publish-end]


async def main() -> None:
    # [wait]
    async with (
        AsyncMongoTransport.from_url(URL, "shop", connect_timeout=300) as transport,
        WorkerPool(transport, handle) as pool,
    ):
        # [wait-end]
        print("placed:", await place(transport, "order-42"))
        await handled.wait()
        # [health]
        while (health := pool.health).state == "starting":
            await asyncio.sleep(0.1)
        print(health.state, "last answer before", health.last_poll_age, "s")
        # [health-end]

    # [settings]
    client: AsyncMongoClient[Any] = AsyncMongoClient(
        NOBODY, serverSelectionTimeoutMS=500, connectTimeoutMS=5_000
    )
    transport = AsyncMongoTransport(client, "shop")
    # [settings-end]
    print("placed:", await place(transport, "order-43"))
    await client.close()


if __name__ == "__main__":
    asyncio.run(main())
