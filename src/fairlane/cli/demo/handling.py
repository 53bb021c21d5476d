"""What a worker process does with events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fairlane.cli.demo.crew import WorkerPlan
from fairlane.cli.demo.input import Json
from fairlane.cli.demo.plan import BACKOFF, MAX_ATTEMPTS, fails_first, pause
from fairlane.cli.demo.records import Delivery, Recorder, digest
from fairlane.model import Lease
from fairlane.transport import AsyncMongoTransport
from fairlane.worker import WorkerPool

__all__ = ("CONNECT_TIMEOUT", "DeliberateFailure", "Handler", "pool", "pool_options")

CONNECT_TIMEOUT = 5.0
DRAIN_TIMEOUT = 3.0


class DeliberateFailure(Exception):
    """A failure by plan."""


class Handler:
    """Works a moment on each event, fails where the plan says so, and records both ends."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    async def __call__(self, lease: Lease[dict[str, Json]]) -> None:
        delivery = _delivery(lease)
        with self._recorder.execution(delivery):
            await asyncio.sleep(pause(delivery.group, delivery.index))
            if delivery.attempt == 1 and fails_first(delivery.group, delivery.index):
                raise DeliberateFailure(f"first delivery of seq {delivery.seq} fails by plan")


def _delivery(lease: Lease[dict[str, Json]]) -> Delivery:
    index = lease.event["index"]
    assert isinstance(index, int)
    return Delivery(
        group=lease.group_id,
        index=index,
        seq=lease.seq,
        attempt=lease.attempt,
        digest=digest(lease.event["event"]),
    )


@asynccontextmanager
async def pool(plan: WorkerPlan, recorder: Recorder) -> AsyncIterator[WorkerPool[dict[str, Json]]]:
    """Connect, and yield a pool that has not begun."""
    async with AsyncMongoTransport[dict[str, Json]].from_url(
        plan.url, plan.database, driver=plan.driver, connect_timeout=CONNECT_TIMEOUT
    ) as transport:
        yield WorkerPool(
            transport,
            Handler(recorder),
            claimers=plan.claimers,
            visibility=plan.visibility,
            max_attempts=MAX_ATTEMPTS,
            **pool_options(plan),
        )


def pool_options(plan: WorkerPlan) -> dict[str, Any]:
    """Return what pools are told whatever they work off."""
    return {
        "concurrency": plan.claimers,
        "worker_id": plan.name,
        "backoff": BACKOFF,
        "poll_interval": 0.2,
        "drain_timeout": DRAIN_TIMEOUT,
    }
