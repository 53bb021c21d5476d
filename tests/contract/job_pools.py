"""What the tests of jobs in pools share."""

import asyncio
from collections.abc import Callable
from typing import Any

from fairlane import AsyncJobQueue, Backoff, Jobs, WorkerPool
from fairlane.worker import WorkerEvent

__all__ = ("LONG", "SOON", "MakePool", "MakeQueue", "Record", "pool_of")

SOON = Backoff(base=0.05, jitter=0.0)
LONG = 30.0

MakeQueue = Callable[..., AsyncJobQueue]
MakePool = Callable[..., WorkerPool[Any]]


class Record:
    """Listens to pools, and lets a test wait for what happens."""

    def __init__(self) -> None:
        self.events: list[WorkerEvent] = []
        self._news: asyncio.Queue[WorkerEvent] = asyncio.Queue()

    def __call__(self, event: WorkerEvent) -> None:
        self._news.put_nowait(event)

    async def until(self, kind: str, times: int = 1) -> None:
        async with asyncio.timeout(LONG):
            while self.kinds.count(kind) < times:
                self.events.append(await self._news.get())

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


def pool_of(queue: AsyncJobQueue, jobs: Jobs, record: Record, **options: Any) -> WorkerPool[Any]:
    settings: dict[str, Any] = {"poll_interval": 0.05, "backoff": SOON, "on_event": record}
    return WorkerPool(queue, jobs, **{**settings, **options})
