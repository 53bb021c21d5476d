"""Neither what a transport or a queue has seen, nor what was cancelled, stays in memory.

All of it is on the store in memory, which is drained again and again.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Job, Lease, WorkerPool
from fairlane.schema import FLOORS
from fairlane.testing import ManualClock
from property.footprint import Footprint
from property.memory import MemoryDatabase
from property.memory_collection import encoded
from property.pools import stepwise
from property.wire import Wire
from unit.growth import measured, traced
from unit.worker_fakes import ticks

GROUPS = 100_000
SAMPLE = 800
"""Those that leave a piece each are noticed. 100,000 of them take minutes: `-m whole_matrix`."""
TOGETHER = 8

CANCELLATIONS = 1_000
LONGEST = 40
"""Steps of the event loop."""

WHOLE = pytest.mark.whole_matrix, pytest.mark.timeout(1_800)
numbers = pytest.mark.parametrize(
    ("items", "tracing"),
    [
        pytest.param(SAMPLE, nullcontext, id="some"),
        pytest.param(5 * SAMPLE, traced, id="more, traced", marks=WHOLE),
        pytest.param(GROUPS, nullcontext, id="all", marks=WHOLE),
    ],
)

Transport = AsyncMongoTransport[Any]
Tracing = Callable[[], AbstractContextManager[None]]


class Store:
    """A database whose own part of the memory does not grow."""

    def __init__(self) -> None:
        self.database = MemoryDatabase()
        counters = self.database.collection("fairlane_counters").documents
        for bucket in range(FLOORS):  # as after so many groups
            key = f"epoch:{bucket}"
            counters[key] = encoded({"_id": key, "n": 2**40})

    def forget(self) -> None:
        """Delete what has ended, and what the store has noted for the explorer."""
        self.database.footprint = Footprint()
        for part in ("dead", "jobs", "history"):
            self.database.collection(f"fairlane_{part}").documents.clear()

    def left(self) -> list[Any]:
        return self.database.locks() + self.database.every("messages")


async def live_of_groups(transport: Transport, store: Store, groups: range) -> None:
    """Publish to as many groups, and let their messages end in every way."""
    names = [f"group-{number}" for number in groups]
    for name in names:
        await transport.publish(name, {"of": name}, message_id=name)
    leases = await transport.claim_many("w", len(names))
    ways: list[Callable[[Lease[Any]], Awaitable[object]]] = [
        transport.ack,
        transport.nack,
        transport.release,
        transport.extend,
        lambda lease: transport.dead_letter(lease, "no"),
    ]
    for lease in leases:
        await ways[lease.seq % len(ways)](lease)
    await transport.ack_many(lease for lease in leases if lease.seq % len(ways) == 3)
    await transport.publish_many((name, "again") for name in names)
    await drain(transport)
    store.forget()


async def drain(transport: Transport) -> None:
    while leases := await transport.claim_many("w", 4 * TOGETHER):
        await transport.ack_many(leases)


@pytest.mark.parametrize("is_recent", [False, True], ids=["old server", "recent server"])
@numbers
async def test_transport_keeps_nothing_of_the_groups_it_has_seen(
    items: int, tracing: Tracing, is_recent: bool
) -> None:
    with tracing():
        store = Store()
        transport = store.database.transport(clock=ManualClock(1_000_000.0), partitions=4)
        await transport.next_due()
        transport._store.driver.has_cross_collection_bulk = is_recent
        transport._store.driver.has_union = is_recent

        async def work_off(first: int, number: int) -> None:
            for at in range(first, first + number, TOGETHER):
                await live_of_groups(transport, store, range(at, at + TOGETHER))

        await work_off(0, 5 * TOGETHER)
        with measured() as growth:
            await work_off(5 * TOGETHER, items)
    assert store.left() == []
    growth.assert_flat(items, of=GROUPS)


@numbers
async def test_queue_keeps_nothing_of_the_jobs_it_has_seen(items: int, tracing: Tracing) -> None:
    store = Store()
    queue = store.database.queue(clock=ManualClock(1_000_000.0))

    async def work_off(number: int) -> None:
        for at in range(0, number, TOGETHER):
            await queue.enqueue({"n": at}, "work", unique_key=f"key-{at}")
            await queue.enqueue_many([{"n": at}] * (TOGETHER - 1), "work")
            first, second, third, *others = await queue.claim_many(TOGETHER, "work")
            await queue.extend(first)
            await queue.nack(second, error="no")
            await queue.fail(third, error="no")
            await queue.ack_many([first, *others])
            store.forget()

    with tracing():
        await work_off(5 * TOGETHER)
        with measured() as growth:
            await work_off(items)
    growth.assert_flat(items, of=GROUPS)


async def test_subscriptions_that_come_and_go_leave_nothing() -> None:
    transport = Store().database.transport()
    with measured() as growth:
        for _ in range(1_000):
            transport.subscribe(lambda: None)()
    growth.assert_flat(1_000, of=1_000)


class Scene:
    """One who is cancelled, and another one who arranges and clears up."""

    def __init__(self, store: Store) -> None:
        self.store = store
        clock = ManualClock(1_000_000.0)
        self.own, self.other = (store.database.transport(clock=clock) for _ in range(2))
        self.own_jobs, self.jobs = (store.database.queue(clock=clock) for _ in range(2))
        self._number = 0

    async def open(self) -> None:
        for product in (self.own, self.other, self.own_jobs, self.jobs):
            await product._store.ready()
        Wire(self.own, stepwise)
        Wire(self.own_jobs, stepwise, ("jobs", "counters", "history"))

    def group(self) -> str:
        self._number += 1
        return f"group-{self._number}"

    async def publish(self, number: int) -> None:
        await self.other.publish_many([(self.group(), "event") for _ in range(number)])

    async def leases(self, number: int = 1) -> list[Lease[Any]]:
        await self.publish(number)
        return await self.other.claim_many("other", number)

    async def leased_jobs(self, number: int = 1) -> list[Job]:
        await self.jobs.enqueue_many(range(number), "work")
        return await self.jobs.claim_many(number, "work")

    async def clear_up(self, found: list[Any]) -> None:
        """Settle what is held by right, and see that nothing else is."""
        leases = [each for each in found if isinstance(each, Lease)]
        await self.other.ack_many(leases)
        await self.jobs.ack_many(each for each in found if isinstance(each, Job))
        await drain(self.other)
        assert self.store.left() == []
        held = [job for job in self.store.database.every("jobs") if job.get("token") is not None]
        assert held == []
        self.store.forget()


Call = Coroutine[Any, Any, Any]
Arranged = tuple[Call, list[Any]]
"""What is to be cancelled, and what is held whatever becomes of it."""


async def a_publish(scene: Scene, chance: random.Random) -> Arranged:
    if chance.random() < 0.5:
        return scene.own.publish(scene.group(), "event"), []
    return scene.own.publish_many([(scene.group(), "event") for _ in range(3)]), []


async def a_claim(scene: Scene, chance: random.Random) -> Arranged:
    await scene.publish(3)
    if chance.random() < 0.5:
        return scene.own.claim("w"), []
    return scene.own.claim_many("w", 3), []


async def a_settlement(scene: Scene, chance: random.Random) -> Arranged:
    leases = await scene.leases(2)
    own, (lease, _) = scene.own, leases
    ways: list[Callable[[], Call]] = [
        lambda: own.ack(lease),
        lambda: own.ack_many(leases),
        lambda: own.nack(lease),
        lambda: own.release(lease),
        lambda: own.extend(lease),
        lambda: own.extend_many(leases),
        lambda: own.dead_letter(lease, "no"),
    ]
    return chance.choice(ways)(), leases


async def an_enqueue(scene: Scene, chance: random.Random) -> Arranged:
    if chance.random() < 0.5:
        return scene.own_jobs.enqueue({}, "work"), []
    return scene.own_jobs.enqueue_many(range(3), "work"), []


async def a_claim_of_jobs(scene: Scene, chance: random.Random) -> Arranged:
    await scene.jobs.enqueue_many(range(3), "work")
    if chance.random() < 0.5:
        return scene.own_jobs.claim("work"), []
    return scene.own_jobs.claim_many(3, "work"), []


async def a_settlement_of_a_job(scene: Scene, chance: random.Random) -> Arranged:
    jobs = await scene.leased_jobs(2)
    own, (job, _) = scene.own_jobs, jobs
    ways: list[Callable[[], Call]] = [
        lambda: own.ack(job),
        lambda: own.ack_many(jobs),
        lambda: own.nack(job),
        lambda: own.fail(job),
        lambda: own.release(job),
        lambda: own.extend(job),
    ]
    return chance.choice(ways)(), jobs


async def a_pool(scene: Scene, chance: random.Random) -> Arranged:
    await scene.publish(6)

    async def handle(_: Lease[Any]) -> None:
        await ticks(chance.randrange(10))
        if chance.random() < 0.3:
            raise ValueError("no")

    pool = WorkerPool(scene.own, handle, concurrency=3, max_attempts=1, poll_interval=1e-9)
    return pool.run(), []


OPERATIONS = (
    *[a_publish, an_enqueue] * 4,
    *[a_claim, a_claim_of_jobs] * 4,
    *[a_settlement, a_settlement_of_a_job] * 8,
    a_pool,
)


async def cancel_one(scene: Scene, chance: random.Random) -> bool:
    """Cancel something at some step; return whether it was not too late."""
    call, held = await chance.choice(OPERATIONS)(scene, chance)
    task = asyncio.ensure_future(call)
    await ticks(chance.randrange(LONGEST))
    task.cancel()
    await asyncio.wait([task])
    found = None if task.cancelled() else task.result()
    await scene.clear_up([*held, *(found if isinstance(found, list) else [found])])
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return task.cancelled()


@pytest.mark.parametrize(
    "tracing",
    [
        pytest.param(nullcontext, id="untraced"),
        pytest.param(traced, id="traced", marks=WHOLE),
    ],
)
async def test_random_cancellations_leave_no_lease_task_or_memory(
    silence: None, tracing: Tracing
) -> None:
    with tracing():
        scene, chance = Scene(Store()), random.Random(6)
        await scene.open()
        for _ in range(CANCELLATIONS // 10):
            await cancel_one(scene, chance)
        with measured() as growth:
            cancelled = [await cancel_one(scene, chance) for _ in range(CANCELLATIONS)]
    assert CANCELLATIONS // 2 < sum(cancelled) < CANCELLATIONS, "all were at the same time"
    growth.assert_flat(CANCELLATIONS, of=CANCELLATIONS)


async def test_random_cancellations_please_the_debug_mode_of_asyncio(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()
    loop.slow_callback_duration = 60.0
    loop.set_debug(True)
    try:
        scene, chance = Scene(Store()), random.Random(6)
        await scene.open()
        for _ in range(CANCELLATIONS // 10):
            await cancel_one(scene, chance)
    finally:
        loop.set_debug(False)
    assert [record for record in caplog.records if record.name == "asyncio"] == []
