import asyncio

from fairlane import AsyncMongoTransport


async def main() -> None:
    # [open]
    async with AsyncMongoTransport.from_url(
        "mongodb://localhost:27017", "app", dead_head="stop"
    ) as transport:
        # [open-end]
        await transport.publish_many(
            [("order-42", "placed"), ("order-42", "paid"), ("order-42", "shipped")]
        )
        lease = await transport.claim("worker-1")
        assert lease is not None
        await transport.dead_letter(lease, "no such customer")

        # [look]
        stats = await transport.stats()
        print("stopped groups:", stats.stopped)
        async for letter in transport.dead_letters():
            if letter.is_stopping:
                print(letter.group_id, "is stopped by", letter.event, "-", letter.reason)
        print("to be claimed:", await transport.claim("worker-1"))
        # [look-end]

        # [redrive]
        await transport.redrive(group_id="order-42")
        while lease := await transport.claim("worker-1"):
            print(lease.event)
            await transport.ack(lease)
        # [redrive-end]


asyncio.run(main())
