"""Groups that a dead message stops: which one it is, and what lets them go on.

A death stops its group in the write that decides it (`_group_commands.settled`): `available_at` is
infinite then, so that no claim finds the group, and `stopped` names the message. The lock stays
until the group goes on, whatever is behind the message.
"""

from collections.abc import Iterable
from typing import Any, Literal, get_args

from fairlane.driver import Document
from fairlane.transport import _group_commands
from fairlane.transport._store import Store

__all__ = ("DEAD_HEADS", "DeadHead", "Stops")

DeadHead = Literal["skip", "stop"]
"""What a group does without a message that died: go on with the next one, or wait for it."""

DEAD_HEADS: tuple[DeadHead, ...] = get_args(DeadHead)


class Stops:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def resume(self, group_id: str) -> bool:
        """Let a group go on without the message that stops it; False if none does."""
        return await self._free(_group_commands.stops(group_id))

    async def end(self, letter: Any) -> None:
        """Let the group go on that this letter stops, if it does, now that its message is back."""
        if letter.get("stops"):
            await self._free(_group_commands.stopped_by(letter["group_id"], letter["_id"]))

    async def is_stopping(self, letter: Any) -> bool:
        return letter["_id"] in await self.among([letter])

    async def among(self, letters: Iterable[Any]) -> set[int]:
        """Return the numbers of those letters that stop their groups now.

        A letter that has once stopped its group says so; the lock tells whether it still does.
        """
        groups = [letter["group_id"] for letter in letters if letter.get("stops")]
        if not groups:
            return set()
        match: Document = {"_id": {"$in": groups}, "stopped": {"$exists": True}}
        locks = self._store.locks.each(match, sort=[("_id", 1)], fields={"stopped": 1})
        return {lock["stopped"] async for lock in locks}

    async def _free(self, match: Document) -> bool:
        now = await self._store.now()
        return await self._store.locks.update_one(match, _group_commands.resumed(now=now))
