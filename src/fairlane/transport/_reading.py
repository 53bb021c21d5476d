"""Read what a claim needs to know of the group that it has leased: its front and its floor."""

from dataclasses import dataclass

from bson.errors import InvalidBSON
from pymongo.errors import OperationFailure

from fairlane import schema
from fairlane.driver import Document
from fairlane.transport._head import Head, head_limit, is_enough, judge
from fairlane.transport._store import Store

__all__ = ("GroupReader",)

IN_ORDER = (("_id", 1),)

PART: Document = {"_id": 1, "redriven_from": 1}
"""What tells of a message without its event; a head that was read so is read again."""

FRONT = 2
"""Documents that are read together with the lock besides those to deliver: enough for one that an
ack may have left over, and one that tells "more"."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The first `limit` documents of a group, read together with its lock, and its floor."""

    documents: list[Document]
    floor: Document | None
    limit: int


class GroupReader:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, group: Document, batch: int) -> tuple[Head, int | None]:
        """Read the front of the group, and the floor of its epochs if its life is new.

        Of a message that came before not more than itself is delivered: if it kills its worker, no
        other one shall be charged for it.
        """
        joined = self._joined_front(group, batch)
        batch = 1 if group["attempts"] > 1 else batch
        done = group.get("done") or []
        if joined is not None and is_enough(joined.documents, done, batch, joined.limit):
            return judge(joined.documents, done, batch, joined.limit), _number(joined.floor)
        try:
            documents, floor = await self._front(group, head_limit(done, batch))
        except InvalidBSON:
            # Ids always decode; the head is then read alone, so that only a bad head is refused.
            documents = await self._find(group, head_limit(done, batch), PART)
            floor = await self._store.counters.find_one({"_id": schema.floor_id(group["_id"])})
        return judge(documents, done, batch), _number(floor)

    async def read_back(self, batch: int, taken: Document) -> Document | None:
        """Read the lock that an update has leased, as `read_back_all` does.

        Of one group the whole front is read: that is less work than to look twice.
        """
        rows = await self._joined(taken, _whole(self._store.messages.name, batch))
        return rows[0] if rows else None

    async def read_back_all(self, batch: int, taken: Document) -> list[Document]:
        """Read the locks that updates have leased, with the fronts of their groups and the floors.

        One command for all of that. A lock is read before its front, so its `version` is no newer
        than what is seen of its messages. Events are read of the first `batch` only: those of all
        groups are held in memory together.
        """
        return await self._joined(taken, _in_part(self._store.messages.name, batch))

    async def _joined(self, taken: Document, fronts: list[Document]) -> list[Document]:
        store = self._store
        if store.driver.has_lookup:
            floor = {
                "from": store.counters.name,
                "localField": "is_new",
                "foreignField": "_id",
                "as": "floor",
            }
            try:
                return await store.locks.aggregate([{"$match": taken}, *fronts, {"$lookup": floor}])
            except (InvalidBSON, OperationFailure):
                pass  # something cannot be decoded, or is too large together with the rest
        return await store.locks.find(taken, sort=IN_ORDER, limit=0)

    def _joined_front(self, group: Document, batch: int) -> "Joined | None":
        """Take what was read together with the lock; None if that is not all there is to know."""
        first, front = group.pop("first", ()), group.pop("front", None)
        floor = group.pop("floor", None)
        if front is None or not (floor or not _has_unread_floor(group)):
            return None
        whole = {message["_id"]: message for message in first}
        documents = [whole.get(message["_id"], message) for message in front]
        return Joined(documents, floor[0] if floor else None, limit=FRONT + batch)

    async def _front(self, group: Document, limit: int) -> tuple[list[Document], Document | None]:
        if "is_new" not in group:
            return await self._find(group, limit), None
        return await self._store.driver.find_and_one(
            self._store.messages,
            {"group_id": group["_id"]},
            sort=IN_ORDER,
            limit=limit,
            other=self._store.counters,
            other_id=schema.floor_id(group["_id"]),
        )

    async def _find(
        self, group: Document, limit: int, fields: Document | None = None
    ) -> list[Document]:
        return await self._store.messages.find(
            {"group_id": group["_id"]}, sort=IN_ORDER, limit=limit, fields=fields
        )


def _number(floor: Document | None) -> int | None:
    return None if floor is None else floor["n"]


def _has_unread_floor(group: Document) -> bool:
    """Tell whether the lock's life is new and it does not name its floor: an older release did so.

    A floor that it names and that was not found does not exist.
    """
    return "is_new" in group and not isinstance(group["is_new"], str)


def _whole(messages: str, batch: int) -> list[Document]:
    """Join the front of each group."""
    return [_join(messages, "front", {"$limit": FRONT + batch})]


def _in_part(messages: str, batch: int) -> list[Document]:
    """Join the first messages of each group, and what tells of those behind them."""
    return [
        _join(messages, "first", {"$limit": batch}),
        _join(messages, "front", {"$limit": FRONT + batch}, {"$project": PART}),
    ]


def _join(messages: str, name: str, *stages: Document) -> Document:
    return {
        "$lookup": {
            "from": messages,
            "localField": "_id",
            "foreignField": "group_id",
            "pipeline": [{"$sort": dict(IN_ORDER)}, *stages],
            "as": name,
        }
    }
