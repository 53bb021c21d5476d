"""Publishers and pools at work while something happens to their server, and what must hold then."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

from fairlane import AsyncMongoTransport, WorkerPool
from fairlane.cli.demo.records import Journal, Recorder, now
from fairlane.worker import WorkerEvent
from soak.plan import BACKOFF, MAX_ATTEMPTS, Plan
from soak.publishing import Publishing
from soak.verdict import Record, judge, unnumbered
from soak.work import Handler

__all__ = ("SOON", "Acks", "Crowd")

Transport = AsyncMongoTransport[Any]

PLAN = Plan(seed=3, seconds=0.0, groups=12, publishers=3, backlog=60)
VISIBILITY = 2.0
POOLS = 2
SOON = 10.0
"""Seconds; drivers, leases and back-offs that met trouble need some of them."""
LONG = 40.0


class Acks:
    """Listens to pools, counts and lets a test wait for acknowledgements."""

    def __init__(self) -> None:
        self.events: list[WorkerEvent] = []
        self.handled = 0
        self._news = asyncio.Event()

    def __call__(self, event: WorkerEvent) -> None:
        self.events.append(event)
        if event.kind == "acked":
            self.handled += 1
            self._news.set()

    async def a_moment(self) -> None:
        """Wait for another one, or a little while: the last one is none."""
        with suppress(TimeoutError):
            await self.more(1, within=0.2)

    async def more(self, number: int, *, within: float = LONG) -> None:
        """Wait for so many from now on."""
        wanted = self.handled + number
        async with asyncio.timeout(within):
            while self.handled < wanted:
                self._news.clear()
                await self._news.wait()


class Crowd:
    """Three publishers and two pools with what their handlers write down."""

    def __init__(self, transport: Transport, folder: Path) -> None:
        self.acks = Acks()
        self._transport = transport
        self._journal = folder / "journal"
        self._publishing = Publishing(transport, PLAN)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[Acks]:
        """Publish and handle; at the end let all of it be finished."""
        with closing(Recorder(self._journal, "pools")) as recorder:
            pools = [self._pool(recorder, number) for number in range(POOLS)]
            async with asyncio.TaskGroup() as tasks:
                for pool in pools:
                    tasks.create_task(pool.run())
                tasks.create_task(self._publishing.go_on(self.acks))
                yield self.acks
                self._publishing.stop()
                await self._drained()
                for pool in pools:
                    pool.stop()

    def _pool(self, recorder: Recorder, number: int) -> WorkerPool[Any]:
        return WorkerPool(
            self._transport,
            Handler(recorder),
            worker_id=f"pool-{number}",
            visibility=VISIBILITY,
            max_attempts=MAX_ATTEMPTS,
            backoff=BACKOFF,
            poll_interval=0.1,
            on_event=self.acks,
        )

    async def _drained(self) -> None:
        async with asyncio.timeout(LONG):
            while (await self._transport.stats()).groups:
                await self.acks.a_moment()

    async def breaches(self) -> list[str]:
        """Return the invariants that were broken; none if nothing acknowledged was lost."""
        letters = [letter async for letter in self._transport.dead_letters()]
        record = Record(
            published=self._publishing.published,
            executions=Journal(self._journal).executions(died_at=now()),
            events=self.acks.events,
            dead=frozenset((letter.group_id, (letter.event or {})["index"]) for letter in letters),
        )
        return judge(unnumbered(record))
