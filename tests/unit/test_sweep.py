"""A claimer's walk over the partitions: it covers them all, in turn, and never rests too early."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairlane.checks import PRIORITIES
from fairlane.lease.sweep import TOGETHER, Sweep, Sweeps


class Walk(Protocol):
    @property
    def is_complete(self) -> bool: ...
    def next(self) -> int: ...
    def hit(self) -> None: ...
    def miss(self, partition: int) -> None: ...


class CountingSweep:
    """What seed 001 describes: rest after as many misses in a row as there are partitions."""

    def __init__(self, partitions: int, *, rng: random.Random) -> None:
        self.partitions = partitions
        self._rng = rng
        self._order: list[int] = []
        self._misses = 0

    @property
    def is_complete(self) -> bool:
        return self._misses >= self.partitions

    def next(self) -> int:
        if not self._order:
            self._order = self._rng.sample(range(self.partitions), self.partitions)
        return self._order.pop()

    def hit(self) -> None:
        self._misses = 0

    def miss(self, partition: int) -> None:
        self._misses += 1


MakeWalk = Callable[..., Walk]

MOST_RANGES = 200
"""`internalQueryMaxScansToExplode`"""

LAYOUTS = st.lists(st.integers(min_value=0, max_value=3), min_size=1, max_size=12)


def due_when_resting(make_walk: MakeWalk, layout: list[int], seed: int, start: int) -> list[int]:
    """Claim until the walk says that one may rest; return what is due then in each partition.

    `layout` says how much is due in each partition; the claimer is somewhere in its round.
    """
    walk = make_walk(len(layout), rng=random.Random(seed))
    for _ in range(start % len(layout)):
        walk.next()
        walk.hit()
    due = list(layout)
    while not walk.is_complete:
        partition = walk.next()
        if due[partition]:
            due[partition] -= 1
            walk.hit()
        else:
            walk.miss(partition)
    return due


@given(layout=LAYOUTS, seed=st.integers(0, 2**32), start=st.integers(0, 11))
@example(layout=[2, 0, 0, 0], seed=1, start=0)
@settings(max_examples=500)
def test_sweep_never_rests_while_any_partition_holds_due_work(
    layout: list[int], seed: int, start: int
) -> None:
    assert sum(due_when_resting(Sweep, layout, seed, start)) == 0


def test_counting_misses_would_rest_with_work_left() -> None:
    """The same claimer, with the number instead of the set: the property is worth something."""

    @given(layout=LAYOUTS, seed=st.integers(0, 2**32), start=st.integers(0, 11))
    @settings(max_examples=500, database=None)
    def never_rests_too_early(layout: list[int], seed: int, start: int) -> None:
        assert sum(due_when_resting(CountingSweep, layout, seed, start)) == 0

    with pytest.raises(AssertionError):
        never_rests_too_early()


def test_counting_misses_rests_too_early_as_often_as_was_measured() -> None:
    """Two things due in one of four partitions: 37.5 % of all claimers left the second one."""
    left = [sum(due_when_resting(CountingSweep, [2, 0, 0, 0], seed, 0)) for seed in range(4_000)]
    assert 0.35 < sum(map(bool, left)) / len(left) < 0.40


@pytest.mark.parametrize("partitions", [1, 2, 5, 32])
def test_sweep_that_finds_nothing_looks_once_into_each_partition(partitions: int) -> None:
    """A12.5."""
    sweep = Sweep(partitions, rng=random.Random(7))
    sweep.next()  # somewhere in a round
    sweep.hit()
    tried = []
    while not sweep.is_complete:
        tried.append(sweep.next())
        sweep.miss(tried[-1])
    assert sorted(tried) == list(range(partitions))


@pytest.mark.parametrize("outcome", ["hits", "misses of a sweep that starts again"])
def test_sweep_goes_on_after_every_attempt(outcome: str) -> None:
    """Each round visits every partition once, whatever comes of it."""
    sweep = Sweep(8, rng=random.Random(7))
    for _ in range(5):
        tried = []
        for _ in range(8):
            tried.append(sweep.next())
            if outcome == "hits":
                sweep.hit()
            else:
                sweep.miss(tried[-1])
                sweep.start()
        assert sorted(tried) == list(range(8))


@given(partitions=st.integers(1, 200), seed=st.integers(0, 2**32), start=st.integers(0, 250))
def test_looks_of_a_claimer_of_many_cover_every_partition_once(
    partitions: int, seed: int, start: int
) -> None:
    """The first is the claimer's next one, alone; the others come as many together as may."""
    sweep = Sweep(partitions, rng=random.Random(seed))
    for _ in range(start):
        sweep.next()
    first, *others = sweep.looks()
    assert len(first) == 1
    assert sorted([*first, *(each for look in others for each in look)]) == list(range(partitions))
    assert all(len(look) == TOGETHER for look in others[:-1])
    assert all(0 < len(look) <= TOGETHER for look in others)


