"""A handler that its pool stops is interrupted: that is counted, and is no attempt (fault 36).

What was leased and not begun, or rests because its handler says so, is given back without a word.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import anyio
import pytest
from job_fakes import Scene
from worker_fakes import (
    CountingSource,
    FakeSource,
    ManySource,
    Record,
    VirtualTimeLoop,
    busy,
    handled,
    in_virtual_time,
    now,
    raising,
    ticks,
)

from fairlane import Job
from fairlane.retry import Snooze
from fairlane.worker import WorkerPool


async def cut(pool: WorkerPool[Any], record: Record) -> None:
    """End a pool in the middle of its first handler."""
    async with pool:
        await record.until("claimed")
        await ticks(5)


@in_virtual_time
async def test_handler_past_the_drain_deadline_is_interrupted() -> None:
    source, record = CountingSource(), Record()
    source.publish("g")

    await cut(WorkerPool(source, busy, drain_timeout=3, on_event=record), record)

    assert source.interrupted == [True]


@in_virtual_time
async def test_interruption_of_a_source_that_counts_none_is_a_release() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    await cut(WorkerPool(source, busy, drain_timeout=3, on_event=record), record)

    assert source.groups["g"].attempts == 0


@in_virtual_time
async def test_lease_of_a_claim_in_flight_at_stop_is_not_interrupted() -> None:
    source = CountingSource(reply_delay=0.5)
    source.publish("g")

    async with WorkerPool(source, busy):
        while not source.leased:
            await ticks(1)

    assert source.interrupted == [False]


class SnoozingSource(CountingSource):
    async def release(self, lease: Any, *, delay: float = 0.0, interrupted: bool = False) -> bool:
        return await super().release(lease, interrupted=interrupted)


@in_virtual_time
async def test_handler_that_snoozes_is_not_interrupted() -> None:
    source, record = SnoozingSource(), Record()
    source.publish("g")

    async with WorkerPool(source, raising(Snooze(60)), on_event=record):
        await record.until("released")

    assert source.interrupted == [False]


def test_handler_is_interrupted_if_and_only_if_it_had_begun() -> None:
    """At every step of the event loop."""

    async def scenario(tick: int) -> tuple[list[str], list[bool]]:
        source, begun = CountingSource(), list[str]()
        source.publish("g")

        async def handle(_: object) -> None:
            begun.append("g")
            await anyio.sleep_forever()

        task = asyncio.create_task(WorkerPool(source, handle).run())
        await ticks(tick)
        task.cancel()
        await asyncio.wait([task])
        assert source.leased == []
        return begun, source.interrupted

    seen = set[int]()
    for tick in range(30):
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            begun, interrupted = runner.run(scenario(tick))
        assert interrupted.count(True) == len(begun), f"cancelled at tick {tick}"
        seen.add(len(begun))
    assert seen == {0, 1}


def test_handler_is_interrupted_where_the_whole_program_ends() -> None:
    """`asyncio.run` cancels all tasks when its main one ends, the handler's among them."""
    source, record = CountingSource(), Record()
    source.publish("g")

    async def main() -> None:
        pool = asyncio.create_task(WorkerPool(source, busy, on_event=record).run())
        await record.until("claimed")
        await ticks(5)
        assert not pool.done()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())

    assert source.interrupted == [True]


async def test_plain_function_around_a_coroutine_is_interrupted() -> None:
    """Of a thread that is still at work nothing is given back."""
    source, begun = CountingSource(), asyncio.Event()
    source.publish("g")

    async def handle() -> None:
        begun.set()
        await anyio.sleep_forever()

    async with WorkerPool(source, lambda _: handle(), drain_timeout=0):
        await begun.wait()

    assert source.interrupted == [True]


@in_virtual_time
async def test_handlers_of_several_sources_are_interrupted() -> None:
    sources, record = [CountingSource(), CountingSource()], Record()
    for source in sources:
        source.publish("g")
    pool = WorkerPool.together(
        *((each, busy) for each in sources), drain_timeout=1, on_event=record
    )

    async with pool:
        await record.until("claimed", times=2)
        await ticks(5)

    assert [source.interrupted for source in sources] == [[True], [True]]


@asynccontextmanager
async def shut(_: Job) -> AsyncIterator[None]:
    await anyio.sleep_forever()
    yield


