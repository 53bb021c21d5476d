"""The enqueuing side: several enqueuers at once; unique jobs are enqueued twice at once."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from fairlane.cli.demo.jobs.plan import JobsPlan, PlannedJob
from fairlane.cli.demo.records import now
from fairlane.jobs import AsyncJobQueue

__all__ = ("Enqueuing", "Placed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """What one call of `enqueue` returned; the times (nanoseconds) are around the call."""

    job: PlannedJob
    id: str
    is_created: bool
    started_at: int
    returned_at: int


class Enqueuing:
    """Enqueues what is planned.

    Attributes:
        placed: grows as the calls return.
        finished: how many of the planned jobs are in.
    """

    def __init__(self, queue: AsyncJobQueue) -> None:
        self._queue = queue
        self.placed: list[Placed] = []
        self.finished: int = 0

    async def run(self, plan: JobsPlan) -> None:
        jobs = iter(plan.jobs)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(plan.producers):
                tasks.create_task(self._place_all(jobs))

    async def _place_all(self, jobs: Iterator[PlannedJob]) -> None:
        for job in jobs:
            await asyncio.gather(*(self._place(job) for _ in range(1 + job.is_unique)))
            self.finished += 1

    async def _place(self, job: PlannedJob) -> None:
        started_at = now()
        told = await self._queue.enqueue(
            job.payload(),
            job.type,
            priority=job.priority,
            delay=job.delay,
            max_attempts=job.kind.max_attempts,
            unique_key=job.unique_key,
        )
        self.placed.append(
            Placed(
                job=job,
                id=told.id,
                is_created=told.created,
                started_at=started_at,
                returned_at=now(),
            )
        )
