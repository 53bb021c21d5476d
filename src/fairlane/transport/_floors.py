"""Floors: what keeps epochs growing from one life of a group to the next.

A life begins at an epoch made from the sequence number of the publish that made the lock. That
number may be old: others may have published, and a whole life of the group may have passed, since
it was reserved. So whoever removes a lock first raises the floor of its bucket of groups to the
lock's epoch, and the first lease of a life is lifted above the floor.

(A fresh number from the counter would do as well, for two more commands at the first lease of each
life.)
"""

from bson.int64 import Int64

from fairlane import schema
from fairlane.driver import Upsert
from fairlane.schema import EPOCH_STEP
from fairlane.transport._store import Store

__all__ = ("Floors",)


class Floors:
    def __init__(self, store: Store) -> None:
        self._store = store

    def raised(self, group_id: str, epoch: int) -> Upsert:
        """Return the write that must come before the removal of a lock with this epoch."""
        match = {"_id": schema.floor_id(group_id)}
        return Upsert(self._store.counters, match, {"$max": {"n": Int64(epoch)}})

    async def raise_all(self) -> None:
        """Raise the floors of all locks above all epochs handed out: they are to be removed."""
        locks = self._store.locks.each({}, sort=[("_id", 1)], fields={"_id": 1})
        ids = {schema.floor_id(lock["_id"]) async for lock in locks}
        if ids:
            epoch = Int64(await self._store.reserve(1) * EPOCH_STEP)
            raised = {"$max": {"n": epoch}}
            await self._store.counters.upsert([({"_id": each}, raised) for each in sorted(ids)])
