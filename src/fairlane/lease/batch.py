"""Lease many documents in as many commands as a few: their number does not matter.

Candidates are read in the order of the index, then they are bid for in one bulk of single
conditional updates, each under a token of its own; what was won is read back in one command. A
candidate that another claimer was quicker to lease is lost, and nothing else happens to it.
"""

import logging
import math
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pymongo.errors import PyMongoError

from fairlane.driver import Collection, Document, Sort
from fairlane.lease import commands
from fairlane.lease.hints import Index

__all__ = (
    "WIDEST",
    "Bids",
    "Look",
    "ReadAll",
    "Spread",
    "Wanted",
    "candidates",
    "free_all",
    "lease_all",
)

Bids = Mapping[Any, str]
"""The tokens under which documents are to be leased, by `_id`."""


class Look(Protocol):
    """Returns the `_id`s of the first documents that match; `Leaser.look`, of some collection."""

    async def __call__(
        self, match: Document, *, sort: Sort, limit: int, hint: Index | None
    ) -> list[Any]: ...


ReadAll = Callable[[Document], Awaitable[list[Document]]]

logger: logging.Logger = logging.getLogger(__name__)


WIDEST = 32
"""In batches: so many claimers can bid for different documents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which documents may be leased, which of them come first, and until when they are leased.

    Attributes:
        now, until: epoch seconds.
        among: the values that other fields may have.
        marks: what a lease sets besides.
        hint: the index to look by, where several would do.
    """

    now: float
    until: float
    sort: Sort
    among: commands.Choices
    marks: Mapping[str, object] | None = None
    hint: Index | None = None

    @property
    def ranges(self) -> int:
        """In how many ranges of an index it is that each partition has of these."""
        return math.prod(map(len, self.among.values()))


class Spread:
    """How far claimers of many look, so as to bid apart from each other.

    All see the same documents first. While what they bid for is won they bid for just these. Where
    most of it goes to others they look twice as far, and bid for some that they draw from there.
    """

    def __init__(self, *, rng: random.Random | None = None) -> None:
        self._rng = random.Random() if rng is None else rng
        self._width = 1

    def reach(self, n: int) -> int:
        """Return how many documents to look at for `n` bids."""
        return n * self._width

    def draw(self, found: Sequence[Any], n: int) -> list[Any]:
        """Return `n` of those found, in their order."""
        if len(found) <= n:
            return list(found)
        return [found[place] for place in sorted(self._rng.sample(range(len(found)), n))]

    def note(self, *, bids: int, won: int) -> None:
        """Learn from how an attempt went; with all bids won it is time to move together again."""
        if won * 2 < bids:
            self._width = min(self._width * 2, WIDEST)
        elif won == bids:
            self._width = max(self._width // 2, 1)


async def candidates(
    look: Look, wanted: Wanted, looks: Iterable[Sequence[int]], n: int, spread: Spread
) -> list[Any]:
    """Return the `_id`s of up to `n` due documents, looking into some partitions at a time.

    Fewer than `n` only if there are no more in any of them.
    """
    found: list[Any] = []
    for partitions in looks:
        match = commands.due(partitions=partitions, now=wanted.now, among=wanted.among)
        limit = spread.reach(n) - len(found)
        found += await look(match, sort=wanted.sort, limit=limit, hint=wanted.hint)
        if len(found) >= n:
            break
    return spread.draw(found, n)


async def lease_all(
    collection: Collection, wanted: Wanted, bids: Bids, *, read_back: ReadAll
) -> list[Document]:
    """Lease those that are due still, and return them as they are then, in the order of the bids.

    `read_back` reads the documents that match a filter, on the primary. If anything fails, what
    was leased is given back.
    """
    update = [
        (
            commands.still_due(key, now=wanted.now, among=wanted.among),
            commands.claimed(token=token, until=wanted.until, marks=wanted.marks),
        )
        for key, token in bids.items()
    ]
    try:
        won = await collection.update_each(update)
        rows = await read_back(commands.taken_among(bids)) if won else []
    except BaseException:
        await free_all(collection, bids, now=wanted.now)
        raise
    leased = {row["_id"]: row for row in rows}
    return [leased[key] for key in bids if key in leased]


async def free_all(collection: Collection, bids: Bids, *, now: float) -> None:
    """Give back what is leased under these tokens; if that fails their leases run out."""
    if not bids:
        return
    given_back = commands.given_back(now=now)
    changes = [(commands.held(key, token), given_back) for key, token in bids.items()]
    try:
        await collection.update_each(changes)
    except PyMongoError:
        logger.warning("%d leases run out by themselves", len(bids), exc_info=True)
