import asyncio

from fairlane import AsyncMongoTransport, LeaseLost


async def main() -> None:
    async with AsyncMongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
        await transport.publish("report-7", {"pages": 3})

        # [extend]
        lease = await transport.claim("worker-1", visibility=30)
        assert lease is not None
        try:
            for page in range(lease.event["pages"]):
                await asyncio.sleep(0.01)  # stands for ten seconds of work
                lease = await transport.extend(lease, visibility=30)
                print("page", page, "done")
        except LeaseLost:
            print("somebody else has the group: stop, and settle nothing")
        else:
            await transport.ack(lease)
        # [extend-end]


asyncio.run(main())
