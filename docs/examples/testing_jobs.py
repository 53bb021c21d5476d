import asyncio

from fairlane import AsyncJobQueue, JobContext, Jobs, WorkerPool
from fairlane.worker import WorkerEvent

jobs = Jobs()
sent: list[str] = []


@jobs.event("email", max_attempts=3)
async def send_email(ctx: JobContext, params: dict[str, str]) -> None:
    """Stand for the code under test."""
    sent.append(params["to"])


async def test_an_email_is_sent_by_the_pool(fairlane_queue: AsyncJobQueue) -> None:
    added = await send_email.enqueue(fairlane_queue, {"to": "ann"})
    settled = asyncio.Event()

    def listen(event: WorkerEvent) -> None:
        if event.kind in {"acked", "dead_lettered"}:
            settled.set()

    async with WorkerPool(fairlane_queue, jobs, on_event=listen):
        await asyncio.wait_for(settled.wait(), timeout=10)

    job = await fairlane_queue.get(added.id)
    assert job is not None
    assert (job.state, job.last_error) == ("done", None)
    assert sent == ["ann"]