def test_partitions_of_a_look_with_all_priorities_are_ranges_that_mongodb_merges() -> None:
    assert TOGETHER * len(PRIORITIES) <= MOST_RANGES


def test_first_looks_go_on_after_every_attempt() -> None:
    """So claimers of many serve the partitions in turn, as others do."""
    sweep = Sweep(8, rng=random.Random(7))
    for _ in range(5):
        assert sorted(sweep.looks()[0][0] for _ in range(8)) == list(range(8))


def test_order_of_the_other_looks_is_any() -> None:
    """Claimers that find too little in their first partition spread over the others."""
    sweep = Sweep(100, rng=random.Random(7))
    second = {tuple(sorted(sweep.looks()[1])) for _ in range(50)}
    assert len(second) > 45


def test_sweep_is_shuffled_anew_for_each_round() -> None:
    sweep = Sweep(8, rng=random.Random(7))
    rounds = {tuple(sweep.next() for _ in range(8)) for _ in range(50)}
    assert len(rounds) > 45


def test_first_partition_of_claimers_is_any() -> None:
    first = Counter(Sweep(4).next() for _ in range(400))
    assert set(first) == {0, 1, 2, 3}
    assert min(first.values()) > 50


def test_hit_makes_earlier_misses_void() -> None:
    sweep = Sweep(2, rng=random.Random(7))
    first = sweep.next()
    sweep.miss(first)
    sweep.next()
    sweep.hit()
    assert not sweep.is_complete
    assert {sweep.next(), sweep.next()} == {0, 1}


def test_claims_that_follow_each_other_go_on_with_the_round() -> None:
    sweeps = Sweeps()
    tried = []
    for _ in range(8):
        with sweeps.one(8) as sweep:
            tried.append(sweep.next())
    assert sorted(tried) == list(range(8))


def test_claims_at_the_same_time_walk_on_their_own() -> None:
    sweeps = Sweeps()
    with sweeps.one(4) as one, sweeps.one(4) as other:
        assert one is not other
        for sweep in (one, other):
            assert sorted(sweep.next() for _ in range(4)) == [0, 1, 2, 3]


def test_claim_starts_without_the_misses_of_an_earlier_one() -> None:
    """What was due to nobody before may be due now."""
    sweeps = Sweeps()
    with sweeps.one(2) as sweep:
        sweep.miss(0)
        sweep.miss(1)
    with sweeps.one(2) as again:
        assert again is sweep
        assert not again.is_complete


def test_sweep_follows_a_change_of_the_number() -> None:
    sweeps = Sweeps()
    for partitions in (2, 5, 3):
        with sweeps.one(partitions) as sweep:
            assert sorted(sweep.next() for _ in range(partitions)) == list(range(partitions))


def test_sweep_of_a_claim_that_failed_is_used_again() -> None:
    sweeps = Sweeps()
    with pytest.raises(ConnectionError), sweeps.one(2) as failed:
        raise ConnectionError
    with sweeps.one(2) as sweep:
        assert sweep is failed
