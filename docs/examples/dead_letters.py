import asyncio

from fairlane import AsyncMongoTransport


async def main() -> None:
    async with AsyncMongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
        await transport.publish("order-42", {"total": None})
        lease = await transport.claim("worker-1")
        assert lease is not None
        await transport.dead_letter(lease, "the total is missing")

        # [list]
        async for letter in transport.dead_letters(group_id="order-42"):
            print(letter.seq, letter.reason, letter.attempts)
        # [list-end]

        # [redrive]
        moved = await transport.redrive(group_id="order-42")
        print("moved back:", moved)
        # [redrive-end]


asyncio.run(main())
