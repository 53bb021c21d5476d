"""Which partition a claimer tries next, and when it may rest: a decision without I/O."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ("Sweep", "Sweeps")

TOGETHER = 32
"""So many partitions are looked into together at most."""

MAX_RANGES = 200
"""So many ranges of an index MongoDB merges in their order (`internalQueryMaxScansToExplode`). With
more it would read and sort all that is due."""


class Sweep:
    """One claimer's walk over all partitions, one exact partition for each attempt.

    The order is shuffled, so that claimers spread, goes on after every attempt, hit or miss, so
    that no partition is preferred, and is shuffled anew after each round.

    Partitions missed since the last hit are kept as a set. A number would not do: from one round
    into the next the same partition may come twice before another one comes at all.
    """

    def __init__(self, partitions: int, *, rng: random.Random | None = None) -> None:
        self.partitions = partitions
        self._rng = random.Random() if rng is None else rng
        self._order: list[int] = []
        self._missed: set[int] = set()

    @property
    def is_complete(self) -> bool:
        """Whether every partition was missed since the last hit, so that the claimer may rest."""
        return len(self._missed) == self.partitions

    def next(self) -> int:
        """Return the partition to try; those that were missed since the last hit are left out.

        Must not be called when the sweep is complete.
        """
        while True:
            if not self._order:
                self._order = self._shuffled()
            partition = self._order.pop()
            if partition not in self._missed:
                return partition

    def looks(self, *, ranges: int = 1) -> list[list[int]]:
        """Return the next partition alone, then all others, several together.

        For a claimer of many, who looks on as long as it has not found enough. What it looks for is
        in so many ranges of the index in each partition.
        """
        first = self.next()
        others = [each for each in self._shuffled() if each != first]
        together = max(1, min(TOGETHER, MAX_RANGES // ranges))
        starts = range(0, len(others), together)
        return [[first], *(others[start : start + together] for start in starts)]

    def _shuffled(self) -> list[int]:
        return self._rng.sample(range(self.partitions), self.partitions)

    def hit(self) -> None:
        """Where one was, there may be more, and the misses so far are old."""
        self._missed.clear()

    def miss(self, partition: int) -> None:
        self._missed.add(partition)

    def start(self) -> None:
        """Forget the misses: what was due to nobody before a rest may be due now."""
        self._missed.clear()


class Sweeps:
    """The sweeps of a process: each claim under way walks its own, later ones go on where it ended.

    So claims that run at the same time spread, and those that follow each other serve the
    partitions in turn.
    """

    def __init__(self, *, rng: random.Random | None = None) -> None:
        self._rng = rng
        self._idle: list[Sweep] = []

    @contextmanager
    def one(self, partitions: int) -> Iterator[Sweep]:
        """Lend a sweep over so many partitions that nobody else uses meanwhile."""
        sweep = self._idle.pop() if self._idle else Sweep(partitions, rng=self._rng)
        if sweep.partitions != partitions:  # the number has changed
            sweep = Sweep(partitions, rng=self._rng)
        sweep.start()
        try:
            yield sweep
        finally:
            self._idle.append(sweep)
