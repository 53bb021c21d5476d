import asyncio
import sys

from fairlane import AsyncJobQueue, Backoff, JobContext, Jobs, WorkerPool

URL = "mongodb://localhost:27017"
jobs = Jobs()


# [types]
@jobs.event("welcome")
async def welcome(ctx: JobContext, params: dict[str, str]) -> None:
    print("welcome,", params["name"], flush=True)


@jobs.event("invoice", max_attempts=5, retry=Backoff(base=0.2))
async def invoice(ctx: JobContext, params: dict[str, int]) -> None:
    if ctx.attempt == 1:
        print("no printer for invoice", params["number"], flush=True)
        raise ConnectionError("the printer did not answer")
    print("printed invoice", params["number"], "at attempt", ctx.attempt, flush=True)


# [types-end]


# [recurring]
@jobs.recurring("tidy", every="1s")
async def tidy(ctx: JobContext) -> None:
    print("tidied up", flush=True)


# [recurring-end]


# [order]
async def order() -> None:
    async with AsyncJobQueue.connect(URL, "app") as queue:
        for name in ("ann", "bob"):
            added = await welcome.enqueue(queue, {"name": name}, unique_key=name)
            print("welcome for", name, "is new:", added.created)
        await invoice.enqueue(queue, {"number": 7}, unique_key="7", priority=5)
        await invoice.enqueue(queue, {"number": 8}, unique_key="8", delay=3600)


# [order-end]


# [look]
async def look() -> None:
    async with AsyncJobQueue.connect(URL, "app") as queue:
        stats = await queue.stats()
        for name, of_type in sorted(stats.by_type.items()):
            waiting = of_type.ready + of_type.delayed
            print(name, "waiting", waiting, "done", of_type.done, "failed", of_type.failed)


# [look-end]


# [work]
async def work() -> None:
    async with AsyncJobQueue.connect(URL, "app") as queue:
        await WorkerPool(queue, jobs, concurrency=10, signals=True).run()
        print("stopped")


# [work-end]


# [main]
if __name__ == "__main__":
    asyncio.run({"order": order, "look": look, "work": work}[sys.argv[1]]())
# [main-end]
