"""What a type checker makes of jobs; mypy --strict runs over it, nothing is run."""

from datetime import timedelta
from typing import Any, assert_type

from fairlane import (
    AsyncJobQueue,
    Enqueued,
    EnqueuedMany,
    Execution,
    Job,
    JobContext,
    JobQueue,
    Jobs,
    WorkerPool,
)

jobs = Jobs()


class Email:
    @classmethod
    def model_validate(cls, value: Any) -> "Email":
        return cls()

    def model_dump(self) -> dict[str, str]:
        return {}


@jobs.event("email.send", payload=Email, max_attempts=5, lease=60, max_concurrency=2)
async def send_email(ctx: JobContext, params: Email) -> None:
    assert_type(ctx.job, Job)
    await ctx.extend(timedelta(minutes=5))


@jobs.recurring("cleanup", cron="0 3 * * *", timezone="Europe/Berlin")
async def cleanup(ctx: JobContext) -> None: ...


def jobs_are_enqueued_without_an_event_loop(queue: JobQueue) -> None:
    assert_type(send_email.enqueue(queue, Email(), delay=60), Enqueued)
    assert_type(send_email.enqueue_many(queue, [Email()]), EnqueuedMany)
    assert_type(jobs.enqueue(queue, "email.send", {}), Enqueued)


async def jobs_run_in_a_pool(queue: AsyncJobQueue) -> None:
    assert_type(await send_email.enqueue(queue, Email(), delay=60), Enqueued)
    assert_type(await send_email.enqueue_many(queue, [Email()]), EnqueuedMany)
    assert_type(await jobs.enqueue(queue, "email.send", {}), Enqueued)
    pool = WorkerPool(queue, jobs, concurrency=32)
    assert_type(pool, WorkerPool[Any])
    await pool.run()
    assert_type(await queue.history("cleanup"), list[Execution])
    assert_type(await queue.remove_recurring("cleanup"), bool)
