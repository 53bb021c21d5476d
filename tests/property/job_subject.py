"""A real job queue that is compared with its model."""

import asyncio
import hashlib
import itertools
from collections.abc import Coroutine
from typing import Any, TypeVar

from fairlane import AsyncJobQueue
from fairlane.testing import ManualClock
from property.walks import let_walk
from property.world import START

__all__ = ("JobSubject",)

T = TypeVar("T")


class JobSubject:
    """A real queue, and the one loop in which its client lives."""

    def __init__(
        self, runner: asyncio.Runner, queue: AsyncJobQueue, clock: ManualClock, *, partitions: int
    ) -> None:
        self.queue = queue
        self.clock = clock
        self.partitions = partitions
        self._runner = runner
        self._ids = itertools.count()

    def new_id(self) -> str:
        """Return an id that is the same in every run, as the partition and the order depend on it.

        Ids are no random ones here, but in no order either.
        """
        return hashlib.sha256(f"{next(self._ids)}".encode()).hexdigest()[:32]

    def run(self, operation: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(operation)

    def stored(self) -> dict[str, Any]:
        jobs = self.run(self.queue._store.jobs.find({}, sort=[("_id", 1)], limit=0))
        return {job["_id"]: job for job in jobs}

    def reset(self) -> None:
        """Begin anew: every run must be able to be replayed alone."""
        self.clock.jump(START)
        self._ids = itertools.count()
        self.run(self.queue.clear())
        let_walk(self.queue)
