import asyncio

from fairlane import AsyncMongoTransport, Lease, WorkerPool


async def main() -> None:
    done = asyncio.Event()

    # [handler]
    async def handle(lease: Lease) -> None:
        for message in lease.messages:
            print("write", message.event)
            lease.done(message)
            if message.event == "line 5":
                done.set()

    # [handler-end]

    async with AsyncMongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
        await transport.publish_many([("report-7", f"line {number}") for number in range(1, 6)])
        # [pool]
        async with WorkerPool(transport, handle, batch=100):
            await done.wait()
        # [pool-end]


asyncio.run(main())
