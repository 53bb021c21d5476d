"""How several parts of a pool share its slots."""

from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from worker_fakes import (
    AnnouncingSource,
    FakeSource,
    Fault,
    ForeseeingSource,
    ManySource,
    Record,
    handled,
    in_virtual_time,
    now,
)

from fairlane import Backoff
from fairlane.errors import ConfigurationError
from fairlane.model import Lease
from fairlane.worker import WorkerPool
from fairlane.worker._shares import Shares

NEVER = 1_000.0


# The account.


def test_part_that_holds_the_least_of_its_share_is_asked_first() -> None:
    shares = Shares({"a": 3.0, "b": 1.0}, 32)
    shares.take("a", 13)
    shares.take("b", 4)

    assert shares.asks(15) == [("b", 4), ("a", 11)]


def test_part_below_its_share_is_asked_for_no_more_than_what_is_missing() -> None:
    assert Shares({"a": 3.0, "b": 1.0}, 32).asks(32) == [("a", 24), ("b", 8)]


def test_parts_that_have_their_share_get_all_when_the_others_have_nothing() -> None:
    shares = Shares({"a": 3.0, "b": 1.0}, 32)
    shares.take("a", 24)

    assert shares.asks(8) == [("b", 8), ("a", 8)]


def test_part_that_had_nothing_just_now_comes_last() -> None:
    shares = Shares({"a": 1.0, "b": 1.0, "c": 1.0}, 30)
    shares.take("b", 20)
    shares.take("c", 4)

    assert shares.asks(6, {"a"}) == [("c", 6), ("b", 6), ("a", 6)]


def test_parts_that_share_one_slot_take_turns_as_often_as_their_shares_say() -> None:
    shares = Shares({"a": 3.0, "b": 1.0}, 1)

    first = Counter(shares.asks(1)[0][0] for _ in range(40))

    assert first == {"a": 30, "b": 10}


@given(
    ratio=st.lists(st.floats(0.01, 100), min_size=2, max_size=4),
    slots=st.integers(1, 12),
    ends=st.lists(st.integers(0, 3), max_size=40),
)
def test_parts_that_all_have_work_come_to_hold_their_shares(
    ratio: list[float], slots: int, ends: list[int]
) -> None:
    """Whichever slots are freed, once those are free again that the first part had been lent."""
    shares, held = Shares(dict(enumerate(ratio)), slots), Counter({0: slots})
    shares.take(0, slots)
    for end in [*[0] * slots, *ends]:
        if held[end]:
            shares.give_back(end)
            held[end] -= 1
        while free := slots - held.total():
            part, number = shares.asks(free)[0]
            shares.take(part, number)
            held[part] += number
    for part, share in enumerate(ratio):
        right = slots * share / sum(ratio)
        assert right - len(ratio) < held[part] < right + 1


# The pool.


class Scene:
    """Two transports whose messages say how long their handlers take; it counts who works."""

    def __init__(self, *sources: ManySource | FakeSource) -> None:
        self.sources = sources or (ManySource(), ManySource())
        self.inside: Counter[int] = Counter()
        self.done: Counter[int] = Counter()
        self.record = Record()
        self._numbers = count()

    def fill(self, part: int, groups: int, seconds: float, *, step: float = 0.0) -> None:
        """Publish messages; out of step their handlers do not end all at the same moment."""
        for number in range(groups):
            event = seconds + number % 23 * step
            self.sources[part].publish(f"g{next(self._numbers)}", event)

    def pool(self, **options: Any) -> WorkerPool[Any]:
        parts = [(source, self._handler(part)) for part, source in enumerate(self.sources)]
        settings = {"concurrency": 32, "on_event": self.record, "drain_timeout": 0, **options}
        return WorkerPool.together(*parts, **settings)

    def _handler(self, part: int) -> Any:
        async def handle(lease: Lease[Any]) -> None:
            self.inside[part] += 1
            try:
                await anyio.sleep(lease.event)
            finally:
                self.inside[part] -= 1
            self.done[part] += 1

        return handle

    @property
    def at_work(self) -> tuple[int, ...]:
        return tuple(self.inside[part] for part in range(len(self.sources)))


