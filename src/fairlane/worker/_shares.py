"""Which part of a pool is asked next, and for how much. Nothing here waits, reads or writes."""

import math
from collections.abc import Collection, Mapping
from typing import Generic, TypeVar

__all__ = ("Shares",)

P = TypeVar("P")


class Shares(Generic[P]):
    """How many slots of a pool each part holds, and how many it has a right to.

    A part that has no work lends its slots. They come back as they are freed: the next free one is
    for whoever holds the least of its share.
    """

    def __init__(self, shares: Mapping[P, float], slots: int) -> None:
        total = sum(shares.values())
        self._shares = {part: share / total for part, share in shares.items()}
        self._rights = {part: round(share * slots, 6) for part, share in self._shares.items()}
        self._held = dict.fromkeys(shares, 0)
        self._credit = dict.fromkeys(shares, 0.0)

    def asks(self, n: int, resting: Collection[P] = ()) -> list[tuple[P, int]]:
        """Return whom to ask for `n` free slots, in order until one has work, and for how many.

        Parts below their shares come first, each for what is missing. Only if they have nothing the
        others get all. Parts that are `resting` had nothing just now: they come last.
        """
        order = self._in_turn()
        first = {
            part: min(n, missing)
            for part in order
            if (missing := self._missing(part)) and part not in resting
        }
        others = [part for part in order if part not in first]
        others.sort(key=lambda part: part in resting)
        return [*first.items(), *((part, n) for part in others)]

    def take(self, part: P, number: int) -> None:
        self._held[part] += number

    def give_back(self, part: P, number: int = 1) -> None:
        self._held[part] -= number

    def _missing(self, part: P) -> int:
        """Return what a part lacks of its share; what is less than a slot is one."""
        missing = self._rights[part] - self._held[part]
        return max(1, math.floor(missing)) if missing > 0 else 0

    def _in_turn(self) -> list[P]:
        """Return the parts, that which holds the least of its share first.

        Where that is the same, as in a pool with a single slot, they take turns, which come as
        often as the shares say.
        """
        for part, share in self._shares.items():
            self._credit[part] += share
        order = sorted(self._shares, key=self._standing)
        self._credit[max(self._credit, key=self._credit.__getitem__)] -= 1.0
        return order

    def _standing(self, part: P) -> tuple[float, float]:
        return self._held[part] / self._shares[part], -self._credit[part]
