import asyncio
import time
from dataclasses import dataclass, replace
from typing import Any

from fairlane import AsyncMongoTransport, CallNext, JobContext, Lease, WorkerPool


# [typed]
@dataclass
class Order:
    number: int
    items: list[str]


def pack(lease: Lease[Order]) -> None:
    order = lease.event
    print("packed", order.number, order.items)


# [typed-end]


# [middleware]
async def timed(work: Lease | JobContext, call_next: CallNext) -> Any:
    started = time.perf_counter()
    try:
        return await call_next(work)
    finally:
        seconds = time.perf_counter() - started
        print("took", "less than a second" if seconds < 1 else f"{seconds:.1f} s")


async def upgraded(lease: Lease, call_next: CallNext) -> Any:
    """Give the orders of an old release, which had no items, none."""
    return await call_next(replace(lease, event={"items": [], **lease.event}))


# [middleware-end]


async def main() -> None:
    async with AsyncMongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
        await transport.publish("orders", {"number": 42, "items": ["pen"]})
        await transport.publish("orders", {"number": 43})
        await transport.publish("orders", {"number": "next"})
        # [pool]
        pool = WorkerPool(transport, pack, middleware=[timed, upgraded], concurrency=4)
        # [pool-end]
        async with pool:
            while not (await transport.stats()).dead:
                await asyncio.sleep(0.05)
        async for letter in transport.dead_letters("orders"):
            print(letter.reason)


asyncio.run(main())
