"""The server is killed in the middle of the work and comes back; it writes through to the disk."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from pymongo.errors import PyMongoError

from fairlane import AsyncMongoTransport, WorkerPool
from fairlane.cli.demo.records import Journal, Recorder, now
from fairlane.testing import LocalServer, local_server
from fairlane.worker import WorkerEvent
from soak.plan import BACKOFF, MAX_ATTEMPTS, Plan
from soak.publishing import Publishing
from soak.verdict import Record, judge, unnumbered
from soak.work import Handler

Transport = AsyncMongoTransport[Any]

PLAN = Plan(seed=3, seconds=0.0, groups=12, publishers=3, backlog=60)
VISIBILITY = 2.0
SOON = 10.0
"""Seconds; drivers, leases and back-offs that met the crash need some of them."""
LONG = 40.0
OUTAGE = 2.0


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


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    """A server of our own: it is killed."""
    with local_server(sync_on_commit=True) as server:
        yield server


@pytest.fixture(scope="module")
def fairlane_url(server: LocalServer) -> str:
    return server.url


@pytest.fixture(params=["motor", "pymongo"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def transport(make_transport: Callable[..., Transport]) -> Transport:
    return make_transport(clock=None)


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    with closing(Recorder(tmp_path / "journal", "pools")) as recorder:
        yield recorder


@asynccontextmanager
async def working(
    transport: Transport, recorder: Recorder, acks: Acks
) -> AsyncIterator[Publishing]:
    """Publish and handle in two pools; at the end let all of it be finished."""
    publishing = Publishing(transport, PLAN)
    pools = [
        WorkerPool(
            transport,
            Handler(recorder),
            worker_id=f"pool-{number}",
            visibility=VISIBILITY,
            max_attempts=MAX_ATTEMPTS,
            backoff=BACKOFF,
            poll_interval=0.1,
            on_event=acks,
        )
        for number in range(2)
    ]
    async with asyncio.TaskGroup() as tasks:
        for pool in pools:
            tasks.create_task(pool.run())
        tasks.create_task(publishing.go_on(acks))
        yield publishing
        publishing.stop()
        async with asyncio.timeout(LONG):
            while (await transport.stats()).groups:
                await acks.a_moment()
        for pool in pools:
            pool.stop()


async def looked_at(transport: Transport, chance: random.Random, until: float) -> None:
    """Look into the transport again and again, never patient enough for an answer."""
    while time.monotonic() < until:
        with anyio.move_on_after(chance.uniform(0.05, 0.7)), suppress(PyMongoError):
            await transport.peek("g")


@pytest.mark.parametrize("driver", ["pymongo"], indirect=True)  # Motor's calls run in threads
async def test_clients_survive_calls_that_are_cut_off_while_the_server_is_down(
    server: LocalServer, connect: Callable[..., Any], db_name: str, driver: str
) -> None:
    """A pool does so with renewals that take too long (PyMongo 4.20 on Python 3.11)."""
    transports = [Transport(connect(driver), db_name) for _ in range(8)]
    for transport in transports:
        await transport.peek("g")
    await asyncio.to_thread(server.kill)
    until = time.monotonic() + OUTAGE
    async with asyncio.TaskGroup() as tasks:
        for number in range(8 * len(transports)):
            chance = random.Random(number)
            tasks.create_task(looked_at(transports[number % len(transports)], chance, until))
    await asyncio.to_thread(server.restart)

    async with asyncio.timeout(SOON):
        for transport in transports:
            await transport.publish("g", None)


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    server: LocalServer, transport: Transport, recorder: Recorder, tmp_path: Path
) -> None:
    acks = Acks()
    async with working(transport, recorder, acks) as publishing:
        await acks.more(30)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.restart)
        await acks.more(1, within=SOON)
        await acks.more(30)

    letters = [letter async for letter in transport.dead_letters()]
    record = Record(
        published=publishing.published,
        executions=Journal(tmp_path / "journal").executions(died_at=now()),
        events=acks.events,
        dead=frozenset((letter.group_id, (letter.event or {})["index"]) for letter in letters),
    )
    assert judge(unnumbered(record)) == []
