import asyncio

from fairlane import AsyncMongoTransport, Backoff, Lease, Reject, WorkerPool

Event = dict[str, int]


# [handler]
async def handle(lease: Lease[Event]) -> None:
    step = lease.event["step"]
    if step < 0:
        raise Reject(f"there is no step {step}")
    if step == 2 and lease.attempt == 1:
        raise ConnectionError("the warehouse did not answer")
    await asyncio.sleep(0.01)
    print(lease.group_id, "step", step, "attempt", lease.attempt)


# [handler-end]


# [publish]
async def publish_orders(transport: AsyncMongoTransport[Event]) -> None:
    for order in range(3):
        await transport.publish_many([(f"order-{order}", {"step": step}) for step in (1, 2, 3)])
    await transport.publish("order-9", {"step": -1})


# [publish-end]


# [drained]
async def drained(transport: AsyncMongoTransport[Event]) -> None:
    while (await transport.stats()).messages:
        await asyncio.sleep(0.1)


# [drained-end]


# [main]
async def main() -> None:
    url = "mongodb://localhost:27017"
    async with AsyncMongoTransport[Event].from_url(url, "app") as transport:
        await publish_orders(transport)
        pool = WorkerPool(
            transport,
            handle,
            concurrency=10,
            max_attempts=3,
            backoff=Backoff(base=0.1, cap=5.0),
        )
        async with pool:
            await drained(transport)
        async for letter in transport.dead_letters():
            print("dead:", letter.group_id, letter.reason)


asyncio.run(main())
# [main-end]
