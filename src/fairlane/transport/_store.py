"""Where one transport keeps its documents: collections, settings, sequence and server time."""

import asyncio
import logging
from collections.abc import Mapping

from bson.int64 import Int64
from pymongo.errors import DuplicateKeyError

from fairlane import schema
from fairlane.clock import Clock, ServerClock, uptime
from fairlane.driver import Delete, Document, Driver, Insert, Upsert, Write
from fairlane.errors import ConfigurationError
from fairlane.lease.settings import REREAD, Partitioning, Settings
from fairlane.lease.strategy import Leaser, Strategy
from fairlane.payload import stored
from fairlane.transport import _group_commands
from fairlane.transport._indexes import ensure_index

__all__ = ("Store",)

TRIES = 5

logger = logging.getLogger(__name__)


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
        strategy: Strategy,
        ensure_indexes: bool,
        monotonic: Clock = uptime,
    ) -> None:
        self.driver = driver
        self.clock = ServerClock() if clock is None else clock
        self.messages = driver.collection(db_name, f"{prefix}_messages")
        self.locks = driver.collection(db_name, f"{prefix}_locks")
        self.counters = driver.collection(db_name, f"{prefix}_counters")
        self.dead = driver.collection(db_name, f"{prefix}_dead")
        self.leaser = Leaser(driver, strategy)
        self.partitioning = Partitioning()
        self._settings = Settings(partitions)
        self._monotonic = monotonic
        self._reread_at = 0.0
        self._ensure_indexes = ensure_indexes
        self._is_ready = False
        self._starting = asyncio.Lock()
        driver.on_disconnect = self._disconnected

    async def ready(self) -> None:
        """Learn the server's time, the settings and the indexes, once; a failure is not kept.

        The settings are read again when they are `REREAD` seconds old.
        """
        if self._is_ready and self._monotonic() < self._reread_at:
            return
        async with self._starting:
            if not self._is_ready:
                await self._start()
            elif self._monotonic() >= self._reread_at:
                await self.reread_settings()

    async def reread_settings(self) -> None:
        """Learn what the settings say by now; a change is followed, whatever was asked for."""
        asked_at = self._monotonic()
        self._follow(await self._settings.read(self.counters), asked_at)

    async def change_partitions(self, partitions: int) -> Partitioning:
        """Change the settings for all programs and return what they say now."""
        asked_at = self._monotonic()
        changed = await self._settings.change(self.counters, partitions, now=await self.now())
        self._follow(changed, asked_at)
        return changed

    async def narrow(self) -> None:
        """Let claimers stop looking where nothing is any more."""
        if self.partitioning.may_narrow(await self.now()):
            asked_at = self._monotonic()
            narrowed = await self._settings.narrow(self.counters, self.partitioning)
            self._follow(narrowed, asked_at)

    def partition_of(self, group_id: str) -> int:
        return schema.partition_of(group_id, self.placing())

    def placing(self) -> int:
        """Return the number of partitions into which groups are put at the moment."""
        return self.partitioning.placing(self.clock())

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
        for collection in (self.locks, self.messages, self.dead, self.counters):
            await collection.drop()
        self._is_ready = False

    async def _start(self) -> None:
        await self._learn_server()
        asked_at = self._monotonic()
        self._follow(await self._settings.learn(self.counters), asked_at)
        if self._ensure_indexes:
            await self.ensure_indexes()
        await self.leaser.detect(self.locks)
        self._is_ready = True

    def _follow(self, found: Partitioning, asked_at: float) -> None:
        if self._is_ready and found.partitions != self.partitioning.partitions:
            logger.warning(
                "the number of partitions in %r was changed from %d to %d",
                *(self.counters.name, self.partitioning.partitions, found.partitions),
            )
        self.partitioning = found
        self._reread_at = asked_at + REREAD

    def _disconnected(self) -> None:
        if isinstance(self.clock, ServerClock):
            self.clock.expire()
        self.leaser.forget()

    async def _learn_server(self) -> None:
        if isinstance(self.clock, ServerClock):
            await self.clock.refresh(self.driver.server_time)
        else:
            await self.driver.server_time()

    async def _count_up(self, number: int) -> Document | None:
        try:
            return await self.counters.find_one_and_update(
                {"_id": "seq"}, {"$inc": {"n": Int64(number)}}, upsert=True
            )
        except DuplicateKeyError:  # two upserts created it at once; it is there now
            return None
