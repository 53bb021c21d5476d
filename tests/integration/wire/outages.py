"""Pools as applications run them, what is written down about them, and what must hold."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient

from fairlane import AsyncJobQueue, AsyncMongoTransport, Jobs, Lease, WorkerPool
from fairlane.driver import close
from fairlane.worker import WorkerEvent

__all__ = ("KINDS", "Opened", "backlog", "opened", "working")

CLIENTS: dict[str, Callable[..., Any]] = {"motor": AsyncIOMotorClient, "pymongo": AsyncMongoClient}
KINDS = ("url motor", "url pymongo", "own motor", "own pymongo", "jobs motor", "jobs pymongo")
"""What a pool works on: a transport by its URL or on a client of ours, a queue on such a client."""

GROUPS = 4
PER_GROUP = 5
LONG = 0
"""The first message of all is worked on until the server is back."""
QUICK = 0.1
TYPE = "work"


class Witness:
    """Handles what one pool is given, and writes down what happens to it.

    Attributes:
        acked: what was acknowledged, in order.
        claimed_at: when something was claimed.
        breaches: what must never happen, and did.
        states: those that the pool went through.
        ages: how long ago its last poll was, again and again while the server was away.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.acked: list[Any] = []
        self.claimed_at: list[float] = []
        self.breaches: list[str] = []
        self.states: list[str] = []
        self.ages: list[float] = []
        self._started: defaultdict[str, list[int]] = defaultdict(list)
        self._at_work: set[str] = set()

    def hear(self, event: WorkerEvent) -> None:
        if event.kind == "claimed":
            self.claimed_at.append(time.monotonic())
        if event.kind == "acked":
            self.acked.append(event.job_id or (event.group_id, event.seq))

    @property
    def has_begun(self) -> bool:
        return len(self.acked) > 1

    @property
    def missing(self) -> set[int]:
        """Numbers that have never come."""
        return set(range(GROUPS * PER_GROUP)).difference(*self._started.values())

    def claims_after(self, moment: float) -> float:
        """Return how many seconds later there was a claim."""
        return min(at for at in self.claimed_at if at >= moment) - moment

    def look(self, pool: WorkerPool[Any], *, is_away: bool) -> None:
        health = pool.health
        if self.states[-1:] != [health.state]:
            self.states.append(health.state)
        if is_away and health.last_poll_age is not None:
            self.ages.append(health.last_poll_age)

    @contextmanager
    def handling(self, group: str, number: int, key: Any) -> Iterator[None]:
        if key in self.acked:
            self.breaches.append(f"{key} came again after its acknowledgement")
        if group in self._at_work:
            self.breaches.append(f"two handlers in {group}")
        if any(each > number for each in self._started[group]):
            self.breaches.append(f"{number} of {group} came after a later one")
        self._started[group].append(number)
        self._at_work.add(group)
        try:
            yield
        finally:
            self._at_work.remove(group)


class Opened:
    """What a pool works on, with the witness of it."""

    def __init__(self, kind: str, source: Any, until: asyncio.Event) -> None:
        self.source = source
        self.witness = Witness(kind)
        self._until = until

    def pool(self, visibility: float) -> WorkerPool[Any]:
        options: dict[str, Any] = {"concurrency": 2, "on_event": self.witness.hear}
        if isinstance(self.source, AsyncJobQueue):
            jobs = Jobs()
            jobs.event(TYPE, lease=visibility)(self._run)
            return WorkerPool(self.source, jobs, **options)
        return WorkerPool(self.source, self._handle, visibility=visibility, **options)

    async def _handle(self, lease: Lease[Any]) -> None:
        with self.witness.handling(lease.group_id, lease.event, (lease.group_id, lease.seq)):
            await self._work(lease.event)

    async def _run(self, context: Any, number: int) -> None:
        with self.witness.handling(context.job.id, number, context.job.id):
            await self._work(number)

    async def _work(self, number: int) -> None:
        if number == LONG:
            await self._until.wait()
        await asyncio.sleep(QUICK)

    async def is_drained(self) -> bool:
        if isinstance(self.source, AsyncJobQueue):
            return not await self.source.size() + await self.source.in_flight()
        return (await self.source.stats()).groups == 0  # type: ignore[no-any-return]


async def backlog(kind: str, url: str, db_name: str) -> None:
    """Store what a pool is to work on."""
    client = AsyncMongoClient[dict[str, Any]](url)
    numbers = range(GROUPS * PER_GROUP)
    if kind.startswith("jobs"):
        await AsyncJobQueue(client, db_name).enqueue_many(list(numbers), TYPE)
    else:
        items = [(f"g{number % GROUPS}", number) for number in numbers]
        await AsyncMongoTransport[Any](client, db_name).publish_many(items)
    await client.close()


@asynccontextmanager
async def opened(kind: str, url: str, db_name: str, until: asyncio.Event) -> AsyncIterator[Opened]:
    """Open it as an application does; nothing is asked of a driver but its defaults."""
    how, _, driver = kind.partition(" ")
    if how == "url":
        opening = AsyncMongoTransport.from_url(url, db_name, driver=driver, connect_timeout=60)
        async with opening as transport:
            yield Opened(kind, transport, until)
        return
    client = CLIENTS[driver](url)
    product: Any = AsyncJobQueue if how == "jobs" else AsyncMongoTransport
    yield Opened(kind, product(client, db_name), until)
    await close(client)


@asynccontextmanager
async def working(
    it: Opened, visibility: float, is_away: Callable[[], bool]
) -> AsyncIterator[None]:
    """Let a pool work, and look at its health all the time."""
    pool = it.pool(visibility)
    async with pool:
        looking = asyncio.create_task(_look(it.witness, pool, is_away))
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking


async def _look(witness: Witness, pool: WorkerPool[Any], is_away: Callable[[], bool]) -> None:
    while True:
        witness.look(pool, is_away=is_away())
        await asyncio.sleep(0.1)
