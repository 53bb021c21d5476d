"""When an idle pool looks for work: woken from elsewhere, by a due time, or by its poll."""

from contextlib import AsyncExitStack
from statistics import median
from typing import Any

import anyio
import pytest
from pymongo.errors import AutoReconnect
from worker_fakes import (
    FakeSource,
    Fault,
    ForeseeingSource,
    Record,
    WatchedSource,
    handled,
    in_virtual_time,
    now,
    raising,
    ticks,
)

from fairlane import Backoff
from fairlane.model import Lease
from fairlane.worker import WorkerPool

NEVER = 1_000.0
"""A poll interval: whatever starts sooner was not found by a poll."""


@in_virtual_time
async def test_idle_pool_reads_once_an_interval_and_claims_nothing() -> None:
    source = ForeseeingSource()
    source.is_watched = False

    async with WorkerPool(source, handled, claimers=8, concurrency=64, poll_interval=10):
        await anyio.sleep(1)
        source.looks.clear()
        source.claimed_at.clear()
        await anyio.sleep(1_000)

    assert source.claimed_at == []
    assert 80 <= len(source.looks) <= 100


@in_virtual_time
async def test_read_that_finds_something_due_leads_to_a_claim() -> None:
    source, record = ForeseeingSource(), Record()
    source.is_watched = False

    async with WorkerPool(source, handled, poll_interval=10, on_event=record):
        await anyio.sleep(500)
        source.publish("g")
        published_at = now()
        await record.until("acked")

    assert now() - published_at <= 12


@in_virtual_time
async def test_publish_elsewhere_starts_at_once() -> None:
    source, record = WatchedSource(), Record()

    async with WorkerPool(source, handled, poll_interval=NEVER, on_event=record):
        await anyio.sleep(10)
        published_at = now()
        source.publish("g")
        await record.until("acked")

    assert now() == published_at


@in_virtual_time
async def test_what_becomes_due_later_starts_when_it_is_due() -> None:
    source, record = WatchedSource(), Record()

    async with WorkerPool(source, handled, poll_interval=NEVER, on_event=record):
        await anyio.sleep(10)
        due_at = now() + 30
        source.park("g", 30)
        source.tell(30)
        await record.until("acked")

    assert 0 <= now() - due_at < 0.05


@in_virtual_time
async def test_group_that_was_parked_before_the_pool_began_starts_when_it_is_due() -> None:
    source, record = ForeseeingSource(), Record()
    source.is_watched = False
    due_at = now() + 37.5
    source.park("g", 37.5)

    async with WorkerPool(source, handled, poll_interval=NEVER, on_event=record):
        await record.until("acked")

    assert 0 <= now() - due_at < 0.05


@in_virtual_time
async def test_groups_that_are_due_one_after_the_other_start_each_in_time() -> None:
    source, record = ForeseeingSource(), Record()
    begun_at, delays = now(), [5.0, 17.0, 17.5, 60.0]
    for number, delay in enumerate(delays):
        source.park(f"g{number}", delay)
    started: list[float] = []

    async def handle(_: object) -> None:
        started.append(now() - begun_at)

    async with WorkerPool(source, handle, poll_interval=NEVER, on_event=record):
        await record.until("acked", times=4)

    assert started == pytest.approx(delays, abs=0.05)


@in_virtual_time
async def test_each_due_time_costs_one_read_for_the_next_one() -> None:
    source, record = ForeseeingSource(), Record()
    for number in range(5):
        source.park(f"g{number}", 10.0 * (number + 1))

    async with WorkerPool(source, handled, poll_interval=NEVER, on_event=record):
        await record.until("acked", times=5)

    assert len(source.looks) == 1 + 5


@in_virtual_time
async def test_retry_starts_after_its_back_off_though_nobody_tells_of_it() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    backoff = Backoff(base=20, jitter=0)

    async with WorkerPool(
        source, raising(ValueError()), backoff=backoff, poll_interval=NEVER, on_event=record
    ):
        failed_at = (await record.until("handler_failed"), now())[1]
        await record.until("acked")

    assert now() - failed_at == pytest.approx(20, abs=0.05)


@in_virtual_time
async def test_watched_pool_polls_less_and_less_but_no_less_than_a_tenth() -> None:
    source = ForeseeingSource()

    async with WorkerPool(source, handled, poll_interval=0.5):
        await anyio.sleep(100)
        source.looks.clear()
        await anyio.sleep(100)

    assert 16 <= len(source.looks) <= 20


