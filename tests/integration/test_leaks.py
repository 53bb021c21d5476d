"""Nothing is left of what was cancelled or closed, on a real server by real drivers."""

import asyncio
import random
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pymongo
import pytest
from pymongo.monitoring import ConnectionPoolListener

from fairlane import AsyncJobQueue, AsyncMongoTransport, Lease, MongoTransport, WorkerPool
from unit.growth import measured

CANCELLATIONS = 100
"""For each driver; a thousand with `-m whole_matrix`. In memory it is a thousand in any case."""
TOGETHER = 10
WARM_UP = 3
LONGEST_DELAY = 0.01
"""Seconds: about what so many operations take together."""

RUNS = 6
VISIBILITY = 0.6
"""Seconds."""
NOISE = 500
"""Objects that a driver makes and keeps, as for its sessions. A run of a pool has hundreds."""

SHARED = ("ThreadPoolExecutor", "asyncio_")
PYMONGO = Path(pymongo.__file__).parent
PATIENCE = 10.0
"""Seconds within which what has been told to end must have ended."""

WHOLE = pytest.mark.whole_matrix, pytest.mark.timeout(600)

Call = Coroutine[Any, Any, Any]


class InUse(ConnectionPoolListener):
    """Counts the connections that somebody uses."""

    def __init__(self) -> None:
        self.number = 0

    def connection_checked_out(self, event: Any) -> None:
        self.number += 1

    def connection_checked_in(self, event: Any) -> None:
        self.number -= 1

    def ignore(self, event: Any) -> None:
        """The driver prints a traceback, with its sources, for each event without a method."""

    pool_created = pool_ready = pool_cleared = pool_closed = ignore
    connection_created = connection_ready = connection_closed = ignore
    connection_check_out_started = connection_check_out_failed = ignore


async def eventually(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE):
        while not is_so():  # noqa: ASYNC110 - threads and a server tell nobody when they are done
            await anyio.sleep(0.02)


class Scene:
    def __init__(self, client: Any, db_name: str) -> None:
        self.transport: AsyncMongoTransport[Any] = AsyncMongoTransport(client, db_name)
        self.queue = AsyncJobQueue(client, db_name)
        self._number = 0

    def group(self) -> str:
        self._number += 1
        return f"group-{self._number}"

    async def arrange(self, number: int) -> list[Lease[Any]]:
        """Return so many leases; let as many messages, and jobs, be claimable."""
        await self.transport.publish_many((self.group(), "event") for _ in range(number + 3))
        await self.queue.enqueue_many(range(3), "work")
        return await self.transport.claim_many("w", number)

    def operation(self, lease: Lease[Any], chance: random.Random) -> Call:
        transport, queue = self.transport, self.queue
        ways: list[Callable[[], Call]] = [
            lambda: transport.publish(self.group(), "event"),
            lambda: transport.claim_many("w", 3),
            lambda: transport.ack(lease),
            lambda: transport.nack(lease),
            lambda: transport.extend(lease),
            lambda: queue.enqueue({}, "work"),
            lambda: queue.claim_many(3, "work"),
        ]
        return chance.choice(ways)()

    async def clear_up(self, leases: list[Lease[Any]]) -> None:
        """Settle what is held by right, and all that is claimable."""
        await self.transport.ack_many(leases)
        while found := await self.transport.claim_many("w", 100):
            await self.transport.ack_many(found)
        while jobs := await self.queue.claim_many(100, "work"):
            await self.queue.ack_many(jobs)


async def cancel_together(scene: Scene, chance: random.Random) -> int:
    """Cancel operations that go on at the same time; return for how many it was not too late."""
    leases = await scene.arrange(TOGETHER)
    tasks = [asyncio.ensure_future(scene.operation(lease, chance)) for lease in leases]
    for task in tasks:
        await asyncio.sleep(chance.uniform(0.0, 2 * LONGEST_DELAY / TOGETHER))
        task.cancel()
    await asyncio.wait(tasks)
    results = [task.result() for task in tasks if not task.cancelled()]
    found = [each for result in results if isinstance(result, list) for each in result]
    await scene.clear_up(leases + [each for each in found if isinstance(each, Lease)])
    await scene.queue.ack_many(each for each in found if not isinstance(each, Lease))
    return sum(task.cancelled() for task in tasks)


