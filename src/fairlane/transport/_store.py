"""Where one transport keeps its documents: collections, settings, sequence and server time."""

import asyncio

from bson.int64 import Int64
from pymongo.errors import DuplicateKeyError

from fairlane import schema
from fairlane.clock import Clock, ServerClock
from fairlane.driver import Delete, Document, Driver, Insert, Upsert, Write
from fairlane.errors import ConfigurationError
from fairlane.lease import commands
from fairlane.payload import stored
from fairlane.transport._indexes import ensure_index

__all__ = ("Store",)

TRIES = 5


class Store:
    """The collections of one transport and what all its operations share."""

    def __init__(
        self,
        driver: Driver,
        *,
        db_name: str,
        prefix: str,
        clock: Clock | None,
        partitions: int | None,
        ensure_indexes: bool,
    ) -> None:
        self.driver = driver
        self.clock = ServerClock() if clock is None else clock
        self.messages = driver.collection(db_name, f"{prefix}_messages")
        self.locks = driver.collection(db_name, f"{prefix}_locks")
        self.counters = driver.collection(db_name, f"{prefix}_counters")
        self.dead = driver.collection(db_name, f"{prefix}_dead")
        self.partitions = 1
        self._wanted_partitions = partitions
        self._ensure_indexes = ensure_indexes
        self._is_ready = False
        self._starting = asyncio.Lock()
        if isinstance(self.clock, ServerClock):
            driver.on_disconnect = self.clock.expire

    async def ready(self) -> None:
        """Learn the server's time, the settings and the indexes, once; a failure is not kept."""
        if self._is_ready:
            return
        async with self._starting:
            if self._is_ready:
                return
            await self._learn_server()
            await self._learn_settings()
            if self._ensure_indexes:
                await self.ensure_indexes()
            self._is_ready = True

    async def now(self) -> float:
        """Return the server's time in epoch seconds, asking the server again when it is due."""
        if isinstance(self.clock, ServerClock) and self.clock.is_due:
            await self.clock.refresh(self.driver.server_time)
        return self.clock()

    async def reserve(self, number: int) -> int:
        """Return the first of `number` new sequence numbers. Numbers of failed calls are lost."""
        for _ in range(TRIES):
            counter = await self._count_up(number)
            if counter is not None:
                return int(counter["n"]) - number + 1
        raise ConfigurationError(
            f"the counter in {self.counters.name!r} could not be created in {TRIES} tries"
        )

    async def ensure_indexes(self) -> None:
        for collection, models in (
            (self.messages, schema.MESSAGE_INDEXES),
            (self.locks, schema.LOCK_INDEXES),
            (self.dead, schema.DEAD_INDEXES),
        ):
            for model in models:
                await ensure_index(collection, model)

    def insertion(self, message: Document) -> Insert:
        """Return the write that stores a message."""
        return Insert(self.messages, stored(message, as_bytes=self.driver.keeps_bytes))

    def readying(
        self, group_id: str, *, seq: int, messages: int, priority: int, available_at: float
    ) -> Upsert:
        """Return the write that makes a group claimable after `messages` were inserted."""
        ready = commands.readied(
            seq=seq,
            messages=messages,
            priority=priority,
            partition=schema.partition_of(group_id, self.partitions),
            available_at=available_at,
        )
        return Upsert(self.locks, {"_id": group_id}, ready)

    def deletion(self, seq: int, redriven_from: int | None) -> list[Write]:
        """Return the writes that delete a settled message.

        Race: a redrive that was interrupted, and goes on now, inserts the message again. What it
        inserts is not delivered without its dead letter (`DeadLetters`), which goes first.
        """
        message = Delete(self.messages, {"_id": seq})
        if redriven_from is None:
            return [message]
        return [Delete(self.dead, {"_id": redriven_from, "redriven_as": seq}), message]

    async def clear(self) -> None:
        """Delete locks before messages: a publish in between leaves a lock, which heals itself.

        The counter stays, so that sequence numbers go on growing.
        """
        for collection in (self.locks, self.messages, self.dead):
            await collection.delete_many({})

    async def drop(self) -> None:
        for collection in (self.locks, self.messages, self.dead, self.counters):
            await collection.drop()
        self._is_ready = False

    async def _learn_server(self) -> None:
        if isinstance(self.clock, ServerClock):
            await self.clock.refresh(self.driver.server_time)
        else:
            await self.driver.server_time()

    async def _learn_settings(self) -> None:
        default = {"$setOnInsert": {"partitions": self.partitions}}
        await self.counters.upsert([({"_id": "settings"}, default)])
        stored = await self.counters.find_one({"_id": "settings"}) or {}
        partitions = stored.get("partitions", 1)
        if partitions != (self._wanted_partitions or self.partitions):
            raise ConfigurationError(
                f"the transport in {self.counters.name!r} has partitions={partitions!r}, "
                f"this program wants {self._wanted_partitions or self.partitions}"
            )

    async def _count_up(self, number: int) -> Document | None:
        try:
            return await self.counters.find_one_and_update(
                {"_id": "seq"}, {"$inc": {"n": Int64(number)}}, upsert=True
            )
        except DuplicateKeyError:  # two upserts created it at once; it is there now
            return None
