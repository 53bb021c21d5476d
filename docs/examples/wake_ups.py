"""An idle pool starts what another process publishes, long before its next poll."""

import asyncio

from fairlane import AsyncMongoTransport, Lease, WorkerPool

URL = "mongodb://localhost:27017"


async def main() -> None:
    handled = asyncio.Event()

    async def handle(lease: Lease) -> None:
        print(lease.group_id, lease.event)
        handled.set()

    async with (
        AsyncMongoTransport.from_url(URL, "shop") as workers,
        AsyncMongoTransport.from_url(URL, "shop") as elsewhere,  # as another process has it
        WorkerPool(workers, handle, poll_interval=30) as pool,
    ):
        await asyncio.sleep(1)  # by now it rests, and its stream is open
        await elsewhere.publish("order-42", {"kind": "paid"})
        async with asyncio.timeout(10):
            await handled.wait()
        print("told by a change stream:", pool.health.is_watched)

    # [off]
    async with AsyncMongoTransport.from_url(URL, "shop", wakeups=False) as transport:
        pool = WorkerPool(transport, handle, poll_interval=0.5)
        # [off-end]
        print("told by a change stream:", pool.health.is_watched)


if __name__ == "__main__":
    asyncio.run(main())
