"""Read what a claim needs to know of the group that it has leased: its front and its floor."""

from bson.errors import InvalidBSON
from pymongo.errors import OperationFailure

from fairlane import schema
from fairlane.driver import Document
from fairlane.transport._head import Head, head_limit, judge
from fairlane.transport._store import Store

__all__ = ("GroupReader",)

IN_ORDER = (("_id", 1),)

PART: Document = {"_id": 1, "redriven_from": 1}
"""What tells of a message without its event; a head that was read so is read again."""

FRONT = 3
"""Documents that are read together with the lock: enough for one that an ack may have left over."""


class GroupReader:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, group: Document) -> tuple[Head, int | None]:
        """Read the front of the group, and the floor of its epochs if its life is new."""
        done = group.get("done") or []
        limit = head_limit(done)
        try:
            documents, floor = await self._front(group, limit)
        except InvalidBSON:
            # Ids always decode; the head is then read alone, so that only a bad head is refused.
            documents = await self._find(group, limit, PART)
            floor = await self._store.counters.find_one({"_id": schema.floor_id(group["_id"])})
        return judge(documents, done), None if floor is None else floor["n"]

    async def read_back(self, taken: Document) -> Document | None:
        """Read the lock that an update has leased, as `read_back_all` does."""
        rows = await self.read_back_all(taken)
        return rows[0] if rows else None

    async def read_back_all(self, taken: Document) -> list[Document]:
        """Read the locks that updates have leased, with the fronts of their groups and the floors.

        One command for all of that. A lock is read before its front, so its `version` is no newer
        than what is seen of its messages.
        """
        store = self._store
        if store.driver.has_lookup:
            try:
                return await store.locks.aggregate(
                    _with_front(taken, store.messages.name, store.counters.name)
                )
            except (InvalidBSON, OperationFailure):
                pass  # something cannot be decoded, or is too large together with the rest
        return await store.locks.find(taken, sort=IN_ORDER, limit=0)

    async def _front(self, group: Document, limit: int) -> tuple[list[Document], Document | None]:
        first, front = group.pop("first", ()), group.pop("front", None)
        floor = group.pop("floor", None)
        if front is not None and limit <= FRONT and (floor or not _has_unread_floor(group)):
            whole = {message["_id"]: message for message in first}
            documents = [whole.get(message["_id"], message) for message in front[:limit]]
            return documents, floor[0] if floor else None
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


def _has_unread_floor(group: Document) -> bool:
    """Tell whether the lock's life is new and it does not name its floor: an older release did so.

    A floor that it names and that was not found does not exist.
    """
    return "is_new" in group and not isinstance(group["is_new"], str)


def _with_front(taken: Document, messages: str, counters: str) -> list[Document]:
    """Join what is needed: of the messages behind the first one that is not their events."""
    in_group = {"from": messages, "localField": "_id", "foreignField": "group_id"}
    first = [{"$sort": dict(IN_ORDER)}, {"$limit": 1}]
    front = [{"$sort": dict(IN_ORDER)}, {"$limit": FRONT}, {"$project": PART}]
    floor = {"from": counters, "localField": "is_new", "foreignField": "_id", "as": "floor"}
    return [
        {"$match": taken},
        {"$lookup": {**in_group, "pipeline": first, "as": "first"}},
        {"$lookup": {**in_group, "pipeline": front, "as": "front"}},
        {"$lookup": floor},
    ]