def own_tasks() -> set[Any]:
    """Return the tasks that neither the test nor a driver has made."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    return {task for task in others if PYMONGO not in Path(origin_of(task)).parents}


def origin_of(task: asyncio.Task[Any]) -> str:
    code = getattr(task.get_coro(), "cr_code", None)
    return "" if code is None else str(code.co_filename)


@pytest.mark.parametrize("number", [CANCELLATIONS, pytest.param(1_000, marks=WHOLE)])
async def test_random_cancellations_leave_no_lease_connection_or_task(
    connect: Callable[..., Any], driver: str, db_name: str, number: int
) -> None:
    in_use, chance = InUse(), random.Random(6)
    client = connect(driver, event_listeners=[in_use], maxPoolSize=8)
    scene = Scene(client, db_name)
    for _ in range(WARM_UP):
        await cancel_together(scene, chance)
    with measured() as growth:
        rounds = range(number // TOGETHER)
        cancelled = sum([await cancel_together(scene, chance) for _ in rounds])
        await eventually(lambda: in_use.number == 0)
    transport, queue = await scene.transport.stats(), await scene.queue.stats()
    assert (transport.groups, transport.messages) == (0, 0)
    assert (queue.processing, queue.ready) == (0, 0)
    assert number // 4 < cancelled < number, "all were at the same time"
    assert own_tasks() == set()
    growth.assert_flat(number, of=number, noise=NOISE)


async def connections(client: Any) -> int:
    status = await client.get_database("admin").command("serverStatus")
    return int(status["connections"]["current"])


async def test_pool_that_is_run_again_and_again_leaves_no_thread_client_or_connection(
    connect: Callable[..., Any], driver: str, db_name: str
) -> None:
    """Each time it opens a client for its renewals, and one for the change stream."""
    client = connect(driver, maxPoolSize=8)
    transport: AsyncMongoTransport[Any] = AsyncMongoTransport(client, db_name)

    async def handle(_: Lease[Any]) -> None:
        await anyio.sleep(VISIBILITY / 2)

    pool = WorkerPool(transport, handle, visibility=VISIBILITY, poll_interval=0.02)

    async def run(times: int) -> None:
        for number in range(times):
            await transport.publish(f"group-{number}", "event")
            async with pool:
                await eventually(lambda: pool.health.is_watched)
                await eventually_drained(transport)

    await run(2)
    threads, connected = set(threading.enumerate()), await connections(client)
    with measured() as growth:
        await run(RUNS)
        await anyio.sleep(0.05)  # what the drivers do last
    assert own_tasks() == set()
    assert growth.objects["AsyncMongoClient"] == 0
    growth.assert_flat(RUNS, of=RUNS, noise=NOISE)
    await eventually(lambda: not others(threads))
    assert await connections(client) <= connected + 2


def others(threads: set[threading.Thread]) -> list[threading.Thread]:
    """Return the threads that are not among these, nor those of a pool that others have as well.

    Motor sends commands in one, and event loops look up addresses in one.
    """
    new = set(threading.enumerate()) - threads
    return [thread for thread in new if not thread.name.startswith(SHARED)]


async def eventually_drained(transport: AsyncMongoTransport[Any]) -> None:
    with anyio.fail_after(PATIENCE):
        while (await transport.stats()).groups:  # noqa: ASYNC110 - the pool acks by itself
            await anyio.sleep(0.02)


@pytest.mark.parametrize(
    ("driver", "openings"),
    [
        ("motor", 25),
        ("pymongo", 8),
        *(pytest.param(driver, 100, marks=WHOLE) for driver in ("motor", "pymongo")),
    ],
)
def test_facade_that_is_opened_again_and_again_leaves_no_thread_or_client(
    fairlane_url: str, db_name: str, driver: str, janitor: Any, openings: int
) -> None:
    def open_and_close(times: int) -> None:
        for number in range(times):
            with MongoTransport.from_url(fairlane_url, db_name, driver=driver) as transport:
                transport.publish(f"group-{number}", "event")

    open_and_close(3)
    wait_until_alone(threads := set(threading.enumerate()))
    with measured() as growth:
        open_and_close(openings)
        wait_until_alone(threads)
    janitor.drop_database(db_name)
    assert growth.objects["AsyncMongoClient"] + growth.objects["MongoClient"] == 0
    growth.assert_flat(openings, of=openings, noise=NOISE)


def wait_until_alone(threads: set[threading.Thread]) -> None:
    ends_at = time.monotonic() + PATIENCE
    while others(threads):
        assert time.monotonic() < ends_at, others(threads)
        time.sleep(0.02)
