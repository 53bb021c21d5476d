"""The reconciler: finds what no claimer would find, and puts it where one looks."""

import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import anyio

from fairlane.driver import Change, Collection, Document

__all__ = ("BATCH", "Reconciled", "Reconciler", "Rules")

BATCH = 500
PAUSE = 0.25
"""Seconds, about, between two full batches: claims go first."""

SEEN: Document = {"partition": 1, "token": 1, "available_at": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the reconciler must be told about the documents of a collection.

    Attributes:
        partition_of: where a document belongs, by its `_id`.
        adopted: what a document without any partition gets as well.
        fields: those that `adopted` looks at.
    """

    partition_of: Callable[[str], int]
    adopted: Callable[[Document], Document]
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What one run did; as a truth, whether it found anything.

    Attributes:
        adopted: documents without a partition that have one now.
        moved: documents with a wrong partition that have the right one now.
        left: documents that were left alone: leased, or changed meanwhile.
    """

    adopted: int = 0
    moved: int = 0
    left: int = 0

    def __bool__(self) -> bool:
        return bool(self.adopted or self.moved or self.left)


class Reconciler:
    """Puts into its partition every document whose own is missing, or none that claimers look into.

    Many may run at once. Each document is changed only if it is still as it was read, so a claim or
    a settlement that comes in between wins. A live lease is left alone: its document is found
    again when it has ended. Only a document without any partition is completed all the same: no
    claim of ours can have leased it, so it is another design's, whose token and time stay.
    """

    def __init__(
        self,
        rules: Rules,
        *,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[object]] = anyio.sleep,
    ) -> None:
        self._rules = rules
        self._rng = random.Random() if rng is None else rng
        self._sleep = sleep

    async def run(
        self, collection: Collection, match: Document, *, now: Callable[[], float]
    ) -> Reconciled:
        """Put all that matches (`misplaced`, `unplaced`) where it belongs.

        Goes on while a batch is full of what was *found*: others may be changing it as well.
        """
        adopted = moved = left = 0
        while found := await self._scan(collection, match):
            changes = [each for each in found if not _is_leased(each, now())]
            orphans = [each for each in changes if each.get("partition") is None]
            strays = [each for each in changes if each.get("partition") is not None]
            adopted_now = await self._write(collection, orphans)
            moved_now = await self._write(collection, strays)
            adopted, moved = adopted + adopted_now, moved + moved_now
            left += len(found) - adopted_now - moved_now
            if len(found) < BATCH:
                break
            match = {**match, "_id": {"$gt": found[-1]["_id"]}}
            await self._sleep(PAUSE * self._rng.uniform(0.5, 1.5))
        return Reconciled(adopted=adopted, moved=moved, left=left)

    async def _scan(self, collection: Collection, match: Document) -> list[Document]:
        fields = {**SEEN, **dict.fromkeys(self._rules.fields, 1)}
        return await collection.find(match, sort=[("_id", 1)], limit=BATCH, fields=fields)

    async def _write(self, collection: Collection, documents: Sequence[Document]) -> int:
        if not documents:
            return 0
        return await collection.update_each([self._change(each) for each in documents])

    def _change(self, document: Document) -> Change:
        update: Document = {"$set": {"partition": self._rules.partition_of(document["_id"])}}
        if document.get("partition") is None:
            for operator, values in self._rules.adopted(document).items():
                update.setdefault(operator, {}).update(values)
        return _as_seen(document), update


def _as_seen(document: Document) -> Document:
    """Match the document if it is as it was read.

    Race: a claim, an extension or a settlement meanwhile changes `token` or `available_at`; another
    reconciler changes `partition`.
    """
    partition = document.get("partition")
    return {
        "_id": document["_id"],
        "partition": None if partition is None else {"$eq": partition},
        "token": document.get("token"),
        "available_at": document.get("available_at"),
    }


def _is_leased(document: Document, now: float) -> bool:
    if document.get("partition") is None or document.get("token") is None:
        return False
    until = document.get("available_at")
    return isinstance(until, int | float) and until > now
