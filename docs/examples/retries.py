import asyncio

from fairlane import AsyncMongoTransport, Backoff, Lease, Reject, Retry, Snooze, WorkerPool

attempts: list[int] = []


# [handler]
async def handle(lease: Lease) -> None:
    attempts.append(lease.attempt)
    match len(attempts):
        case 1:
            raise ConnectionError("the shop does not answer")  # by the policy: 0.1 s
        case 2:
            raise Retry(delay=0.1)  # a delay of its own
        case 3:
            raise Snooze(0.1)  # not now, and no attempt
        case 4:
            raise Reject("no such order")  # never


# [handler-end]


async def main() -> None:
    async with AsyncMongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
        await transport.publish("order-42", {"kind": "paid"})
        # [pool]
        policy = {
            OSError: Backoff(base=0.1, jitter=0.0),  # ConnectionError and TimeoutError, too
            ValueError: None,  # not worth another attempt
            Exception: Backoff(base=1.0, cap=300.0),
        }
        pool = WorkerPool(transport, handle, backoff=policy, max_attempts=10, poll_interval=0.05)
        # [pool-end]
        async with pool:
            while not (await transport.stats()).dead:
                await asyncio.sleep(0.05)
        print("attempts:", attempts)
        async for letter in transport.dead_letters("order-42"):
            print("dead:", letter.reason, "after", letter.attempts)


asyncio.run(main())
