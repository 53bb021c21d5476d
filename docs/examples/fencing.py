import asyncio
from typing import Any

from pymongo import AsyncMongoClient

from fairlane import AsyncMongoTransport, Lease

# [store]
Collection = Any


async def write_total(orders: Collection, lease: Lease[dict[str, int]]) -> bool:
    """Write only if no later lease of this group has written already."""
    result = await orders.update_one(
        {"_id": lease.group_id, "epoch": {"$lt": lease.epoch}},
        {"$set": {"total": lease.event["total"], "epoch": lease.epoch}},
    )
    return bool(result.matched_count)


# [store-end]


async def main() -> None:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient("mongodb://localhost:27017")
    orders = client["app"]["orders"]
    await orders.insert_one({"_id": "order-42", "epoch": 0})
    async with AsyncMongoTransport(client, "app") as transport:
        await transport.publish("order-42", {"total": 10})
        old = await transport.claim("worker-1", visibility=30)
        assert old is not None
        await transport.nack(old)  # stands for a lease that expired without worker-1 noticing
        new = await transport.claim("worker-2", visibility=30)
        assert new is not None
        print("worker-2 writes:", await write_total(orders, new))
        print("worker-1 writes:", await write_total(orders, old))
        await transport.ack(new)
    await client.close()


asyncio.run(main())
