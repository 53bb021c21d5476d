"""Where one transport keeps its documents: collections and their indexes, and the sequence."""

from collections.abc import Mapping

from bson.int64 import Int64
from pymongo.errors import DuplicateKeyError

from fairlane import schema
from fairlane.driver import Collection, Delete, Document, Driver, Insert, Upsert, Write
from fairlane.errors import ConfigurationError
from fairlane.lease.indexes import ensure_index
from fairlane.lease.site import Setup, Site
from fairlane.payload import stored
from fairlane.transport import _group_commands

__all__ = ("Store",)

TRIES = 5


class Store(Site):
    """The collections of one transport and what all its operations share."""

    def __init__(self, driver: Driver, setup: Setup) -> None:
        super().__init__(driver, setup)
        self.messages = driver.collection(setup.db_name, f"{setup.prefix}_messages")
        self.locks = driver.collection(setup.db_name, f"{setup.prefix}_locks")
        self.dead = driver.collection(setup.db_name, f"{setup.prefix}_dead")

    @property
    def leased(self) -> Collection:
        return self.locks

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
        if await self.leaser.needs_token_index():
            await ensure_index(self.locks, schema.TOKEN_INDEX)

    def insertion(self, message: Document) -> Insert:
        """Return the write that stores a message."""
        return Insert(self.messages, stored(message, as_bytes=self.driver.keeps_bytes))

    def readying(
        self, group_id: str, *, seq: int, messages: int, priority: int, available_at: float
    ) -> Upsert:
        """Return the write that makes a group claimable after `messages` were inserted."""
        ready = _group_commands.readied(
            group_id,
            seq=seq,
            messages=messages,
            priority=priority,
            partition=self.partition_of(group_id),
            available_at=available_at,
        )
        return Upsert(self.locks, {"_id": group_id}, ready)

    def deletions(self, settled: Mapping[int, int | None]) -> list[Write]:
        """Return the writes that delete settled messages, each with the dead letter that it was.

        Race: a redrive that was interrupted, and goes on now, inserts the message again. What it
        inserts is not delivered without its dead letter (`DeadLetters`), which goes first.
        """
        letters: list[Write] = [
            Delete(self.dead, {"_id": redriven_from, "redriven_as": seq})
            for seq, redriven_from in settled.items()
            if redriven_from is not None
        ]
        return letters + [Delete(self.messages, {"_id": seq}) for seq in settled]

    async def clear(self) -> None:
        """Delete locks before messages: a publish in between leaves a lock, which heals itself.

        The counter stays, so that sequence numbers go on growing.
        """
        for collection in (self.locks, self.messages, self.dead):
            await collection.delete_many({})

    async def drop(self) -> None:
        for collection in (self.locks, self.messages, self.dead):
            await collection.drop()
        await self.drop_counters("^(?!settings:)")

    async def _count_up(self, number: int) -> Document | None:
        try:
            return await self.counters.find_one_and_update(
                {"_id": "seq"}, {"$inc": {"n": Int64(number)}}, upsert=True
            )
        except DuplicateKeyError:  # two upserts created it at once; it is there now
            return None
