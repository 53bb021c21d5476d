import asyncio

from fairlane import AsyncMongoTransport, Lease, Reject, Retry, WorkerPool


async def handle(lease: Lease[dict[str, int]]) -> None:
    order = lease.event
    if "total" not in order:
        raise Reject("an order needs a total")  # never succeeds: to the dead letters
    if order["total"] > 1000 and lease.attempt == 1:
        raise Retry(delay=0.5)  # not now: the group waits, its order is kept
    print("shipped", lease.group_id, order["total"])


async def main() -> None:
    async with AsyncMongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
        await transport.publish("order-42", {"total": 2000})
        await transport.publish("order-42", {"total": 20})
        await transport.publish("order-43", {})  # ends in the dead letters
        pool = WorkerPool(transport, handle, concurrency=32, signals=True)
        await pool.run()  # until SIGTERM or Ctrl-C; then it finishes what has started


asyncio.run(main())
