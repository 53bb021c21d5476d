"""When the indexes of claims are measured, and what becomes of a round that fails."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from pymongo.errors import OperationFailure

from fairlane.driver import Cost
from fairlane.lease.hints import PERIOD, SAMPLES, Hints, Index

A: Index = (("partition", 1), ("type", 1))
B: Index = (("partition", 1), ("priority", -1))
C: Index = (("partition", 1),)
MISSING = OperationFailure("hint provided does not correspond to an existing index", 2)


def cost(examined: int) -> Cost:
    return Cost(keys=examined, documents=0, milliseconds=0)


@dataclass
class Bench:
    """Hints with a clock and a probe, which remembers what it was asked."""

    candidates: Sequence[Index] = (A, B)
    costs: dict[Index, Cost | None] = field(default_factory=lambda: {A: cost(9), B: cost(1)})
    failing: Exception | None = None
    gate: asyncio.Event | None = None
    now: float = 1_000.0
    asked: list[tuple[Index, int]] = field(default_factory=list)
    under_way: int = 0

    def __post_init__(self) -> None:
        self.hints = Hints(
            self.candidates, self.probe, monotonic=lambda: self.now, rng=random.Random(5)
        )

    async def probe(self, index: Index, partition: int) -> Cost | None:
        self.under_way += 1
        assert self.under_way == 1, "two probes at once"
        try:
            self.asked.append((index, partition))
            if self.gate is not None:
                await self.gate.wait()
            if self.failing is not None:
                raise self.failing
            return self.costs[index]
        finally:
            self.under_way -= 1

    async def round(self, partitions: int = 8) -> bool:
        """Measure in the next period."""
        self.now += PERIOD
        return await self.hints.measure(partitions)

    def samples(self) -> list[list[tuple[Index, int]]]:
        size = len(self.candidates)
        return [self.asked[at : at + size] for at in range(0, len(self.asked), size)]


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_first_candidate_is_named_until_something_was_measured(bench: Bench) -> None:
    assert bench.hints.choice() == A


async def test_first_round_is_due_at_once(bench: Bench) -> None:
    assert await bench.hints.measure(1)
    assert bench.hints.choice() == B


async def test_round_asks_for_each_candidate_in_each_sample(bench: Bench) -> None:
    await bench.round()
    assert Counter(index for index, _ in bench.asked) == {A: SAMPLES, B: SAMPLES}


async def test_sample_asks_for_all_candidates_in_one_partition(bench: Bench) -> None:
    for _ in range(10):
        await bench.round()
    partitions = [{partition for _, partition in sample} for sample in bench.samples()]
    assert all(len(each) == 1 for each in partitions)
    assert set.union(*partitions) == set(range(8))


async def test_order_alternates_from_sample_to_sample_over_all_rounds(bench: Bench) -> None:
    """A12.10."""
    for _ in range(3):
        await bench.round()
    first = [sample[0][0] for sample in bench.samples()]
    assert first == [A, B] * (3 * SAMPLES // 2) + [A]


async def test_no_round_before_the_period_is_over(bench: Bench) -> None:
    await bench.round()
    bench.now += PERIOD - 0.001
    bench.asked.clear()
    assert not await bench.hints.measure(8)
    assert bench.asked == []
    bench.now += 0.001
    assert await bench.hints.measure(8)


async def test_failed_round_is_not_repeated_before_the_period_is_over(bench: Bench) -> None:
    bench.failing = MISSING
    await bench.round()
    bench.asked.clear()
    await bench.hints.measure(8)
    assert bench.asked == []


async def test_rounds_never_overlap(bench: Bench) -> None:
    """A12.14."""
    bench.gate = asyncio.Event()
    first = asyncio.create_task(bench.round())
    await asyncio.sleep(0)
    assert not await bench.round()
    bench.gate.set()
    assert await first
    assert len(bench.asked) == 2 * SAMPLES


async def test_choice_is_there_while_a_round_hangs(bench: Bench) -> None:
    bench.gate = asyncio.Event()
    hanging = asyncio.create_task(bench.round())
    await asyncio.sleep(0)
    assert bench.under_way == 1
    assert bench.hints.choice() == A
    bench.gate.set()
    await hanging


async def test_cancelled_round_is_dropped_and_the_next_one_runs(bench: Bench) -> None:
    """A12.15: what a stop does with one that takes longer than a second."""
    bench.gate = asyncio.Event()
    task = asyncio.create_task(bench.round())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.hints.choice() == A
    bench.gate.set()
    assert await bench.round()


async def test_failing_probe_changes_nothing_and_ends_the_round(bench: Bench) -> None:
    """A12.11."""
    await bench.round()
    bench.failing = MISSING
    bench.asked.clear()
    assert not await bench.round()
    assert bench.hints.choice() == B
    assert len(bench.asked) == 1


async def test_failing_probe_is_logged_once_until_it_works_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    for failing in (MISSING, MISSING, None, MISSING):
        bench.failing = failing
        await bench.round()
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert "does not correspond" in warnings[0].getMessage()


async def test_fault_of_the_probe_itself_is_the_caller_s(bench: Bench) -> None:
    bench.failing = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        await bench.round()
    bench.failing = None
    assert await bench.round()


async def test_server_that_cannot_tell_is_no_failure(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.costs = {A: None, B: None}
    assert not await bench.round()
    assert bench.hints.choice() == A
    assert caplog.records == []


@pytest.mark.parametrize("candidates", [(), (A,)])
async def test_without_a_second_candidate_nothing_is_named_or_measured(
    candidates: Sequence[Index],
) -> None:
    bench = Bench(candidates=candidates)
    assert not await bench.round()
    assert bench.hints.choice() is None
    assert bench.hints.choice([A]) is None
    assert bench.asked == []


async def test_index_that_does_not_suit_a_claim_is_not_named_in_it(bench: Bench) -> None:
    """Seed 001: B suits only while every type may be claimed; that claim changes nothing else."""
    await bench.round()
    assert bench.hints.choice([A]) == A
    assert bench.hints.choice([A, B]) == B
    assert bench.hints.choice() == B


async def test_no_index_is_named_where_none_suits(bench: Bench) -> None:
    assert bench.hints.choice([]) is None
    assert bench.hints.choice([C]) is None