@pytest.mark.parametrize("claimers", [1, 4])
@pytest.mark.parametrize(
    ("shares", "expected"), [((3, 1), (24, 8)), ((0.5, 1.5), (8, 24)), (None, (16, 16))]
)
def test_parts_that_have_work_hold_their_shares(
    shares: Sequence[float] | None, expected: tuple[int, int], claimers: int
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()
        scene.fill(0, 100, NEVER)
        scene.fill(1, 100, NEVER)
        async with scene.pool(shares=shares, claimers=claimers):
            await scene.record.until("claimed", times=32)
            await anyio.sleep(1)
            assert scene.at_work == expected

    scenario()


@pytest.mark.parametrize("busy", [0, 1])
def test_part_that_is_alone_with_work_has_all_slots(busy: int) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()
        scene.fill(busy, 100, NEVER)
        async with scene.pool(shares=(3, 1)):
            await anyio.sleep(1)
            assert scene.inside[busy] == 32

    scenario()


@in_virtual_time
async def test_slots_that_were_lent_come_back_as_they_are_freed() -> None:
    source = AnnouncingSource()
    scene = Scene(ManySource(), source)
    for number in range(60):
        scene.fill(0, 1, 1 + number / 100)

    async with scene.pool(shares=(3, 1), poll_interval=NEVER):
        await anyio.sleep(0.5)
        before = scene.at_work
        scene.fill(1, 20, NEVER)
        await anyio.sleep(0.555)
        between = scene.at_work
        await anyio.sleep(0.45)
        after = scene.at_work

    assert (before, between, after) == ((32, 0), (26, 6), (24, 8))


@in_virtual_time
async def test_slow_handlers_of_one_part_do_not_crowd_out_another_one() -> None:
    scene = Scene()
    scene.fill(0, 600, 0.1)
    scene.fill(1, 100, 5.0)
    held = []

    async with scene.pool():
        for _ in range(20):
            await anyio.sleep(0.103)
            held.append(scene.at_work)

    assert set(held) == {(16, 16)}


@in_virtual_time
async def test_part_that_claims_one_at_a_time_has_its_share_as_well() -> None:
    scene = Scene(FakeSource(), ManySource())
    scene.fill(0, 100, NEVER)
    scene.fill(1, 100, NEVER)

    async with scene.pool(shares=(1, 3)):
        await scene.record.until("claimed", times=32)
        await anyio.sleep(1)
        at_work, asked = scene.at_work, scene.sources[0].calls["claim"]

    assert (at_work, asked) == ((8, 24), 8)


@in_virtual_time
async def test_part_without_work_costs_one_claim_an_interval() -> None:
    scene = Scene()
    scene.fill(0, 700, 0.4, step=0.01)

    async with scene.pool(concurrency=10, shares=(1, 3), poll_interval=1):
        await anyio.sleep(30)
        idle, busy = (
            each.calls["claim"] + each.calls["claim_many"] for each in scene.sources[::-1]
        )

    assert busy >= 500
    assert 25 <= idle <= 31


@pytest.mark.parametrize("kind", [AnnouncingSource, ForeseeingSource])
def test_part_that_had_nothing_is_asked_at_once_when_it_has_something(kind: Any) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene(ManySource(), kind())
        scene.fill(0, 300, 0.1, step=0.001)
        async with scene.pool(concurrency=10, poll_interval=NEVER):
            await anyio.sleep(1)
            scene.fill(1, 1, 0.0)
            await anyio.sleep(0.02)
            assert scene.done[1] == 1

    scenario()


@in_virtual_time
async def test_retry_of_a_part_that_rests_starts_when_it_is_due() -> None:
    busy, resting, starts = ManySource(), ManySource(), list[float]()
    for number in range(300):
        busy.publish(f"g{number}", 0.1 + number % 7 / 1_000)
    resting.publish("g")

    async def work(lease: Lease[Any]) -> None:
        await anyio.sleep(lease.event)

    async def fail(_: object) -> None:
        starts.append(now())
        raise ValueError

    parts = ((busy, work), (resting, fail))
    options: dict[str, Any] = {"backoff": Backoff(base=3, jitter=0), "concurrency": 4}
    async with WorkerPool.together(*parts, poll_interval=NEVER, drain_timeout=0, **options):
        await anyio.sleep(4)

    assert starts[1] - starts[0] == pytest.approx(3, abs=0.1)


@in_virtual_time
async def test_part_whose_server_is_away_takes_a_quarter_of_the_time_at_most() -> None:
    scene = Scene()
    away = Fault(delay=2, before=ConnectionError("server away"))
    scene.sources[1].always["claim"] = scene.sources[1].always["claim_many"] = away
    scene.fill(0, 400, 0.2)

    async with scene.pool(concurrency=2, poll_interval=0.1):
        await anyio.sleep(40)

    assert 280 <= scene.done[0] < 400


# What is refused.


@pytest.mark.parametrize("share", [float("nan"), float("inf"), 1e-9])
def test_share_that_is_no_number_to_count_with_is_named(share: float) -> None:
    with pytest.raises(ConfigurationError, match="shares must be"):
        WorkerPool.together((FakeSource(), handled), (FakeSource(), handled), shares=(1, share))


@pytest.mark.parametrize(
    "shares",
    [(), (1,), (1, 2, 3), "11", 3, {0: 1, 1: 1}, (1, 0), (1, -1), (1, True), (1, "1"), (1, None)],
)
def test_bad_shares_are_named(shares: Any) -> None:
    with pytest.raises(ConfigurationError, match="shares must be"):
        WorkerPool.together((FakeSource(), handled), (FakeSource(), handled), shares=shares)
