import asyncio

from fairlane import AsyncMongoTransport, Lease, WorkerPool

begun = asyncio.Queue[int]()


# [handler]
async def export(lease: Lease) -> None:
    print(f"attempt {lease.attempt}, interrupted {lease.interrupted} times")
    begun.put_nowait(lease.attempt)
    if lease.interrupted < 2:
        await everything_at_once(lease.event)
    else:  # no deploy leaves it enough time
        await in_small_messages(lease.event)


# [handler-end]


async def everything_at_once(shop: str) -> None:
    await asyncio.sleep(3_600)


async def in_small_messages(shop: str) -> None:
    print("exported", shop, "in parts")


async def main() -> None:
    async with AsyncMongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
        await transport.publish("export", "shop-7")
        for _ in range(3):  # each is the pool of another version of the program
            pool = WorkerPool(transport, export, max_attempts=2, drain_timeout=0.1)
            async with pool:
                await begun.get()
        print("left:", (await transport.stats()).messages)


asyncio.run(main())
