"""The order in which a claimer walks the partitions, where a test must know it."""

from collections.abc import Sequence
from typing import Any, TypeVar

from fairlane import AsyncJobQueue, AsyncMongoTransport
from fairlane.checks import MOST_AT_ONCE
from fairlane.lease.batch import Appetite, Spread
from fairlane.lease.sweep import Sweeps

__all__ = ("let_walk", "walk_of")

T = TypeVar("T")


class ThereAndBack:
    """Shuffles so that rounds begin at one end in turn with the other: 0, 1; 1, 0; 0, 1.

    From one round into the next the same partition comes twice: the order that is hardest for those
    who count misses.
    """

    def __init__(self, *, is_backwards: bool) -> None:
        self.is_backwards = is_backwards

    def sample(self, population: Sequence[T], k: int, *, counts: Any = None) -> list[T]:
        """Return the next round, its first one last: a sweep takes them from the end."""
        order = population if self.is_backwards else reversed(population)
        self.is_backwards = not self.is_backwards
        return list(order)


class FromOneEnd:
    """Draws always the first ones, or the last ones."""

    def __init__(self, *, is_backwards: bool) -> None:
        self.is_backwards = is_backwards

    def sample(self, population: Sequence[T], k: int, *, counts: Any = None) -> list[T]:
        return list(population[-k:] if self.is_backwards else population[:k])


Product = AsyncMongoTransport[Any] | AsyncJobQueue


def let_walk(product: Product, *, is_backwards: bool = False) -> None:
    """Let the claimer begin, as if it had never claimed, with partition 0, or with the last one."""
    claimer: Any = product._claimer
    there_and_back: Any = ThereAndBack(is_backwards=is_backwards)  # real ones take long to seed
    from_one_end: Any = FromOneEnd(is_backwards=is_backwards)
    claimer._rounds._sweeps = Sweeps(rng=there_and_back)
    claimer._spread = Spread(rng=from_one_end)
    claimer._appetite = Appetite()


def walk_of(product: Product) -> object:
    """Return where the claimer goes on, unless it is under way."""
    claimer: Any = product._claimer
    sweeps = claimer._rounds._sweeps
    orders = [tuple(sweep._order) for sweep in sweeps._idle]
    learnt = claimer._spread.reach(1), claimer._appetite.portion(MOST_AT_ONCE)
    return sweeps._rng.is_backwards, orders, learnt
