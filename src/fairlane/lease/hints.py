"""Which index a claim names where several would do: a decision without I/O, and who measures.

Two indexes may both find the first due document, one at once and the other after a walk over what
does not match; which is which depends on what happens to be due. So now and then the claim is
explained with each of them. What counts is what the server examined. Time, in whole milliseconds
and mostly 0, only breaks ties.
"""

import logging
import random
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from pymongo.errors import PyMongoError

from fairlane.clock import Clock, uptime
from fairlane.driver import Collection, Cost, Document, Sort
from fairlane.errors import describe

__all__ = (
    "MAX_TIME",
    "PERIOD",
    "SAMPLES",
    "Choice",
    "Hints",
    "Index",
    "Probe",
    "Sample",
    "by_explaining",
    "in_turn",
    "winner_of",
)

Index = tuple[tuple[str, int], ...]
"""An index by its keys: names may differ from one database to the next."""

Sample = Mapping[Index, Cost]
"""What each candidate cost, all in the same partition."""

Probe = Callable[[Index, int], Awaitable[Cost | None]]
"""Tells what a claim in this partition costs by this index; None where that cannot be told."""

SAMPLES = 3
"""In one round: one that met an odd partition is outvoted."""

PERIOD = 60.0
"""Seconds from one round to the next, at least. A round costs the server about six claims, while
the wrong index may cost every claim a walk: the first round may have found nothing due."""

MAX_TIME = 1.0
"""Seconds that a claim may take when it is explained: by then its index is not the better one."""

logger: logging.Logger = logging.getLogger(__name__)


def in_turn(candidates: Sequence[Index], sample: int) -> tuple[Index, ...]:
    """Return the order in which a sample tries the candidates, each first in its turn.

    Whichever comes second finds in the cache what the first one had to fetch.
    """
    first = sample % len(candidates)
    return (*candidates[first:], *candidates[:first])


def winner_of(samples: Sequence[Sample]) -> Index | None:
    """Return the candidate with the lowest median; None if several have it, or without samples."""
    if not samples:
        return None
    scores = {index: _score([sample[index] for sample in samples]) for index in samples[0]}
    best = min(scores.values())
    winners = [index for index, score in scores.items() if score == best]
    return winners[0] if len(winners) == 1 else None


def _score(costs: Sequence[Cost]) -> tuple[float, float]:
    return median(cost.examined for cost in costs), median(cost.milliseconds for cost in costs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The index in use, and what may become of it.

    Attributes:
        index: in use.
        is_measured: whether any round had a winner; until then the first one decides alone.
        challenger: another index that has won the last round.
    """

    index: Index
    is_measured: bool = False
    challenger: Index | None = None

    def after(self, samples: Sequence[Sample]) -> "Choice":
        """Return the choice after a round; one that failed has no samples.

        A challenger must win twice in a row, so that claims do not go to and fro with what happens
        to be due at the moment. A tie or a failure in between ends the row.
        """
        winner = winner_of(samples)
        if winner is None:
            return replace(self, challenger=None)
        if winner in (self.index, self.challenger) or not self.is_measured:
            return Choice(index=winner, is_measured=True)
        return replace(self, challenger=winner)


class Hints:
    """Knows the index to name in a claim; with fewer than two candidates it names none.

    A claim asks for the `choice`, which never waits. `measure` is for a loop in the background, as
    a worker pool has for reconciling: a claimer that finds a round due would have to wait for it,
    or to leave a task behind that nobody owns. Where nobody measures the first candidate is used.
    """

    def __init__(
        self,
        candidates: Sequence[Index],
        probe: Probe,
        *,
        period: float = PERIOD,
        monotonic: Clock = uptime,
        rng: random.Random | None = None,
    ) -> None:
        self._candidates = tuple(candidates)
        self._probe = probe
        self._period = period
        self._monotonic = monotonic
        self._rng = random.Random() if rng is None else rng
        self._choice = Choice(index=self._candidates[0]) if len(self._candidates) > 1 else None
        self._due_at = monotonic()
        self._taken = 0
        self._is_measuring = False
        self._is_failing = False

    def choice(self, eligible: Container[Index] | None = None) -> Index | None:
        """Return the index to name in a claim that these suit (None: all); None to name none.

        Where the one in use does not suit it is the first candidate that does, for this claim only.
        """
        if self._choice is None:
            return None
        if eligible is None or self._choice.index in eligible:
            return self._choice.index
        return next((index for index in self._candidates if index in eligible), None)

    async def measure(self, partitions: int) -> bool:
        """Compare the candidates if a round is due and none is under way.

        Returns whether all of them were measured, so that all of them exist. An error of the probe
        is logged once, until it works again, and leaves the choice as it is. Cancelled, the round
        is dropped.
        """
        choice = self._choice
        if choice is None or self._is_measuring or self._monotonic() < self._due_at:
            return False
        self._is_measuring = True
        self._due_at = self._monotonic() + self._period
        try:
            samples = await self._round(partitions)
        finally:
            self._is_measuring = False
        self._choice = choice.after(samples)
        if self._choice.index != choice.index:
            logger.info("claims go by the index %s now", dict(self._choice.index))
        return bool(samples)

    async def _round(self, partitions: int) -> list[Sample]:
        """Return the samples of a round; none if one could not be taken."""
        samples = []
        try:
            for _ in range(SAMPLES):
                sample = await self._sample(self._rng.randrange(partitions))
                if sample is None:
                    return []
                samples.append(sample)
        except PyMongoError as error:
            self._note(error)
            return []
        self._is_failing = False
        return samples

    async def _sample(self, partition: int) -> Sample | None:
        costs = {}
        order = in_turn(self._candidates, self._taken)
        self._taken += 1
        for index in order:
            cost = await self._probe(index, partition)
            if cost is None:
                return None
            costs[index] = cost
        return costs

    def _note(self, error: PyMongoError) -> None:
        if not self._is_failing:
            logger.warning("cannot tell which index suits claims: %s", describe(error, 300))
        self._is_failing = True


def by_explaining(
    collection: Collection,
    match: Callable[[int], Document],
    *,
    sort: Sort,
    max_time: float = MAX_TIME,
) -> Probe:
    """Return a probe that has the server find what a claim would lease, and leases nothing.

    `match` gives the filter of a claim in a partition, with every value that a claim may name.
    """

    async def probe(index: Index, partition: int) -> Cost | None:
        return await collection.explain(match(partition), sort=sort, hint=index, max_time=max_time)

    return probe
