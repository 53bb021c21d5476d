import asyncio

from fairlane import AsyncMongoTransport


async def main() -> None:
    async with AsyncMongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
        # [publish]
        await transport.publish("order-42", "paid")
        await transport.publish("order-42", "shipped")
        await transport.publish("order-43", "paid")
        # [publish-end]

        # [claim]
        first = await transport.claim("worker-1", visibility=30)
        second = await transport.claim("worker-2", visibility=30)
        third = await transport.claim("worker-3", visibility=30)
        assert first is not None
        assert second is not None
        print("worker-1 holds", first.group_id, first.event)
        print("worker-2 holds", second.group_id, second.event)
        print("worker-3 gets", third)
        # [claim-end]

        # [ack]
        await transport.ack(first)
        following = await transport.claim("worker-3", visibility=30)
        assert following is not None
        print("worker-3 holds", following.group_id, following.event)
        # [ack-end]

        # [nack]
        await transport.nack(second)
        again = await transport.claim("worker-1", visibility=30)
        assert again is not None
        print("attempt", again.attempt, "of", again.group_id, again.event)
        # [nack-end]

        # [fence]
        print("ack by worker-2:", await transport.ack(second))
        print("ack by worker-1:", await transport.ack(again))
        # [fence-end]

        await transport.ack(following)
        print("groups left:", (await transport.stats()).groups)


asyncio.run(main())
