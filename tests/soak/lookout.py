"""Looks, while everything goes on, for groups that have messages and no lock (I5).

Such a group is stranded until the next publish to it, or until a repair: at the end of a soak
nothing would tell of it any more.
"""

import asyncio
from contextlib import suppress
from typing import Any

from pymongo.errors import PyMongoError

from soak.publishing import Publishing
from soak.troubles import is_over_within

__all__ = ("Lookout",)

LOOK_EVERY = 0.3


class Lookout:
    """Looks again and again.

    Attributes:
        unlocked: the groups that had no lock.
    """

    def __init__(self, database: Any, publishing: Publishing) -> None:
        self._messages = database.fairlane_messages
        self._locks = database.fairlane_locks
        self._publishing = publishing
        self._returned: set[int] = set()
        self.unlocked: set[str] = set()

    async def go_on(self, over: asyncio.Event) -> None:
        while not await is_over_within(over, LOOK_EVERY):
            with suppress(PyMongoError):  # the look was refused, as others are
                await self.look()

    async def look(self) -> None:
        """Find messages that are there before and after their group has no lock.

        A lock goes after the messages of its group. It comes after them as well, so only a publish
        that has returned counts.
        """
        published = self._publishing.published
        self._returned.update(event.seq for event in published[len(self._returned) :])
        before = await self._groups()
        locked = {lock["_id"] async for lock in self._locks.find({}, {"_id": 1})}
        after = await self._groups()
        stayed = self._returned & before.keys() & after.keys()
        self.unlocked |= {before[seq] for seq in stayed} - locked

    async def _groups(self) -> dict[int, str]:
        """Return the group of each stored message."""
        found = self._messages.find({}, {"group_id": 1})
        return {message["_id"]: message["group_id"] async for message in found}
