"""Idle pools are woken by what other processes do (faults 34, 54 and 55, and server restarts).

The pools poll each half minute, and a test waits for a third of that: what is handled in a test
was not found by a poll.
"""

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from pymongo.errors import OperationFailure

from fairlane import AsyncJobQueue, AsyncMongoTransport, Jobs, Lease, WorkerPool
from fairlane.driver import Document, Driver
from fairlane.lease import watching
from fairlane.lease.watching import freeing
from integration.wire.proxy import Fault, Proxy

NEVER = 30.0
SOON = 10.0

Opened = Callable[..., Any]
Transport = AsyncMongoTransport[Any]
Told = Callable[[], Awaitable[list[Document]]]


class Handled:
    """A handler that notes what it was given, and does nothing."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self._changed = anyio.Event()

    async def __call__(self, lease: Lease[Any]) -> None:
        self.note(lease.event)

    def note(self, event: Any) -> None:
        self.events.append(event)
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, number: int) -> None:
        with anyio.fail_after(SOON):
            while len(self.events) < number:
                await self._changed.wait()


@pytest.fixture(autouse=True)
async def change_streams(connect: Opened, db_name: str) -> None:
    database = connect("pymongo").get_database(db_name)
    try:
        await database.command("aggregate", 1, pipeline=[{"$changeStream": {}}], cursor={})
    except OperationFailure as error:
        pytest.skip(f"the server has no change streams: {error}")


@pytest.fixture
def elsewhere(connect: Opened, db_name: str) -> Transport:
    """A transport that tells the pools of this process nothing."""
    return AsyncMongoTransport(connect("pymongo"), db_name)


@pytest.fixture
def handled() -> Handled:
    return Handled()


@asynccontextmanager
async def watched(*args: Any, **options: Any) -> AsyncIterator[WorkerPool[Any]]:
    pool = WorkerPool[Any](*args, **{"poll_interval": NEVER, **options})
    async with pool:
        await until_watched(pool)
        yield pool


async def until_watched(pool: WorkerPool[Any], is_watched: bool = True) -> None:
    with anyio.fail_after(SOON):
        while pool.health.is_watched is not is_watched:  # noqa: ASYNC110
            await anyio.sleep(0.01)


@pytest.fixture
def transport(connect: Opened, db_name: str, command_log: Any) -> Transport:
    return AsyncMongoTransport(connect("motor", event_listeners=[command_log]), db_name)


async def test_messages_published_elsewhere_are_handled_before_the_next_poll(
    transport: Transport, elsewhere: Transport, handled: Handled
) -> None:
    async with watched(transport, handled):
        for number in range(3):
            await elsewhere.publish(f"g{number}", number)
            await handled.until(number + 1)

    assert handled.events == [0, 1, 2]


async def test_group_that_is_parked_elsewhere_is_handled_when_it_is_due(
    transport: Transport, elsewhere: Transport, handled: Handled
) -> None:
    await elsewhere.publish("g", 1)
    lease = await elsewhere.claim("w")
    assert lease is not None

    async with watched(transport, handled):
        await elsewhere.nack(lease, 0.5)
        await handled.until(1)

    assert handled.events == [1]


async def test_group_that_another_worker_gives_back_is_handled_at_once(
    transport: Transport, elsewhere: Transport, handled: Handled
) -> None:
    await elsewhere.publish("g", 1)
    lease = await elsewhere.claim("w")
    assert lease is not None

    async with watched(transport, handled):
        await elsewhere.release(lease)
        await handled.until(1)

    assert handled.events == [1]


async def test_lease_of_a_dead_worker_is_taken_over_when_it_ends(
    transport: Transport, elsewhere: Transport, handled: Handled
) -> None:
    await elsewhere.publish("g", 1)
    assert await elsewhere.claim("w", visibility=1)

    async with watched(transport, handled):
        await handled.until(1)

    assert handled.events == [1]


async def test_pool_with_one_slot_starts_each_job_as_soon_as_it_can(
    connect: Opened, db_name: str
) -> None:
    """Fault 34: five jobs wait while one is at work, and a sixth is due later."""
    queue, other = (AsyncJobQueue(connect("pymongo"), db_name) for _ in range(2))
    jobs, handled = Jobs(), Handled()

    @jobs.event("work")
    async def work(ctx: Any, number: int) -> None:
        handled.note(number)

    async with watched(queue, jobs, concurrency=1):
        for number in range(5):
            await other.enqueue(number, "work")
        await other.enqueue(5, "work", delay=0.7)
        await handled.until(6)

    assert handled.events == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "fault",
    [{"errorCode": 286}, {"errorCode": 43}, {"closeConnection": True}],
    ids=["history lost", "cursor lost", "connection lost"],
)
async def test_stream_that_fails_comes_back(
    transport: Transport,
    elsewhere: Transport,
    handled: Handled,
    fail_command: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    fault: Document,
) -> None:
    monkeypatch.setattr(watching, "AWAIT", 0.1)
    async with watched(transport, handled) as pool:
        await fail_command("getMore", **fault)
        await until_watched(pool, False)
        await elsewhere.publish("g", 1)
        await handled.until(1)
        await until_watched(pool)
        await elsewhere.publish("h", 2)
        await handled.until(2)

    assert handled.events == [1, 2]


async def test_stream_whose_connection_is_dead_is_replaced_while_others_work_on(
    connect: Opened,
    db_name: str,
    fairlane_url: str,
    elsewhere: Transport,
    handled: Handled,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watching, "AWAIT", 0.1)
    monkeypatch.setattr(watching, "PATIENCE", 0.3)
    async with Proxy.opened(fairlane_url) as proxy:
        transport = AsyncMongoTransport[Any](connect("motor", proxy.url), db_name)
        async with watched(transport, handled) as pool:
            proxy.arm(Fault(kind="delay", command="getMore", seconds=60))
            await until_watched(pool, False)
            state = pool.health.state
            await until_watched(pool)
            await elsewhere.publish("g", 1)
            await handled.until(1)

    assert (state, handled.events) == ("ok", [1])


async def test_pool_without_wakeups_is_not_watched(
    connect: Opened, db_name: str, handled: Handled
) -> None:
    transport = AsyncMongoTransport[Any](connect("motor"), db_name, wakeups=False)
    pool = WorkerPool(transport, handled, poll_interval=0.05)

    async with pool:
        await anyio.sleep(0.3)
        is_watched = pool.health.is_watched

    assert not is_watched


async def test_idle_pool_sends_one_read_an_interval(
    transport: Transport, handled: Handled, command_log: Any
) -> None:
    async with watched(transport, handled, poll_interval=0.2):
        await anyio.sleep(0.3)
        command_log.take()
        await anyio.sleep(1)
        sent = command_log.take()

    assert 1 <= len(sent) <= 5
    assert set(sent) == {"find"}


@pytest.fixture
async def told(connect: Opened, db_name: str) -> AsyncIterator[Told]:
    """Return what reads all that the stream tells within 0.2 s."""
    await AsyncMongoTransport[Any](connect("pymongo"), db_name).stats()
    opens = Driver(connect("pymongo")).watching(db_name)
    assert opens is not None
    stream = opens()
    await stream.open(freeing(["fairlane_locks"]), None)

    async def read() -> list[Document]:
        found: list[Document] = []
        until = anyio.current_time() + 0.2
        while anyio.current_time() < until:
            found += (await stream.more(0.05)).documents
        return found

    yield read
    await stream.close()


async def test_stream_tells_of_what_becomes_claimable_and_of_nothing_else(
    connect: Opened, db_name: str, told: Told
) -> None:
    transport = AsyncMongoTransport[Any](connect("pymongo"), db_name)
    await transport.publish("g", 1)
    (published,) = await told()
    lease = await transport.claim("w", 30)
    assert lease is not None
    await transport.extend(lease, 60)
    await transport.publish("g", 2)
    quiet = await told()
    await transport.nack(lease, 100)
    (parked,) = await told()

    assert quiet == []
    assert 90 < parked["at"] - published["at"] - 60 < 110
    assert (published["done"], parked["done"]) == ([], [])


async def test_stream_tells_of_a_stopped_group_when_it_goes_on(
    connect: Opened, db_name: str, told: Told
) -> None:
    transport = AsyncMongoTransport[Any](connect("pymongo"), db_name, dead_head="stop")
    await transport.publish_many([("g", 1), ("g", 2)])
    lease = await transport.claim("w")
    assert lease is not None
    await transport.dead_letter(lease, "because")
    await told()
    await transport.publish("g", 3)
    quiet = await told()
    await transport.redrive()
    (gone_on,) = await told()

    assert quiet == []
    assert math.isfinite(gone_on["at"])