@in_virtual_time
async def test_interval_does_not_grow_where_nobody_watches() -> None:
    source = ForeseeingSource()
    source.is_watched = False

    async with WorkerPool(source, handled, poll_interval=0.5):
        await anyio.sleep(100)
        source.looks.clear()
        await anyio.sleep(100)

    assert len(source.looks) >= 160


@in_virtual_time
async def test_pool_that_is_not_watched_any_more_polls_as_before_at_once() -> None:
    source, record = ForeseeingSource(), Record()

    async with WorkerPool(source, handled, poll_interval=1, on_event=record):
        await anyio.sleep(100)
        source.set_watched(False)
        source.publish("g")
        published_at = now()
        await record.until("acked")

    assert now() - published_at <= 1.2


@in_virtual_time
async def test_source_without_foresight_is_polled_each_interval_though_it_is_watched() -> None:
    source = WatchedSource()

    async with WorkerPool(source, handled, poll_interval=1):
        await anyio.sleep(100)
        source.claimed_at.clear()
        await anyio.sleep(100)

    assert len(source.claimed_at) >= 80


@in_virtual_time
async def test_hint_that_somebody_else_will_claim_shortens_the_rest_to_one_interval() -> None:
    source, record = ForeseeingSource(), Record()

    async with WorkerPool(source, handled, poll_interval=1, on_event=record):
        await anyio.sleep(100)
        source.park("g", 0)
        source.sleepers[0].look_soon()
        told_at = now()
        await record.until("acked")

    assert now() - told_at <= 1.2


@in_virtual_time
async def test_many_wakeups_during_one_claim_cause_one_more_claim() -> None:
    source = WatchedSource()

    async with WorkerPool(source, handled, min_priority=1, poll_interval=NEVER):
        await anyio.sleep(10)
        source.always["claim"] = Fault(delay=1)
        before = source.calls["claim"]
        source.tell(0.0)
        await anyio.sleep(0.5)
        for _ in range(50):
            source.tell(0.0)
        await anyio.sleep(100)

    assert source.calls["claim"] - before == 2


@in_virtual_time
async def test_what_is_told_while_all_slots_are_taken_is_not_forgotten() -> None:
    source, record = WatchedSource(), Record()

    async def handle(_: object) -> None:
        await anyio.sleep(5)

    async with WorkerPool(source, handle, concurrency=1, poll_interval=NEVER, on_event=record):
        source.publish("a")
        await record.until("claimed")
        for name in "bcdef":
            source.publish(name)
        begun_at = now()
        await record.until("acked", times=6)

    assert now() - begun_at == pytest.approx(30, abs=0.5)


@in_virtual_time
async def test_wakeup_just_after_a_claim_waits_a_moment() -> None:
    """It most likely tells of what that claim has found, or of its end."""
    source = WatchedSource()

    async with WorkerPool(source, handled, poll_interval=NEVER):
        await anyio.sleep(10)
        source.claimed_at.clear()
        for _ in range(3):
            source.tell(0.0)
            await anyio.sleep(0.001)
        await anyio.sleep(1)
        first, *later = source.claimed_at

    assert [round(at - first, 3) for at in later] == [0.01]


@in_virtual_time
async def test_pool_that_was_too_late_often_is_fast_again_once_it_is_the_first() -> None:
    source, waits = WatchedSource(), list[float]()

    async def handle(lease: Lease[Any]) -> None:
        waits.append(now() - lease.event)

    async with WorkerPool(source, handle, poll_interval=NEVER):
        for _ in range(300):
            source.tell(0.0)
            await anyio.sleep(1)
        for number in range(12):
            source.publish(f"g{number}", now())
            await anyio.sleep(1)

    assert max(waits[-3:]) < 0.01


@in_virtual_time
async def test_pool_that_has_had_work_polls_each_interval_again() -> None:
    source, record = ForeseeingSource(), Record()

    async with WorkerPool(source, handled, poll_interval=1, on_event=record):
        await anyio.sleep(100)
        source.publish("g")
        await record.until("acked")
        source.looks.clear()
        await anyio.sleep(5)

    assert len(source.looks) == 2


@in_virtual_time
async def test_due_time_that_was_put_off_meanwhile_wakes_nobody() -> None:
    source = ForeseeingSource()

    async with WorkerPool(source, handled, poll_interval=10):
        await anyio.sleep(1)
        source.tell(35)
        source.claimed_at.clear()
        await anyio.sleep(100)

    assert source.claimed_at == []


