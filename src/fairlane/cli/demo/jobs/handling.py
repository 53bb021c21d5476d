"""What a worker process does with jobs."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fairlane.cli.demo.crew import WorkerPlan
from fairlane.cli.demo.handling import CONNECT_TIMEOUT, pool_options
from fairlane.cli.demo.jobs.kinds import KINDS, Kind
from fairlane.cli.demo.jobs.plan import EVERY, TICKING
from fairlane.cli.demo.records import Delivery, Recorder, digest
from fairlane.jobs import AsyncJobQueue, Job, JobContext, Jobs
from fairlane.worker import WorkerEvent, WorkerPool

__all__ = ("pool", "registry")

TICK_PAUSE = 0.1
TICK_PRIORITY = 10
SETTLED = {"acked", "nacked", "dead_lettered", "released", "lease_lost", "unsettled"}


@asynccontextmanager
async def pool(plan: WorkerPlan, recorder: Recorder) -> AsyncIterator[WorkerPool[Any]]:
    """Connect, and yield a pool that has not begun."""
    async with AsyncJobQueue.connect(
        plan.url,
        plan.database,
        driver=plan.driver,
        connect_timeout=CONNECT_TIMEOUT,
        lease=plan.visibility,
    ) as queue:
        yield WorkerPool(
            queue,
            registry(recorder),
            on_event=lambda event: _record(recorder, event),
            **pool_options(plan),
        )


def registry(recorder: Recorder) -> Jobs:
    """Return handlers that do as their kind says, and record both of their ends."""
    jobs = Jobs()
    for kind in KINDS.values():
        handler = _blocking(kind, recorder) if kind.is_blocking else _waiting(kind, recorder)
        jobs.event(kind.name, max_concurrency=kind.max_concurrency)(handler)

    @jobs.recurring(TICKING, every=EVERY, priority=TICK_PRIORITY)
    async def tick(ctx: JobContext) -> None:
        with recorder.execution(_delivery(ctx.job)):
            await asyncio.sleep(TICK_PAUSE)

    return jobs


def _waiting(kind: Kind, recorder: Recorder) -> Callable[[JobContext, Any], Any]:
    async def handle(ctx: JobContext, params: Any) -> None:
        with recorder.execution(_delivery(ctx.job)):
            await asyncio.sleep(kind.pause)
            _answer(kind, ctx)

    return handle


def _blocking(kind: Kind, recorder: Recorder) -> Callable[[JobContext, Any], Any]:
    def handle(ctx: JobContext, params: Any) -> None:
        with recorder.execution(_delivery(ctx.job)):
            time.sleep(kind.pause)
            _answer(kind, ctx)

    return handle


def _answer(kind: Kind, ctx: JobContext) -> None:
    error = kind.answer(ctx.attempt)
    if error is not None:
        raise error


def _delivery(job: Job) -> Delivery:
    tick = job.scheduled_at
    return Delivery(
        group=job.id,
        index=job.payload["index"] if tick is None else round(tick.timestamp() * 1000),
        seq=job.epoch,
        attempt=job.attempts,
        digest=digest(job.payload),
    )


def _record(recorder: Recorder, event: WorkerEvent) -> None:
    if event.kind in SETTLED:
        recorder.settled(event.kind, event.job_id, seq=event.epoch, attempt=event.attempt)
