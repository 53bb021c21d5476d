"""A pool ends when it is told to, whenever that is, and leaves nothing leased behind."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from worker_fakes import (
    CountingSource,
    FakeSource,
    Fault,
    Record,
    VirtualTimeLoop,
    busy,
    handled,
    in_virtual_time,
    now,
    ticks,
)

from fairlane.model import Lease
from fairlane.worker import WorkerPool


async def slow(_: object) -> None:
    await anyio.sleep(10)


async def ended(pool: WorkerPool[Any], task: asyncio.Task[None]) -> None:
    pool.stop()
    await task


@in_virtual_time
async def test_stop_finishes_the_messages_in_flight() -> None:
    source, record = FakeSource(), Record()
    for number in range(3):
        source.publish(f"g{number}")
    pool = WorkerPool(source, slow, on_event=record)
    task = asyncio.create_task(pool.run())
    await record.until("claimed", times=3)

    await ended(pool, task)

    assert record.kinds.count("acked") == 3


@in_virtual_time
async def test_nothing_is_claimed_after_stop() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    pool = WorkerPool(source, slow, claimers=4, on_event=record)
    task = asyncio.create_task(pool.run())
    await record.until("claimed")
    await ticks(20)
    source.publish("h")

    await ended(pool, task)

    assert list(source.groups) == ["h"]


@in_virtual_time
async def test_claimer_that_waits_for_a_slot_at_stop_claims_nothing() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    source.publish("h")
    pool = WorkerPool(source, slow, concurrency=1, on_event=record)
    task = asyncio.create_task(pool.run())
    await record.until("claimed")
    await ticks(20)

    await ended(pool, task)

    assert source.calls["claim"] == 1


@in_virtual_time
async def test_idle_pool_stops_at_once() -> None:
    source = FakeSource()
    pool = WorkerPool(source, handled, claimers=8, poll_interval=1_000)
    task = asyncio.create_task(pool.run())
    await anyio.sleep(10)
    stopped_at = now()

    await ended(pool, task)

    assert now() == stopped_at


@in_virtual_time
async def test_pool_that_waits_out_an_outage_stops_at_once() -> None:
    source = FakeSource()
    source.always["claim"] = Fault(before=ConnectionError("away"))
    pool = WorkerPool(source, handled, claimers=8)
    task = asyncio.create_task(pool.run())
    await anyio.sleep(100)
    stopped_at = now()

    await ended(pool, task)

    assert now() == stopped_at


@in_virtual_time
async def test_claim_in_flight_at_stop_gives_its_lease_back_uncounted() -> None:
    """Fault 47: at once, and not at the end of the drain or of the visibility."""
    source, record = CountingSource(reply_delay=0.5), Record()
    source.publish("g")
    pool = WorkerPool(source, busy, on_event=record)
    task = asyncio.create_task(pool.run())
    while not source.leased:
        await ticks(1)
    leased_at = now()

    await ended(pool, task)

    assert record.kinds == ["claimed", "released"]
    assert (source.groups["g"].attempts, now() - leased_at) == (0, 0.5)


@in_virtual_time
async def test_claim_in_flight_at_stop_that_finds_nothing_is_the_last() -> None:
    source = FakeSource()
    source.always["claim"] = Fault(delay=1)
    pool = WorkerPool(source, handled, claimers=3, poll_interval=1_000)
    task = asyncio.create_task(pool.run())
    await source.until_called("claim", times=3)
    stopped_at = now()

    await ended(pool, task)

    assert (source.calls["claim"], now()) == (3, stopped_at + 1)


@in_virtual_time
async def test_claim_that_hangs_does_not_hold_up_the_stop() -> None:
    source = FakeSource()
    source.always["claim"] = Fault(hangs=True)
    pool = WorkerPool(source, handled, claimers=3)
    task = asyncio.create_task(pool.run())
    await ticks(10)
    stopped_at = now()

    await ended(pool, task)

    assert now() - stopped_at <= 2


@in_virtual_time
async def test_idle_pool_ends_within_three_seconds_of_an_unanswered_claim() -> None:
    source = FakeSource()
    source.always["claim"] = Fault(hangs=True, is_shielded=True)

    async with WorkerPool(source, handled):
        await source.until_called("claim", times=1)
        stopped_at = now()

    assert now() - stopped_at <= 3.01


@in_virtual_time
async def test_pool_whose_source_hangs_ends_within_six_seconds_of_its_drain_deadline() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    hang = Fault(hangs=True, is_shielded=True)

    async with WorkerPool(source, busy, drain_timeout=10, on_event=record):
        await record.until("claimed")
        source.always.update(dict.fromkeys(("claim", "extend", "release"), hang))
        stopped_at = now()

    assert now() - stopped_at <= 16


@in_virtual_time
async def test_handlers_past_the_drain_deadline_are_cancelled_and_given_back_uncounted() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    pool = WorkerPool(source, busy, drain_timeout=7, on_event=record)
    task = asyncio.create_task(pool.run())
    await record.until("claimed")
    stopped_at = now()

    await ended(pool, task)

    assert now() - stopped_at == 7
    assert record.kinds == ["claimed", "released"]
    assert (source.groups["g"].attempts, source.groups["g"].available_at) == (0, now())


@in_virtual_time
async def test_many_shutdowns_do_not_use_up_the_attempts() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    for times in range(1, 6):
        pool = WorkerPool(source, busy, max_attempts=2, drain_timeout=0, on_event=record)
        async with pool:
            await record.until("claimed", times)

    assert record.kinds == ["claimed", "released"] * 5


@in_virtual_time
async def test_leases_are_renewed_during_the_drain() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async def handle(_: object) -> None:
        await anyio.sleep(200)

    async with WorkerPool(source, handle, visibility=30, drain_timeout=300, on_event=record):
        await record.until("claimed")

    assert record.kinds == ["claimed", "acked"]


@in_virtual_time
async def test_release_that_hangs_does_not_hold_up_the_end_for_long() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    source.always["release"] = Fault(hangs=True)
    pool = WorkerPool(source, busy, drain_timeout=0, on_event=record)
    task = asyncio.create_task(pool.run())
    await record.until("claimed")
    stopped_at = now()

    await ended(pool, task)

    assert now() - stopped_at <= 5
    assert record.kinds == ["claimed", "unsettled"]


@in_virtual_time
async def test_handler_that_ended_in_the_last_tick_is_acked() -> None:
    for tick in range(40):
        source, record = FakeSource(), Record()
        source.publish("g")
        done: list[str] = []

        async def handle(_: object, done: list[str] = done) -> None:
            await ticks(5)
            done.append("g")

        pool = WorkerPool(source, handle, on_event=record)
        task = asyncio.create_task(pool.run())
        await ticks(tick)
        task.cancel()
        await asyncio.wait([task])
        assert source.is_drained == bool(done), f"cancelled at tick {tick}"


@pytest.mark.parametrize("is_first", [True, False])
@in_virtual_time
async def test_handler_that_ends_in_the_tick_of_the_deadline_is_acked_or_stopped(
    is_first: bool,
) -> None:
    """Fault 47: whichever timer of the two is looked at first, what is done is acknowledged."""
    source, record, said = CountingSource(), Record(), list[str]()
    source.publish("g")
    is_draining = anyio.Event()

    async def handle(_: object) -> None:
        if not is_first:
            await is_draining.wait()
        try:
            await anyio.sleep_until(ends_at)
        except asyncio.CancelledError:
            said.append("stopped")
            raise
        said.append("finished")

    ends_at = now() + 17
    async with WorkerPool(source, handle, drain_timeout=7, on_event=record) as pool:
        await record.until("claimed")
        await anyio.sleep_until(ends_at - 7)
        pool.stop()
        await ticks(5)
        assert pool.health.state == "draining"
        is_draining.set()

    assert now() == ends_at
    expected = {"finished": ("acked", []), "stopped": ("released", [True])}
    (end,) = said
    assert (record.kinds[-1], source.interrupted) == expected[end]


@in_virtual_time
async def test_handler_whose_last_wait_is_over_when_the_deadline_comes_is_acked() -> None:
    """It has only to return: its task was woken in this tick, and is not cancelled any more."""
    source, record, last = CountingSource(), Record(), anyio.Event()
    source.publish("g")

    async def handle(_: object) -> None:
        await last.wait()

    pool = WorkerPool(source, handle, on_event=record)
    task = asyncio.create_task(pool.run())
    await record.until("claimed")
    await ticks(5)

    last.set()
    task.cancel()
    await asyncio.wait([task])

    assert (record.kinds, source.is_drained) == (["claimed", "acked"], True)


@in_virtual_time
async def test_stop_before_run_lets_run_return_at_once() -> None:
    source = FakeSource()
    source.publish("g")
    pool = WorkerPool(source, handled)
    pool.stop()

    await pool.run()

    assert source.calls["claim"] == 0


@in_virtual_time
async def test_stop_before_the_first_step_of_run_is_heard() -> None:
    source = FakeSource()
    pool = WorkerPool(source, handled)
    task = asyncio.create_task(pool.run())

    await ended(pool, task)

    assert source.calls["claim"] == 0


@in_virtual_time
async def test_stop_twice_is_stop() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    pool = WorkerPool(source, slow, on_event=record)
    task = asyncio.create_task(pool.run())
    await record.until("claimed")
    pool.stop()
    await ticks(5)

    await ended(pool, task)

    assert record.kinds == ["claimed", "acked"]


@in_virtual_time
async def test_pool_may_run_again() -> None:
    source, record = FakeSource(), Record()
    pool = WorkerPool(source, handled, on_event=record)
    for times in (1, 2, 3):
        source.publish("g")
        async with pool:
            await record.until("acked", times)

    assert source.is_drained


@in_virtual_time
async def test_stop_ends_one_run_only() -> None:
    source, record = FakeSource(), Record()
    pool = WorkerPool(source, handled, on_event=record)
    for times in (1, 2):
        source.publish("g")
        task = asyncio.create_task(pool.run())
        await record.until("acked", times)
        await ended(pool, task)

    assert source.is_drained


@in_virtual_time
async def test_pool_stopped_inside_its_block_may_run_again() -> None:
    source, record = FakeSource(), Record()
    pool = WorkerPool(source, handled, on_event=record)
    async with pool:
        pool.stop()
        await ticks(50)
    source.publish("g")

    async with pool:
        await record.until("acked")

    assert source.is_drained


@in_virtual_time
async def test_second_run_waits_for_the_end_of_the_first() -> None:
    source, record = FakeSource(), Record()
    pool = WorkerPool(source, slow, on_event=record)
    source.publish("g")
    first = asyncio.create_task(pool.run())
    await record.until("claimed")
    claims = source.most_concurrent_claims
    second = asyncio.create_task(pool.run())
    await ticks(20)
    pool.stop()

    await asyncio.gather(first, second)

    assert (claims, source.most_concurrent_claims) == (1, 1)


@in_virtual_time
async def test_pool_entered_twice_runs_once_and_ends_with_the_outer_block() -> None:
    source, record = FakeSource(), Record()
    pool = WorkerPool(source, handled, on_event=record)

    async with pool:
        async with pool:
            await ticks(10)
        source.publish("g")
        await record.until("acked")

    assert source.most_concurrent_claims == 1
    assert pool.health.state == "stopped"


@in_virtual_time
async def test_error_of_the_body_drains_and_comes_out_as_it_is() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    with pytest.raises(ValueError, match=r"^body$"):  # noqa: PT012
        async with WorkerPool(source, slow, on_event=record):
            await record.until("claimed")
            raise ValueError("body")

    assert record.kinds == ["claimed", "acked"]


@in_virtual_time
async def test_cancellation_of_the_body_cancels_the_handlers() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async def embedded() -> None:
        async with WorkerPool(source, busy, on_event=record):
            await anyio.sleep_forever()

    task = asyncio.create_task(embedded())
    await record.until("claimed")
    started_at = now()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (record.kinds, now()) == (["claimed", "released"], started_at)


@in_virtual_time
async def test_timeout_around_an_embedded_pool_is_a_timeout() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(5), WorkerPool(source, busy, on_event=record):
            await anyio.sleep_forever()

    assert record.kinds == ["claimed", "released"]


@in_virtual_time
async def test_run_that_is_cancelled_during_its_drain_ends_at_once() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    pool = WorkerPool(source, busy, drain_timeout=1_000, on_event=record)
    task = asyncio.create_task(pool.run())
    await record.until("claimed")
    pool.stop()
    await anyio.sleep(10)
    cancelled_at = now()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (record.kinds, now()) == (["claimed", "released"], cancelled_at)


def stop_from_a_thread(pool: WorkerPool[Any]) -> None:
    thread = threading.Thread(target=pool.stop)
    thread.start()
    thread.join()


async def test_stop_from_another_thread_is_heard() -> None:
    source = FakeSource()
    pool = WorkerPool(source, handled, poll_interval=1_000)
    task = asyncio.create_task(pool.run())
    while not source.calls["claim"]:
        await ticks(1)

    stop_from_a_thread(pool)

    await asyncio.wait_for(task, 10)


def test_stop_after_the_loop_is_closed_is_safe() -> None:
    pool = WorkerPool(FakeSource(), handled)
    pool.stop()
    asyncio.run(pool.run())

    stop_from_a_thread(pool)

    assert pool.health.state == "stopped"


async def some_handler(lease: Lease[Any]) -> None:
    await ticks(lease.seq % 7)
    if lease.seq % 3 == 0:
        raise ValueError("every third")


def cut_at(tick: int, cut: Callable[[WorkerPool[Any], asyncio.Task[None]], object]) -> None:
    """Run a busy pool, cut it at one step of the event loop, and look at what it leaves."""

    async def scenario() -> None:
        source = FakeSource()
        for number in range(8):
            source.publish(f"g{number % 5}")
        source.faults["claim"].extend([Fault(), Fault(before=ConnectionError("away"))])
        source.faults["ack"].append(Fault(after=ConnectionError("away")))
        pool = WorkerPool(
            source, some_handler, concurrency=3, claimers=2, visibility=3, drain_timeout=0
        )
        task = asyncio.create_task(pool.run())
        await ticks(tick)
        cut(pool, task)
        was_cancelled = task.cancelling() > 0
        started_at = now()
        await asyncio.wait([task])

        assert task.cancelled() == was_cancelled
        assert was_cancelled or task.exception() is None
        assert now() - started_at <= 5
        assert source.leased == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert pool.health.state == "stopped"
        assert (pool.health.running, pool.health.leased) == (0, 0)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(scenario())


@pytest.mark.parametrize("start", range(0, 200, 25))
def test_cancellation_at_any_tick_leaves_nothing_leased(start: int) -> None:
    for tick in range(start, start + 25):
        cut_at(tick, lambda _, task: task.cancel())


@pytest.mark.parametrize("start", range(0, 200, 25))
def test_stop_at_any_tick_leaves_nothing_leased(start: int) -> None:
    for tick in range(start, start + 25):
        cut_at(tick, lambda pool, _: pool.stop())


@pytest.mark.parametrize("start", range(0, 200, 25))
def test_stop_and_cancellation_at_any_tick_leave_nothing_leased(start: int) -> None:
    def both(pool: WorkerPool[Any], task: asyncio.Task[None]) -> None:
        pool.stop()
        task.cancel()

    for tick in range(start, start + 25):
        cut_at(tick, both)
