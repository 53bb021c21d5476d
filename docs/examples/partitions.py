import asyncio

from fairlane import AsyncMongoTransport

URL = "mongodb://localhost:27017"


# [open]
async def work() -> None:
    async with AsyncMongoTransport.from_url(URL, "shop", partitions=16) as transport:
        await transport.publish("order-42", {"kind": "paid"})
        lease = await transport.claim("worker-1")
        if lease:
            print("claimed", lease.group_id)
            await transport.ack(lease)


# [open-end]


# [change]
async def change() -> None:
    async with AsyncMongoTransport.from_url(URL, "shop") as transport:
        await transport.repartition(32)


# [change-end]


async def main() -> None:
    await work()
    await change()  # from now on `partitions=16` is refused


asyncio.run(main())
