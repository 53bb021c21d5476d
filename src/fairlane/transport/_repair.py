"""Repair: what an interrupted publish or another design left behind."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairlane import schema
from fairlane.driver import Document, Upsert
from fairlane.model import RepairReport
from fairlane.transport._dead import DeadLetters
from fairlane.transport._placing import Placer
from fairlane.transport._store import Store

__all__ = ("Repairer",)

PAGE = 1_000
GRACE = 5.0
"""Seconds that a publish gets for making its group claimable before repair does it."""
LATE = 60.0
"""Seconds by which a message may be inserted late and still be seen: so far the watermark lags."""

HEADS: list[Document] = [
    {"$sort": {"group_id": 1, "_id": 1}},
    {
        "$group": {
            "_id": "$group_id",
            "seq": {"$first": "$_id"},
            "published_at": {"$first": "$published_at"},
            "priority": {"$first": "$priority"},
        }
    },
]


@dataclass(frozen=True, slots=True)
class Page:
    """The first unlocked message of each group that may need a lock, and where to go on."""

    groups: Mapping[str, Document]
    examined: int
    last_seq: int
    settled_seq: int
    is_full: bool


class Repairer:
    def __init__(self, store: Store, dead: DeadLetters[Any], placer: Placer) -> None:
        self._store = store
        self._dead = dead
        self._placer = placer
        self._mark: int | None = None

    async def repair(self, *, full: bool) -> RepairReport:
        """Look at the messages after the watermark, or at the first one of every group."""
        adopted = await self._placer.adopt()
        finished = await self._dead.complete()
        examined, repaired = await (self._relock_all() if full else self._relock_stored())
        return RepairReport(
            examined=examined, repaired=repaired, adopted=adopted, finished=finished
        )

    async def mend(self) -> int:
        """Make messages claimable whose publisher died half-way; return of how many groups.

        One read where there are none: the watermark is the one that was stored when it was last
        read, or is higher by what was seen since. It grows only, so an old one costs a second look
        at some messages. Only where the collections were dropped do numbers begin anew, and the
        next `repair`, which reads it, finds what this has passed over.
        """
        if self._mark is None:
            _, repaired = await self._relock_stored()
        else:
            _, repaired = await self._relock_recent(self._mark)
        return repaired

    async def _relock_stored(self) -> tuple[int, int]:
        stored = await self._store.counters.find_one({"_id": "repair"})
        return await self._relock_recent(0 if stored is None else int(stored["seq"]))

    async def _relock_recent(self, mark: int) -> tuple[int, int]:
        examined = repaired = 0
        seq = watermark = mark
        while True:
            page = await self._page(seq)
            repaired += await self._ready_unlocked(page.groups)
            examined += page.examined
            if watermark == seq:  # so far every page was settled to its end
                watermark = page.settled_seq
            seq = page.last_seq
            if not page.is_full:
                break
        if watermark > mark:
            await self._store.counters.upsert([({"_id": "repair"}, {"$max": {"seq": watermark}})])
        self._mark = watermark
        return examined, repaired

    async def _relock_all(self) -> tuple[int, int]:
        latest = await self._store.now() - GRACE
        repaired = 0
        heads = await self._store.messages.aggregate(HEADS)
        due = [head for head in heads if (schema.published_at(head) or 0.0) <= latest]
        for start in range(0, len(due), PAGE):
            page = {head["_id"]: head for head in due[start : start + PAGE]}
            repaired += await self._ready_unlocked(page)
        return len(heads), repaired

    async def _page(self, after: int) -> Page:
        now = await self._store.now()
        documents = await self._store.messages.find(
            {"_id": {"$gt": after}},
            sort=[("_id", 1)],
            limit=PAGE,
            fields={"group_id": 1, "published_at": 1, "priority": 1},
        )
        return _judge(documents, after, now)

    async def _ready_unlocked(self, groups: Mapping[str, Document]) -> int:
        if not groups:
            return 0
        names = list(groups)
        locks = self._store.locks.each(
            {"_id": {"$in": names}}, sort=[("_id", 1)], fields={"_id": 1}
        )
        locked = {lock["_id"] async for lock in locks}
        writes = [self._ready(name, groups[name]) for name in names if name not in locked]
        if writes:
            await self._store.driver.write_in_order(writes)
        return len(writes)

    def _ready(self, group_id: str, message: Document) -> Upsert:
        """Return what publish would have done.

        Race: the publish is still alive and readies the group too: that is the same upsert, and a
        group that was drained meanwhile gets a lock without messages, which the next claim removes.
        """
        return self._store.readying(
            group_id,
            seq=int(message["seq"]),
            messages=1,
            priority=message.get("priority") or 0,
            available_at=0.0,  # it has waited long enough
        )


def _judge(documents: list[Document], after: int, now: float) -> Page:
    groups: dict[str, Document] = {}
    settled_seq, is_settled = after, True
    for document in documents:
        age = now - (schema.published_at(document) or 0.0)
        if age >= GRACE:
            groups.setdefault(document["group_id"], {**document, "seq": document["_id"]})
        is_settled = is_settled and age >= LATE
        if is_settled:
            settled_seq = int(document["_id"])
    return Page(
        groups=groups,
        examined=len(documents),
        last_seq=int(documents[-1]["_id"]) if documents else after,
        settled_seq=settled_seq,
        is_full=len(documents) == PAGE,
    )
