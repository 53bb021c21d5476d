"""Lanes: slots that are reserved for groups of some priority, and what they cost."""

from collections import Counter
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_fakes import FakeQueue
from worker_fakes import (
    AnnouncingSource,
    FakeSource,
    Fault,
    ManySource,
    Record,
    WatchedSource,
    busy,
    handled,
    in_virtual_time,
    now,
)

from fairlane import Backoff, Jobs
from fairlane.errors import ConfigurationError
from fairlane.model import Lease
from fairlane.worker import WorkerPool
from fairlane.worker._lanes import Lanes

LANES = {3: 8, 0: 24}
URGENT, ORDINARY = 3, 0
NEVER = 1_000.0
"""A poll interval: whatever starts sooner was not found by a poll."""


class ToldSource(AnnouncingSource, ManySource): ...


class StreamSource(WatchedSource, ManySource): ...


class Hall:
    """Where handlers work, until they are let go; it counts them by priority."""

    def __init__(self) -> None:
        self.at_work: dict[str, anyio.Event] = {}
        self.inside: Counter[int] = Counter()
        self.most: Counter[int] = Counter()
        self.most_of_all = 0

    async def __call__(self, lease: Lease[Any]) -> None:
        self.at_work[lease.group_id] = anyio.Event()
        self.inside[lease.priority] += 1
        self.most |= self.inside
        self.most_of_all = max(self.most_of_all, self.inside.total())
        if lease.event is None:
            await self.at_work[lease.group_id].wait()
        else:
            await anyio.sleep(lease.event)
        self.inside[lease.priority] -= 1
        del self.at_work[lease.group_id]

    def let_go(self, group_id: str) -> None:
        self.at_work[group_id].set()

    def let_all_go(self) -> None:
        for event in self.at_work.values():
            event.set()


def fill(source: FakeSource, groups: int, priority: int = ORDINARY, *, event: Any = None) -> None:
    for number in range(groups):
        source.publish(f"p{priority}-{number}", event, priority)


# The account.


def test_claim_has_the_lowest_floor_with_a_free_slot() -> None:
    lanes, floors = Lanes({4: 1, 2: 2, 0: 3}), []

    while (floor := lanes.open_floor) is not None:
        floors.append(floor)
        lanes.take(floor, 1)

    assert floors == [0, 0, 0, 2, 2, 4]


def test_urgent_work_leaves_the_slots_for_all_to_others() -> None:
    lanes = Lanes(LANES)
    lanes.take(0, 24)

    for _ in range(24):
        lanes.place(0, URGENT)

    assert (lanes.free(0), lanes.free(3)) == (8, 8)


def test_urgent_work_takes_a_slot_for_all_once_its_own_are_taken() -> None:
    lanes = Lanes({3: 2, 0: 3})
    for _ in range(3):
        lanes.take(0, 1)
        lanes.place(0, URGENT)

    assert (lanes.free(0), lanes.free(3)) == (2, 2)


def test_work_of_odd_priority_has_a_slot_of_its_claim() -> None:
    lanes = Lanes(LANES)
    lanes.take(3, 3)

    assert [lanes.place(3, odd) for odd in (None, "high", 7)] == [3, 3, 3]


def fits(slots: dict[int, int], priorities: list[int]) -> bool:
    """Tell whether each piece of work can have a slot: the least urgent have the least choice."""
    left = dict(slots)
    for priority in sorted(priorities):
        lane = next((floor for floor in left if floor <= priority and left[floor]), None)
        if lane is None:
            return False
        left[lane] -= 1
    return True


FLOORS = st.integers(0, 4)


@given(
    slots=st.dictionaries(FLOORS, st.integers(1, 3), min_size=1),
    steps=st.lists(
        st.tuples(st.sampled_from(["claim", "place", "end"]), FLOORS, st.integers(1, 4))
    ),
)
def test_what_is_claimed_has_a_slot_whatever_its_priority_and_no_more_is_refused(
    slots: dict[int, int], steps: list[tuple[str, int, int]]
) -> None:
    lanes = Lanes(slots)
    asked: list[int] = []
    held: list[tuple[int, int]] = []
    for step, priority, most in steps:
        floor = lanes.open_floor
        if step == "claim" and floor is not None:
            assert min(slots) <= floor
            asked += [floor] * lanes.take(floor, most)
        elif step == "place" and asked:
            floor = asked.pop()
            urgency = max(floor, priority)
            held.append((urgency, lanes.place(floor, urgency)))
        elif step == "end" and held:
            lanes.give_back(held.pop(0)[1])
        taken = [urgency for urgency, _ in held] + asked
        assert fits(slots, taken)
        for floor in slots:
            assert fits(slots, taken + [floor] * lanes.free(floor))
            assert not fits(slots, taken + [floor] * (lanes.free(floor) + 1))


