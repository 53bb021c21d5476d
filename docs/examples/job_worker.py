import asyncio

from fairlane import AsyncJobQueue, Backoff, Fail, JobContext, Jobs, WorkerPool

jobs = Jobs()


@jobs.event("email", max_attempts=5, retry=Backoff(base=0.1), max_concurrency=2)
async def send_email(ctx: JobContext, params: dict[str, str]) -> None:
    if "@" not in params["to"]:
        raise Fail("not an address")  # never succeeds: no attempt is wasted
    if ctx.attempt == 1:
        raise ConnectionError("the mail server is away")  # again after the back-off
    print("sent to", params["to"], "attempt", ctx.attempt)


@jobs.recurring("cleanup", every="24h")
async def clean_up(ctx: JobContext) -> None:
    print("cleaning up for", ctx.scheduled_at)


async def main() -> None:
    async with AsyncJobQueue.connect("mongodb://localhost:27017", "app") as queue:
        await send_email.enqueue(queue, {"to": "ann@example.org"}, unique_key="welcome:ann")
        await send_email.enqueue(queue, {"to": "nobody"})
        pool = WorkerPool(queue, jobs, concurrency=32, signals=True)
        await pool.run()  # until SIGTERM or Ctrl-C; then it finishes what has started


asyncio.run(main())
