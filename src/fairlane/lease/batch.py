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
    "Appetite",
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
    """Returns `_id`s and priorities of the first matches; `Leaser.look`, of some collection."""

    async def __call__(
        self, match: Document, *, sort: Sort, limit: int, hint: Index | None
    ) -> list[Document]: ...


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

    def rank(self, document: Document) -> float:
        """Return what decides between documents before the time: nothing, or the priority."""
        priority = document.get("priority") if self.sort[0][0] == "priority" else 0
        return priority if isinstance(priority, int | float) else 0

    @property
    def ranges(self) -> int:
        """In how many ranges of an index it is that each partition has of these."""
        return math.prod(map(len, self.among.values()))


class Appetite:
    """How many documents a claimer of many takes at once: fewer after some came too late.

    All of a batch are late together, so the same batch again would be late again.
    """

    def __init__(self) -> None:
        self._most: int | None = None

    def portion(self, n: int) -> int:
        return n if self._most is None else min(n, self._most)

    def note(self, taken: int, *, is_late: bool) -> None:
        if is_late:
            self._most = max(1, taken // 2)
        elif taken == self._most:
            self._most *= 2


class Spread:
    """How far claimers of many look, so as to bid apart from each other.

    All see the same documents first. While what they bid for is won they bid for just these. Where
    most of it goes to others they look twice as far. Then they bid for the first quarter, so that
    nothing is left out for long, and for others that they draw. A higher priority is never passed
    over for a lower one.
    """

    def __init__(self, *, rng: random.Random | None = None) -> None:
        self._rng = random.Random() if rng is None else rng
        self._width = 1

    def reach(self, n: int) -> int:
        """Return how many documents to look at for `n` bids."""
        return n * self._width

    def draw(self, ranks: Sequence[float], n: int) -> list[int]:
        """Return the places of `n` bids among documents of these ranks, which never grow."""
        if len(ranks) <= n:
            return list(range(len(ranks)))
        last = ranks[n - 1]
        above = sum(rank > last for rank in ranks)
        sure = above + (n - above) // 4
        others = [place for place in range(sure, len(ranks)) if ranks[place] == last]
        return [*range(sure), *sorted(self._rng.sample(others, n - sure))]

    def note(self, *, bids: int, won: int) -> None:
        """Learn from how an attempt went: with nearly all bids won it is time to move together."""
        if won * 2 < bids:
            self._width = min(self._width * 2, WIDEST)
        elif won * 10 >= bids * 9:
            self._width = max(self._width // 2, 1)


async def candidates(
    look: Look, wanted: Wanted, looks: Iterable[Sequence[int]], n: int, spread: Spread
) -> list[Any]:
    """Return the `_id`s of up to `n` due documents, looking into some partitions at a time.

    Fewer than `n` only if there are no more in any of them.
    """
    found: list[Document] = []
    for partitions in looks:
        match = commands.due(partitions=partitions, now=wanted.now, among=wanted.among)
        limit = spread.reach(n) - len(found)
        found += await look(match, sort=wanted.sort, limit=limit, hint=wanted.hint)
        if len(found) >= n:
            break
    found.sort(key=wanted.rank, reverse=True)
    places = spread.draw([wanted.rank(document) for document in found], n)
    return [found[place]["_id"] for place in places]


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