# The pool.


@in_virtual_time
async def test_urgent_group_starts_at_once_though_all_slots_for_all_are_taken() -> None:
    source, record, hall = ToldSource(), Record(), Hall()
    fill(source, 100)

    async with WorkerPool(source, hall, lanes=LANES, poll_interval=NEVER, on_event=record):
        await record.until("claimed", times=24)
        await anyio.sleep(10)
        source.publish("urgent", priority=URGENT)
        published_at = now()
        await record.until("claimed", times=25)
        took, at_work = now() - published_at, hall.inside.copy()
        source.groups = {name: source.groups[name] for name in hall.at_work}
        hall.let_all_go()

    assert (took, at_work) == (0, {ORDINARY: 24, URGENT: 1})


@pytest.mark.parametrize("claimers", [1, 4])
@pytest.mark.parametrize("kind", [FakeSource, ManySource])
def test_work_that_is_less_urgent_never_has_a_reserved_slot(
    kind: type[FakeSource], claimers: int
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record, hall = kind(), Record(), Hall()
        fill(source, 60, event=1)
        fill(source, 20, 2, event=2)
        fill(source, 30, URGENT, event=1.5)
        async with WorkerPool(source, hall, lanes=LANES, claimers=claimers, on_event=record):
            await record.until("acked", times=110)
        assert max(hall.most[0], hall.most[2]) <= 24
        assert hall.most_of_all == 32

    scenario()


@in_virtual_time
async def test_urgent_work_alone_has_every_slot() -> None:
    source, record, hall = ManySource(), Record(), Hall()
    fill(source, 40, URGENT, event=1)

    async with WorkerPool(source, hall, lanes=LANES, on_event=record):
        await record.until("acked", times=40)

    assert hall.most[URGENT] == 32


@in_virtual_time
async def test_urgent_work_beyond_its_lane_waits_for_its_turn_in_the_others() -> None:
    source, record, hall = ToldSource(), Record(), Hall()
    fill(source, 3)

    async with WorkerPool(source, hall, lanes={3: 2, 0: 3}, on_event=record):
        await record.until("claimed", times=3)
        fill(source, 4, URGENT)
        await record.until("claimed", times=5)
        await anyio.sleep(10)
        before = hall.inside.copy()
        hall.let_go("p0-0")
        await record.until("claimed", times=6)
        after = hall.inside.copy()
        hall.let_all_go()
        await record.until("claimed", times=7)
        hall.let_all_go()

    assert before == {ORDINARY: 3, URGENT: 2}
    assert after == {ORDINARY: 2, URGENT: 3}


@in_virtual_time
async def test_slot_that_urgent_work_had_beyond_its_lane_is_for_all_again_when_one_ends() -> None:
    """The piece in it has the slot in the lane then."""
    source, record, hall = ToldSource(), Record(), Hall()
    fill(source, 3, URGENT)

    async with WorkerPool(source, hall, lanes={3: 2, 0: 1}, on_event=record):
        await record.until("claimed", times=3)
        source.publish("ordinary")
        await anyio.sleep(10)
        before = record.kinds.count("claimed")
        hall.let_go("p3-0")  # whichever slot this one had
        await record.until("claimed", times=4)
        at_work = set(hall.at_work)
        hall.let_all_go()

    assert (before, at_work) == (3, {"p3-1", "p3-2", "ordinary"})


@in_virtual_time
async def test_groups_below_the_lowest_lane_are_left_alone() -> None:
    source, record = ManySource(), Record()
    for priority in range(5):
        source.publish(f"p{priority}", priority=priority)

    async with WorkerPool(source, handled, lanes={4: 1, 2: 1}, on_event=record):
        await record.until("acked", times=3)
        await anyio.sleep(10)

    assert sorted(source.groups) == ["p0", "p1"]


@in_virtual_time
async def test_slots_of_claims_that_failed_are_free_again_in_their_lane() -> None:
    source, record, hall = ManySource(), Record(), Hall()
    fill(source, 24)
    fill(source, 8, URGENT)
    source.faults["claim_many"].extend([Fault(before=ConnectionError("away"))] * 3)

    async with WorkerPool(source, hall, lanes=LANES, on_event=record):
        await record.until("claimed", times=32)
        at_work = hall.inside.copy()
        hall.let_all_go()

    assert at_work == {ORDINARY: 24, URGENT: 8}


# What it costs.


@in_virtual_time
async def test_idle_pool_asks_once_an_interval_for_all_lanes_together() -> None:
    source = ManySource()
    lanes = {4: 2, 3: 8, 0: 24}

    async with WorkerPool(source, handled, lanes=lanes, claimers=4, poll_interval=10):
        await anyio.sleep(1)
        source.floors.clear()
        await anyio.sleep(1_000)

    assert 80 <= len(source.floors) <= 101
    assert set(source.floors) == {0}


@in_virtual_time
async def test_empty_lane_costs_one_claim_an_interval_beside_one_for_each_message() -> None:
    source, record, hall = ManySource(), Record(), Hall()
    for number in range(600):  # 24 slots of a second each, out of step
        source.publish(f"g{number}", 1 + number % 24 / 100)

    async with WorkerPool(source, hall, lanes=LANES, poll_interval=1, on_event=record):
        await record.until("acked", times=24)
        before, began_at = Counter(source.floors), now()
        await record.until("acked", times=524)
        claims, seconds = Counter(source.floors) - before, now() - began_at
        source.groups.clear()

    assert claims[0] <= 500
    assert 0.8 * seconds <= claims[3] <= seconds + 1


@in_virtual_time
async def test_announcements_of_less_urgent_work_cost_ten_claims_a_second_at_most() -> None:
    source, record, hall = ToldSource(), Record(), Hall()
    fill(source, 24)

    async with WorkerPool(source, hall, lanes=LANES, poll_interval=NEVER, on_event=record):
        await record.until("claimed", times=24)
        source.floors.clear()
        for number in range(1_000):
            source.publish(f"more-{number}")
            await anyio.sleep(0.01)
        claims = Counter(source.floors)
        source.groups = {name: source.groups[name] for name in hall.at_work}
        hall.let_all_go()

    assert claims[0] == 0
    assert 90 <= claims[3] <= 110


# When urgent work is found while the slots for all are taken.


@in_virtual_time
async def test_urgent_group_of_which_nobody_tells_is_found_within_the_interval() -> None:
    """Though a slot for all is free again every few milliseconds."""
    source, record, waits = ManySource(), Record(), list[float]()

    async def handle(lease: Lease[Any]) -> None:
        if lease.priority == URGENT:
            waits.append(now() - lease.event)
        else:
            await anyio.sleep(lease.event)

    for number in range(600):
        source.publish(f"g{number}", 0.1 + number % 7 / 1_000)
    async with WorkerPool(source, handle, lanes={3: 1, 0: 4}, poll_interval=1, on_event=record):
        for number in range(8):
            await anyio.sleep(1.3)
            source.publish(f"urgent{number}", now(), URGENT)
            source.groups[f"urgent{number}"].available_at = now()  # behind all the others
        await anyio.sleep(1.3)
        source.groups.clear()

    assert len(waits) == 8
    assert max(waits) <= 1.2


@in_virtual_time
async def test_urgent_group_that_a_change_stream_tells_of_starts_at_once() -> None:
    source, record, hall = StreamSource(), Record(), Hall()
    fill(source, 24)

    async with WorkerPool(source, hall, lanes=LANES, poll_interval=NEVER, on_event=record):
        await record.until("claimed", times=24)
        await anyio.sleep(10)
        source.publish("urgent", priority=URGENT)
        published_at = now()
        await record.until("claimed", times=25)
        took = now() - published_at
        hall.let_all_go()

    assert took == 0


@in_virtual_time
async def test_urgent_retry_starts_when_it_is_due() -> None:
    source, record, hall = ManySource(), Record(), Hall()
    fill(source, 24)
    source.publish("urgent", priority=URGENT)
    starts: list[float] = []

    async def handle(lease: Lease[Any]) -> None:
        if lease.priority < URGENT:
            await hall(lease)
            return
        starts.append(now())
        if lease.attempt == 1:
            raise ValueError

    backoff = Backoff(base=20, jitter=0)
    async with WorkerPool(
        source, handle, lanes=LANES, backoff=backoff, poll_interval=NEVER, on_event=record
    ):
        await record.until("acked")
        first, second = starts
        hall.let_all_go()

    assert second - first == pytest.approx(20, abs=0.05)


@in_virtual_time
async def test_messages_of_an_urgent_group_follow_each_other_at_once() -> None:
    source, record, hall = ManySource(), Record(), Hall()
    fill(source, 24)
    for _ in range(50):
        source.publish("urgent", 0.001, URGENT)

    async with WorkerPool(source, hall, lanes=LANES, poll_interval=NEVER, on_event=record):
        began_at = now()
        await record.until("acked", times=50)
        took = now() - began_at
        hall.let_all_go()

    assert took == pytest.approx(50 * 0.001, abs=0.01)


@in_virtual_time
async def test_urgent_work_waits_a_tenth_of_a_second_at_most_after_a_flood_of_other_work() -> None:
    source, record, hall = ToldSource(), Record(), Hall()
    fill(source, 24)

    async with WorkerPool(source, hall, lanes=LANES, poll_interval=NEVER, on_event=record):
        await record.until("claimed", times=24)
        for number in range(100):
            source.publish(f"more-{number}")
            await anyio.sleep(0.01)
        waits = []
        for number in range(5):
            source.publish(f"urgent{number}", priority=URGENT)
            published_at = now()
            await record.until("claimed", times=25 + number)
            waits.append(now() - published_at)
            await anyio.sleep(0.02)
        source.groups = {name: source.groups[name] for name in hall.at_work}
        hall.let_all_go()

    assert waits[0] <= 0.1
    assert max(waits[1:]) <= 0.01


@in_virtual_time
async def test_pool_whose_slots_for_all_are_taken_from_the_start_is_watched() -> None:
    source, record = StreamSource(), Record()
    fill(source, 100)

    async with WorkerPool(source, busy, lanes=LANES, on_event=record, drain_timeout=0) as pool:
        await record.until("claimed", times=24)
        await anyio.sleep(1)
        is_watched = pool.health.is_watched

    assert is_watched


# What is refused.


@pytest.mark.parametrize(
    "lanes",
    [{}, {5: 1}, {-1: 1}, {True: 1}, {"3": 1}, {3: 0}, {3: 1.0}, {3: True}, {3: None}, [3, 8], 8],
)
def test_bad_lanes_are_named(lanes: Any) -> None:
    with pytest.raises(ConfigurationError, match="lanes"):
        WorkerPool(FakeSource(), handled, lanes=lanes)


@pytest.mark.parametrize(("name", "value"), [("concurrency", 10), ("min_priority", 1)])
def test_what_lanes_say_is_not_to_be_said_otherwise(name: str, value: int) -> None:
    options: dict[str, Any] = {name: value}
    with pytest.raises(ConfigurationError, match=f"{name} is the .* lanes.*: leave it out"):
        WorkerPool(FakeSource(), handled, lanes=LANES, **options)


def test_concurrency_that_is_the_sum_of_the_lanes_is_accepted() -> None:
    assert WorkerPool(FakeSource(), handled, lanes=LANES, concurrency=32).health.state == "stopped"


@pytest.mark.parametrize("has_transport", [True, False])
def test_pool_with_jobs_has_no_lanes(has_transport: bool) -> None:
    jobs = Jobs()
    jobs.event("work")(busy)
    parts: list[Any] = [(FakeQueue(), jobs)] + [(FakeSource(), handled)] * has_transport
    with pytest.raises(ConfigurationError, match="lanes are for transports: a pool claims jobs of"):
        WorkerPool.together(*parts, lanes=LANES)


@in_virtual_time
async def test_pool_of_several_transports_has_lanes_for_all_of_them_together() -> None:
    sources, record, hall = (ToldSource(), ToldSource()), Record(), Hall()
    fill(sources[0], 3)
    parts = [(source, hall) for source in sources]
    options: dict[str, Any] = {"lanes": {3: 1, 0: 2}, "poll_interval": NEVER}

    async with WorkerPool.together(*parts, on_event=record, **options):
        await record.until("claimed", times=2)
        await anyio.sleep(10)
        sources[1].publish("ordinary")
        sources[1].publish("urgent", priority=URGENT)
        await anyio.sleep(0.1)
        at_work = hall.inside.copy()
        for source in sources:
            source.groups = {name: source.groups[name] for name in source.leased}
        hall.let_all_go()

    assert at_work == {ORDINARY: 2, URGENT: 1}
