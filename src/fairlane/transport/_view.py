"""Statistics and a look into a group. Counting the dead finishes their interrupted moves first."""

from collections import Counter
from typing import Generic, TypeVar

from fairlane import schema
from fairlane.driver import Document
from fairlane.model import Message, TransportStats
from fairlane.payload import Payload
from fairlane.transport._dead import DeadLetters
from fairlane.transport._store import Store

__all__ = ("View",)

E = TypeVar("E")

CHUNK = 1_000


class View(Generic[E]):
    def __init__(self, store: Store, payload: Payload[E], dead: DeadLetters[E]) -> None:
        self._store = store
        self._payload = payload
        self._dead = dead

    async def peek(self, group_id: str, limit: int) -> list[Message[E]]:
        lock = await self._store.locks.find_one({"_id": group_id}, {"done": 1}) or {}
        documents = await self._store.messages.find(
            {"group_id": group_id, "_id": {"$nin": lock.get("done") or []}},
            sort=[("_id", 1)],
            limit=limit,
        )
        return [self._payload.message(document) for document in documents]

    async def stats(self) -> TransportStats:
        dead = await self._dead.count()
        now = await self._store.now()
        rows = await self._store.locks.aggregate(_states(now))
        states: Counter[str] = Counter()
        for row in rows:
            states[row["_id"]["state"]] += row["n"]
        undeleted = await self._undeleted()
        return TransportStats(
            groups=states.total(),
            ready=states["ready"],
            leased=states["leased"],
            parked=states["parked"],
            stopped=states["stopped"],
            messages=await self._store.messages.count(_beside(undeleted)),
            dead=dead,
            oldest_age=await self._oldest_age(now, undeleted),
            ready_by_priority={
                row["_id"]["priority"]: row["n"]
                for row in sorted(rows, key=lambda row: -row["_id"]["priority"])
                if row["_id"]["state"] == "ready"
            },
        )

    async def _undeleted(self) -> set[int]:
        """Return the settled messages whose documents still exist."""
        done: list[int] = []
        async for lock in self._store.locks.each(
            {"done.0": {"$exists": True}}, sort=[("_id", 1)], fields={"done": 1}
        ):
            done.extend(lock["done"])
        found: set[int] = set()
        for start in range(0, len(done), CHUNK):
            match = {"_id": {"$in": done[start : start + CHUNK]}}
            async for message in self._store.messages.each(
                match, sort=[("_id", 1)], fields={"_id": 1}
            ):
                found.add(message["_id"])
        return found

    async def _oldest_age(self, now: float, undeleted: set[int]) -> float | None:
        """Numbers grow with time, those of messages that came back to the front apart."""
        known = [
            published_at
            for numbers in ({"$lt": 0}, {"$gte": 0})
            for first in await self._store.messages.find(
                {"_id": {**numbers, "$nin": list(undeleted)}},
                sort=[("_id", 1)],
                limit=1,
                fields={"published_at": 1},
            )
            if (published_at := schema.published_at(first)) is not None
        ]
        return max(0.0, now - min(known)) if known else None


def _beside(undeleted: set[int]) -> Document:
    """Match all messages but these.

    Race: one of them is deleted meanwhile: to subtract them would leave out another one.
    """
    return {"_id": {"$nin": list(undeleted)}} if undeleted else {}


def _states(now: float) -> list[Document]:
    """Count locks by state and priority. An expired lease counts as ready: it can be claimed."""
    waiting = {"$cond": [_is_there("$token"), "leased", "parked"]}
    resting = {"$cond": [_is_there("$stopped"), "stopped", waiting]}
    state = {"$cond": [{"$lte": ["$available_at", now]}, "ready", resting]}
    priority = {"$ifNull": ["$priority", 0]}
    return [
        {"$project": {"state": state, "priority": priority}},
        {"$group": {"_id": {"state": "$state", "priority": "$priority"}, "n": {"$sum": 1}}},
    ]


def _is_there(field: str) -> Document:
    return {"$ne": [{"$ifNull": [field, None]}, None]}
