"""Orders have three quarters of a pool, emails the rest, and each lends what it does not need."""

import asyncio
from collections import Counter

from fairlane import AsyncJobQueue, AsyncMongoTransport, JobContext, Jobs, Lease, WorkerPool

URL = "mongodb://localhost:27017"

at_work: Counter[str] = Counter()
all_slots_are_taken = asyncio.Event()
jobs = Jobs()


async def work(kind: str) -> None:
    at_work[kind] += 1
    if at_work.total() == 8:
        print(at_work["order"], "orders and", at_work["email"], "emails at work")
        all_slots_are_taken.set()
    await all_slots_are_taken.wait()


async def handle(lease: Lease) -> None:
    await work("order")


@jobs.event("email")
async def send_email(ctx: JobContext, user: str) -> None:
    await work("email")


async def main() -> None:
    async with (
        AsyncMongoTransport.from_url(URL, "shop") as transport,
        AsyncJobQueue.connect(URL, "shop") as queue,
    ):
        await transport.publish_many([(f"order-{number}", "paid") for number in range(20)])
        await queue.enqueue_many([f"user-{number}" for number in range(20)], "email")
        # [pool]
        pool = WorkerPool.together(
            (transport, handle),
            (queue, jobs),
            shares=(3, 1),
            concurrency=8,
        )
        # [pool-end]
        async with pool:
            await all_slots_are_taken.wait()


asyncio.run(main())
