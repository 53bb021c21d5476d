"""The transport protocol of the original design, to the letter: known defects and all.

It is kept as a subject that exploration must convict (`test_known_defects`). Nothing is corrected:
token checks are reads that come before the writes they guard, a drained group's lock is removed
whatever was published meanwhile, time is the client's own. Where the design says only "fenced",
the reading that is kinder to it is taken: the token is checked first and in the lock's filter too.
"""

import json
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from fairlane.clock import Clock

__all__ = ("SeedLease", "SeedProtocol")


@dataclass(frozen=True, slots=True)
class SeedLease:
    seq: int
    group_id: str
    event: Any
    token: str


class SeedProtocol:
    """Publish, claim, ack and nack over the three collections of the original design.

    Its ack and nack return nothing. Here they return whether they got past the token check, so that
    a silent return can be told from a settlement that was accepted.
    """

    def __init__(self, messages: Any, locks: Any, counters: Any, *, clock: Clock) -> None:
        self._messages = messages
        self._locks = locks
        self._counters = counters
        self._clock = clock

    async def publish(self, group_id: str, event: Any, priority: int = 0) -> int:
        seq = await self._next_seq()
        message = {"_id": seq, "group_id": group_id, "event": json.dumps(event)}
        await self._messages.insert([message])
        ready = {"available_at": 0.0, "token": None, "priority": priority}
        await self._locks.upsert([({"_id": group_id}, {"$setOnInsert": ready})])
        return seq

    async def claim(
        self, worker_id: str, visibility: float, min_priority: int = 0
    ) -> SeedLease | None:
        while True:
            token = f"{worker_id}:{uuid4()}"
            now = self._clock()
            leased = await self._locks.find_one_and_update(
                {"available_at": {"$lte": now}, "priority": {"$gte": min_priority}},
                {"$set": {"token": token, "available_at": now + visibility}},
                sort=[("available_at", 1)],
            )
            if leased is None:
                return None
            group_id = leased["_id"]
            head = await self._messages.find({"group_id": group_id}, sort=[("_id", 1)], limit=1)
            if not head:
                await self._locks.delete_one({"_id": group_id, "token": token})
                continue
            return SeedLease(head[0]["_id"], group_id, json.loads(head[0]["event"]), token)

    async def ack(self, lease: SeedLease) -> bool:
        if not await self._owns(lease):
            return False
        await self._messages.delete_one({"_id": lease.seq})
        held = {"_id": lease.group_id, "token": lease.token}
        if await self._messages.find_one({"group_id": lease.group_id}):
            ready = {"available_at": self._clock(), "token": None}
            await self._locks.update_one(held, {"$set": ready})
        else:
            await self._locks.delete_one(held)
        return True

    async def nack(self, lease: SeedLease, delay: float = 0.0) -> bool:
        if not await self._owns(lease):
            return False
        if delay > 0:
            change: dict[str, Any] = {"available_at": self._clock() + delay}
        else:
            change = {"available_at": 0.0, "token": None}
        await self._locks.update_one(
            {"_id": lease.group_id, "token": lease.token}, {"$set": change}
        )
        return True

    async def _owns(self, lease: SeedLease) -> bool:
        lock = await self._locks.find_one({"_id": lease.group_id})
        return lock is not None and lock["token"] == lease.token

    async def _next_seq(self) -> int:
        counter = await self._counters.find_one_and_update(
            {"_id": "seq"}, {"$inc": {"n": 1}}, upsert=True
        )
        return int(counter["n"])
