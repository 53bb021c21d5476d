"""A pool claims for all its free slots at once, if its source can."""

import asyncio
from collections import Counter
from typing import Any

import anyio
import pytest
from pymongo.errors import AutoReconnect
from worker_fakes import (
    FakeSource,
    Fault,
    ManySource,
    Record,
    busy,
    handled,
    in_virtual_time,
    ticks,
)

from fairlane import AsyncMongoTransport
from fairlane.model import Lease
from fairlane.worker import WorkerPool
from fairlane.worker.source import ManyClaiming


def filled(groups: int, *, messages: int = 1) -> ManySource:
    source = ManySource()
    for _ in range(messages):
        for number in range(groups):
            source.publish(f"g{number}")
    return source


class Floor:
    """Where handlers work, for a second each; it notes who is inside which group."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.most_in_a_group = 0
        self.most = 0
        self.seqs: list[int] = []

    async def __call__(self, lease: Lease[Any]) -> None:
        self.inside[lease.group_id] += 1
        self.most_in_a_group = max(self.most_in_a_group, self.inside[lease.group_id])
        self.most = max(self.most, self.inside.total())
        await anyio.sleep(1)
        self.inside[lease.group_id] -= 1
        self.seqs.append(lease.seq)


def test_transports_are_sources_that_claim_many() -> None:
    """Statement 64."""
    assert issubclass(AsyncMongoTransport, ManyClaiming)
    assert isinstance(ManySource(), ManyClaiming)
    assert not isinstance(FakeSource(), ManyClaiming)


@in_virtual_time
async def test_free_slots_are_claimed_for_together() -> None:
    """Statement 64."""
    source, record = filled(10), Record()

    async with WorkerPool(source, busy, concurrency=10, on_event=record, drain_timeout=0):
        await record.until("claimed", times=10)
        claims = source.asked[:], source.calls["claim"]

    assert claims == ([10], 0)


@in_virtual_time
async def test_claim_is_for_as_many_groups_as_slots_are_free() -> None:
    source, record = filled(4), Record()

    async with WorkerPool(source, busy, concurrency=10, on_event=record, drain_timeout=0):
        await record.until("claimed", times=4)
        await anyio.sleep(5)
        asked = source.asked[:]

    assert asked[0] == 10
    assert set(asked[1:]) == {6}


@pytest.mark.parametrize("claimers", [1, 3, 20])
def test_no_more_is_claimed_than_there_are_free_slots(claimers: int) -> None:
    """Statement 64."""

    @in_virtual_time
    async def scenario() -> None:
        source, record, floor = filled(30, messages=3), Record(), Floor()
        async with WorkerPool(
            source, floor, concurrency=7, claimers=claimers, poll_interval=0.3, on_event=record
        ):
            await record.until("acked", times=90)
        assert floor.most == 7
        assert source.most_leased <= 7

    scenario()


@in_virtual_time
async def test_no_more_than_64_groups_are_claimed_together() -> None:
    """The heads of all have to arrive before the first one is handled."""
    source, record = filled(200), Record()

    async with WorkerPool(source, busy, concurrency=200, on_event=record, drain_timeout=0):
        await record.until("claimed", times=200)
        asked = source.asked[:]

    assert asked == [64, 64, 64, 8]


@in_virtual_time
async def test_claimers_share_the_slots() -> None:
    source, record = filled(10), Record()

    async with WorkerPool(
        source, busy, concurrency=10, claimers=2, on_event=record, drain_timeout=0
    ):
        await record.until("claimed", times=10)
        asked, together = source.asked[:], source.most_concurrent_claims

    assert (asked, together) == ([5, 5], 2)


@in_virtual_time
async def test_claimers_that_share_unevenly_leave_no_slot_unused() -> None:
    source, record = filled(10), Record()

    async with WorkerPool(
        source, busy, concurrency=10, claimers=3, on_event=record, drain_timeout=0
    ):
        await record.until("claimed", times=10)
        asked = source.asked[:]

    assert (max(asked), sum(asked[:3])) == (4, 10)


@in_virtual_time
async def test_slots_of_a_claim_that_failed_are_free_again() -> None:
    source, record = filled(10), Record()
    source.faults["claim_many"].extend([Fault(before=AutoReconnect("away"))] * 3)

    async with WorkerPool(source, busy, concurrency=10, on_event=record, drain_timeout=0):
        await record.until("claimed", times=10)
        asked = source.asked[:]

    assert asked == [10] * 4


@in_virtual_time
async def test_slots_for_which_there_was_no_lease_are_free_again() -> None:
    source, record, floor = filled(3), Record(), Floor()

    async with WorkerPool(source, floor, concurrency=10, poll_interval=0.1, on_event=record):
        await record.until("claimed", times=3)
        for number in range(7):
            source.publish(f"late{number}")
        await record.until("claimed", times=10)
        at_work = floor.inside.total()
        await record.until("acked", times=10)

    assert at_work == 10


@in_virtual_time
async def test_slot_of_each_handler_that_ends_is_free_again() -> None:
    source, record, floor = filled(5, messages=20), Record(), Floor()

    async with WorkerPool(source, floor, concurrency=5, poll_interval=0.1, on_event=record):
        await record.until("acked", times=100)
        await anyio.sleep(1)

    assert floor.most == 5
    assert source.asked[-1] == 5


@in_virtual_time
async def test_leases_that_arrive_after_a_stop_are_all_given_back() -> None:
    """Statement 64: they are not handled, and count for nothing."""
    source, record, floor = filled(10), Record(), Floor()
    source.always["claim_many"] = Fault(delay=0.5)
    pool = WorkerPool(source, floor, concurrency=10, on_event=record)
    task = asyncio.create_task(pool.run())
    await source.until_called("claim_many", times=1)

    pool.stop()
    await task

    assert Counter(record.kinds) == {"claimed": 10, "released": 10}
    assert (source.leased, floor.seqs) == ([], [])
    assert {group.attempts for group in source.groups.values()} == {0}


@pytest.mark.parametrize("tick", range(12))
def test_pool_that_is_cancelled_during_a_claim_leaves_nothing_leased(tick: int) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source = filled(10)
        task = asyncio.create_task(WorkerPool(source, busy, concurrency=10).run())
        await ticks(tick)
        task.cancel()
        await asyncio.wait([task])
        assert source.leased == []
        assert {group.attempts for group in source.groups.values()} == {0}

    scenario()


@in_virtual_time
async def test_single_free_slot_is_claimed_for_by_a_plain_claim() -> None:
    source, record = filled(3), Record()

    async with WorkerPool(source, handled, concurrency=1, on_event=record):
        await record.until("acked", times=3)

    assert source.asked == []
    assert source.calls["claim"] >= 3


@in_virtual_time
async def test_source_that_claims_one_at_a_time_fills_all_slots() -> None:
    source, record = FakeSource(), Record()
    for number in range(10):
        source.publish(f"g{number}")

    async with WorkerPool(source, busy, concurrency=10, on_event=record, drain_timeout=0):
        await record.until("claimed", times=10)
        claims = source.calls["claim"]

    assert claims == 10


@in_virtual_time
async def test_claim_of_many_asks_for_what_the_pool_was_told() -> None:
    source, record = ManySource(), Record()
    for priority in (1, 4, 3, 0, 2):
        source.publish(f"p{priority}", priority=priority)

    async with WorkerPool(
        source,
        busy,
        concurrency=3,
        worker_id="me",
        visibility=600,
        min_priority=2,
        order="priority",
        drain_timeout=0,
        on_event=record,
    ):
        await record.until("claimed", times=3)
        leased, orders = source.leased, set(source.orders)
        ends = {group.available_at for group in source.groups.values() if group.token}
        owners = {group.token.partition(":")[0] for group in source.groups.values() if group.token}

    assert (sorted(leased), orders, owners) == (["p2", "p3", "p4"], {"priority"}, {"me"})
    assert ends == {1_600.0}


@in_virtual_time
async def test_each_lease_of_a_batch_has_an_end_of_its_own() -> None:
    source, record = filled(4), Record()

    async def fail_some(lease: Lease[Any]) -> None:
        if lease.group_id in ("g1", "g3") and lease.attempt == 1:
            raise ValueError

    async with WorkerPool(source, fail_some, on_event=record):
        await record.until("acked", times=4)

    assert (source.calls["ack"], source.calls["nack"]) == (4, 2)


@in_virtual_time
async def test_pools_that_claim_many_never_meet_inside_a_group() -> None:
    """Statement 2."""
    source, record, floor = filled(8, messages=10), Record(), Floor()
    options: dict[str, Any] = {"concurrency": 6, "poll_interval": 0.1, "on_event": record}

    async with WorkerPool(source, floor, **options), WorkerPool(source, floor, **options):
        await record.until("acked", times=80)

    assert floor.most_in_a_group == 1
    assert sorted(floor.seqs) == list(range(1, 81))


@in_virtual_time
async def test_idle_pool_asks_once_an_interval_for_all_slots() -> None:
    source = ManySource()

    async with WorkerPool(source, handled, concurrency=64, claimers=4, poll_interval=10):
        await anyio.sleep(1)
        source.asked.clear()
        await anyio.sleep(1_000)

    assert 80 <= len(source.asked) <= 101
    assert set(source.asked) == {16}