@in_virtual_time
async def test_job_that_waits_for_its_guard_is_not_interrupted() -> None:
    scene = Scene()
    scene.jobs.event("work", keep_history=60)(busy)
    key = scene.side.add("work")

    await cut(scene.pool(guard=shut, drain_timeout=1), scene.record)

    assert (scene.side.job(key).attempts, scene.side.job(key).interrupted) == (0, 0)
    assert scene.side.rows == []


@in_virtual_time
async def test_job_that_waits_for_its_guard_is_given_back_at_once() -> None:
    """Fault 47: at the stop, and not at the end of the drain, whatever is at work beside it."""
    scene = Scene()

    @scene.jobs.event("work")
    async def work(*_: object) -> None:
        await anyio.sleep(7)

    first, second = scene.side.add("work"), scene.side.add("work")
    free: dict[str, Any] = {first: nullcontext(), second: shut(scene.side.job(second))}
    async with scene.pool(guard=lambda job: free[job.id], drain_timeout=10) as pool:
        await scene.record.until("claimed", times=2)
        await ticks(20)
        stopped_at = now()
        pool.stop()
        await scene.record.until("released")
        released_at = now()

    assert (released_at, now()) == (stopped_at, stopped_at + 7)
    assert scene.side.job(first).state == "done"
    assert (scene.side.job(second).attempts, scene.side.job(second).interrupted) == (0, 0)


def test_lease_whose_handler_has_not_begun_at_a_stop_is_given_back_at_once() -> None:
    """Fault 47: at every step of the event loop; a handler that has begun is drained."""

    async def scenario(tick: int) -> tuple[int, int]:
        source, begun = ManySource(), list[str]()
        for name in "abc":
            source.publish(name)

        async def handle(lease: Any) -> None:
            begun.append(lease.group_id)
            await anyio.sleep(7)

        task = asyncio.create_task((pool := WorkerPool(source, handle)).run())
        await ticks(tick)
        stopped_at = now()
        pool.stop()
        await task
        assert now() - stopped_at == (7 if begun else 0), f"stopped at tick {tick}"
        assert source.leased == []
        return len(begun), source.calls["release"]

    seen = set[tuple[int, int]]()
    for tick in range(30):
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            seen.add(runner.run(scenario(tick)))
    assert seen == {(0, 0), (0, 3), (3, 0)}


@in_virtual_time
async def test_message_in_a_middleware_is_drained_as_in_its_handler() -> None:
    source, record = CountingSource(), Record()
    source.publish("g")

    async def slow(lease: Any, call_next: Any) -> None:
        await anyio.sleep(5)
        await call_next(lease)

    pool = WorkerPool(source, handled, middleware=[slow], on_event=record)
    await cut(pool, record)

    assert record.kinds == ["claimed", "acked"]


@in_virtual_time
async def test_job_that_snoozes_is_not_interrupted() -> None:
    scene = Scene()

    await scene.outcome(Snooze(60), keep_history=60)

    (job,) = (stored.job for stored in scene.side.stored.values())
    assert (job.interrupted, [row.outcome for row in scene.side.rows]) == (0, ["released"])


@asynccontextmanager
async def slow_to_leave(_: Job) -> AsyncIterator[None]:
    yield
    await ticks(3)


@pytest.mark.parametrize("guard", [None, slow_to_leave])
def test_job_is_done_if_its_handler_had_returned_and_interrupted_if_it_had_only_begun(
    guard: Any,
) -> None:
    """Fault 47: at every step of the event loop, also while its guard is being left."""

    async def scenario(tick: int) -> tuple[list[str], Job]:
        scene, said = Scene(), list[str]()

        @scene.jobs.event("work", keep_history=60)
        async def work(*_: object) -> None:
            said.append("begun")
            await ticks(3)
            said.append("returned")

        key = scene.side.add("work")
        task = asyncio.create_task(scene.pool(guard=guard).run())
        await ticks(tick)
        task.cancel()
        await asyncio.wait([task])
        return said, scene.side.job(key)

    seen = set[str]()
    for tick in range(50):
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            said, job = runner.run(scenario(tick))
        last = said[-1] if said else "unopened"
        expected = {"unopened": ("pending", 0), "begun": ("pending", 1), "returned": ("done", 0)}
        assert (job.state, job.interrupted) == expected[last], f"cancelled at tick {tick}"
        seen.add(last)
    assert seen == {"unopened", "begun", "returned"}