@in_virtual_time
async def test_group_that_looks_due_and_cannot_be_claimed_costs_one_claim_an_interval() -> None:
    source = ForeseeingSource()
    source.park("g", 0)

    async with WorkerPool(source, handled, min_priority=1, poll_interval=10):
        await anyio.sleep(1_000)

    assert len(source.claimed_at) <= 101
    assert len(source.looks) <= 101


@in_virtual_time
async def test_group_that_looked_due_and_was_gone_does_not_hide_the_next_one() -> None:
    """As one that is acknowledged, whose lock is about to be removed."""
    source, record = ForeseeingSource(), Record()
    source.is_watched = False
    due_at = now() + 37.5
    source.park("g", 37.5)
    asked = source.next_due

    async def told_of_what_is_gone(min_priority: int = 0) -> float | None:
        due = await asked(min_priority)
        return due if len(source.looks) > 1 else 0.0

    source.next_due = told_of_what_is_gone  # type: ignore[method-assign]
    async with WorkerPool(source, handled, poll_interval=NEVER, on_event=record):
        await record.until("acked")

    assert 0 <= now() - due_at < 0.05


@in_virtual_time
async def test_failing_read_is_an_outage_like_a_failing_claim() -> None:
    source, record = ForeseeingSource(), Record()
    source.is_watched = False
    pool = WorkerPool(source, handled, poll_interval=1, on_event=record)

    async with pool:
        await anyio.sleep(10)
        source.always["claim"] = source.always["next_due"] = Fault(before=AutoReconnect("away"))
        await anyio.sleep(10)
        state = pool.health.state
        source.always.clear()
        source.publish("g")
        await record.until("acked")

    assert state == "degraded"


@in_virtual_time
async def test_pool_that_is_stopped_during_a_read_ends_at_once() -> None:
    source = ForeseeingSource()
    source.always["next_due"] = Fault(delay=0.5)

    async with WorkerPool(source, handled, poll_interval=NEVER):
        await source.until_called("next_due", 1)
        stopped_at = now()

    assert now() - stopped_at <= 0.5


@in_virtual_time
async def test_pool_that_ends_lets_go_of_the_watch_at_once() -> None:
    source = WatchedSource()
    pool = WorkerPool(source, handled)

    async with pool:
        await ticks(20)
        was_watched = pool.health.is_watched
        stopped_at = now()

    assert (was_watched, source.sleepers, now()) == (True, [], stopped_at)


@in_virtual_time
async def test_pool_that_never_rests_opens_no_stream() -> None:
    source, record = WatchedSource(), Record()
    for number in range(100):
        FakeSource.publish(source, f"g{number}")

    async with WorkerPool(source, handled, concurrency=1, on_event=record):
        await record.until("acked", times=100)
        watches = source.watches

    assert watches == 0


@in_virtual_time
async def test_fault_of_a_watch_does_not_end_the_pool(caplog: pytest.LogCaptureFixture) -> None:
    source, record = WatchedSource(), Record()
    source.watching_fails_with.append(KeyError("a fault"))

    async with WorkerPool(source, handled, poll_interval=NEVER, on_event=record):
        await anyio.sleep(20)
        source.publish("g")
        published_at = now()
        await record.until("acked")

    assert now() == published_at
    assert [entry.levelname for entry in caplog.records] == ["ERROR"]


async def handled_by_a_fleet(source: WatchedSource, pools: int, *, per_second: int) -> list[float]:
    """Publish one message after the other for half a minute; return how long each one waited.

    The first half is not counted: by then each pool knows how widely to spread.
    """
    waits: list[float] = []

    async def handle(lease: Lease[Any]) -> None:
        waits.append(now() - lease.event)

    async with AsyncExitStack() as stack:
        for _ in range(pools):
            await stack.enter_async_context(WorkerPool(source, handle, poll_interval=NEVER))
        for half in range(2):
            waits.clear()
            source.claimed_at.clear()
            for number in range(15 * per_second):
                source.publish(f"g{half}-{number}", now())
                await anyio.sleep(1 / per_second)
    return waits


@in_virtual_time
async def test_messages_do_not_wait_for_a_fleet_that_spreads_its_claims() -> None:
    waits = await handled_by_a_fleet(WatchedSource(), 12, per_second=10)

    assert (len(waits), median(waits) < 0.02) == (150, True)


@in_virtual_time
async def test_pools_that_come_too_late_each_time_claim_less_than_there_is_published() -> None:
    source = WatchedSource()

    await handled_by_a_fleet(source, 12, per_second=10)

    in_vain = len(source.claimed_at) - 3 * 150  # the winner claims thrice for each message
    assert in_vain < 11 * 15 * 6
