"""Rounds: attempts to lease, one after the other, until one has found something or nothing is due.

What an attempt does is the product's; when to go on, and when to rest, is decided here.
"""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar

from fairlane.lease.sweep import Sweep, Sweeps
from fairlane.shield import finish

__all__ = ("Found", "Rounds", "Skipped", "by_freshness")

L = TypeVar("L")
logger: logging.Logger = logging.getLogger(__name__)

MAX_LATE = 20
"""So many leases in a row that came too late mean that the visibility is shorter than a claim."""


class Skipped(Enum):
    """Why an attempt that found something has nothing to hand out."""

    EMPTY = "there was nothing to do, or others were quicker to lease it all"
    LATE = "less than half of the visibility was left"


Found = list[L] | Skipped | None
"""Of one attempt; None if nothing is due where it looked."""


def by_freshness(
    leases: Sequence[L], until: Callable[[L], float], *, now: float, visibility: float
) -> tuple[list[L], list[L]]:
    """Return those of which half of the visibility is left, and those that come too late.

    Race: a lease that ran out between its commands may show what somebody else has settled
    meanwhile.
    """
    fresh: list[L] = []
    late: list[L] = []
    for lease in leases:
        (fresh if until(lease) - now >= visibility / 2 else late).append(lease)
    return fresh, late


class Rounds(Generic[L]):
    """An attempt that is cancelled is finished, and what it leased goes to `give_back`."""

    def __init__(self, give_back: Callable[[list[L]], Awaitable[object]]) -> None:
        self._give_back = give_back
        self._sweeps = Sweeps()

    async def one(
        self,
        partitions: int,
        attempt: Callable[[int], Coroutine[Any, Any, Found[L]]],
        *,
        visibility: float,
    ) -> L | None:
        """Try one exact partition at a time; None if nothing is due in any of them."""
        late = 0
        with self._sweeps.one(partitions) as sweep:
            while late < MAX_LATE:
                partition = sweep.next()
                found = await self._finish(attempt(partition))
                if isinstance(found, list):
                    return found[0]
                if found is None:
                    sweep.miss(partition)
                    if sweep.is_complete:
                        return None
                else:
                    sweep.hit()
                    late += found is Skipped.LATE
        _warn(visibility)
        return None

    async def many(
        self,
        partitions: int,
        attempt: Callable[[Sweep], Coroutine[Any, Any, Found[L]]],
        *,
        visibility: float,
    ) -> list[L]:
        """Let each attempt look into all partitions if it must; none if nothing is due anywhere.

        It may lose what it found to others, all of it: then there was something, and the next
        attempt begins with another partition.
        """
        late = 0
        with self._sweeps.one(partitions) as sweep:
            while late < MAX_LATE:
                found = await self._finish(attempt(sweep))
                if not isinstance(found, Skipped):
                    return found or []
                late += found is Skipped.LATE
        _warn(visibility)
        return []

    async def _finish(self, attempt: Coroutine[Any, Any, Found[L]]) -> Found[L]:
        return await finish(attempt, undo=self._undo)

    async def _undo(self, found: Found[L]) -> None:
        if isinstance(found, list):
            await self._give_back(found)


def _warn(visibility: float) -> None:
    logger.warning("a claim takes longer than half of visibility=%g s", visibility)
