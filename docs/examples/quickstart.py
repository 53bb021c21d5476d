import asyncio

from fairlane import AsyncMongoTransport


async def main() -> None:
    async with AsyncMongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
        await transport.publish("order-42", {"kind": "paid"})
        lease = await transport.claim("worker-1", visibility=30)
        if lease:
            print(lease.group_id, lease.event)
            await transport.ack(lease)


asyncio.run(main())
