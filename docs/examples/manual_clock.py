from typing import Any
from uuid import uuid4

from motor.motor_asyncio import AsyncIOMotorClient

from fairlane import AsyncMongoTransport
from fairlane.testing import ManualClock


async def test_an_expired_lease_gives_the_message_to_the_next_worker(fairlane_url: str) -> None:
    clock = ManualClock(start=1_000_000.0)
    client: AsyncIOMotorClient[dict[str, Any]] = AsyncIOMotorClient(fairlane_url)
    database = f"test_{uuid4().hex}"
    async with AsyncMongoTransport(client, database, clock=clock) as transport:
        await transport.publish("order-42", {"kind": "paid"})
        await transport.claim("worker-1", visibility=30)

        clock.advance(31)
        lease = await transport.claim("worker-2", visibility=30)

        assert lease is not None
        assert lease.attempt == 2
    await client.drop_database(database)
    client.close()
