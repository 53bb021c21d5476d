"""A fresh database with any number of participants on it, whose clock only the test moves."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from fairlane import AsyncMongoTransport
from fairlane.driver import Document
from fairlane.lease.settings import REREAD, Partitioning
from fairlane.testing import ManualClock
from property.footprint import Footprint
from property.judgement import documents, drain, judge
from property.log import Log
from property.lookout import Lookout
from property.memory import MemoryDatabase
from property.participant import VISIBILITY, Participant, Refused
from property.walks import let_walk
from property.wire import PARTS, Conduct, Wire, straight

__all__ = (
    "ALL_PLACES",
    "PLACES",
    "VISIBILITY",
    "MemoryStage",
    "Participant",
    "Refused",
    "ServerStage",
    "Stage",
    "World",
    "documents",
    "drain",
    "judge",
)

Transport = AsyncMongoTransport[Any]

PLACES = ("memory", "memory-old", "motor", "pymongo-old")
"""Where every rule is tried; "old" lacks the commands that not every server has."""
ALL_PLACES = (*PLACES, "motor-old", "pymongo")

START = 1_000_000.0
SETTINGS = {"_id": "settings"}
HOUR = 3_600.0


class World:
    def __init__(self, stage: "Stage", log: Log) -> None:
        self.clock = stage.clock
        self.log = log
        self.lookout = Lookout(stage.locks, stage.clock, log.blame)
        self._stage = stage
        self._joined = 0

    def stop_at_dead_heads(self) -> None:
        """Let a dead head stop its group, before anybody joins."""
        self.log.is_stopped_by_deaths = True

    async def divide(self, partitions: int, *, is_followed: bool = False) -> None:
        """Store another number of partitions, before anybody joins.

        `is_followed`: participants look at the number again when what they know is old.
        """
        await self._stage.divide(partitions, is_followed=is_followed)

    async def join(self, conduct: Conduct = straight) -> Participant:
        """Add a participant, all of whose driver calls are made by `conduct`."""
        transport, wire = await self._stage.transport(self._joined)
        self._joined += 1
        if isinstance(transport, AsyncMongoTransport):
            transport._settler._dead_head = "stop" if self.log.is_stopped_by_deaths else "skip"
        name = f"p{self._joined}"
        wire.conduct = self.lookout.watched(name, conduct)
        return Participant(transport, self.log, name, self.lookout)

    def state(self) -> object:
        """Return what tells this world from others, its log and its documents included."""
        return self.log.state(), self.lookout.state(), self._stage.contents()

    async def judge(self) -> None:
        await self.expect_stats_agree()
        await self.check()

    async def check(self, *, full_repair: bool = False) -> None:
        """Drain everything an hour later and judge the run by the invariants I1 to I5."""
        self.clock.advance(HOUR)
        await judge(self.log, await self.join(), full_repair=full_repair)
        self._stage.leftovers = ("counters", "dead")

    async def expect_stats_agree(self) -> None:
        """Compare the statistics with a count of the documents, while nobody moves.

        Not while something is on its way to the dead letters or back: the statistics complete that,
        and the judge shall find it as it was left.
        """
        locks, letters = await self.stored("locks"), await self.stored("dead")
        if any("dead" in lock for lock in locks) or any(map(_is_on_its_way, letters)):
            return
        stats = await (await self.join()).transport.stats()
        live = await self._live()
        states = Counter(_state(lock, self.clock()) for lock in locks)
        assert (stats.messages, stats.groups) == (len(live), len(locks))
        assert (stats.ready, stats.leased, stats.parked, stats.stopped) == (
            states["ready"],
            states["leased"],
            states["parked"],
            states["stopped"],
        )
        assert stats.dead == len([letter for letter in letters if "redriven_as" not in letter])
        at_front = [message for message in live if message["_id"] < 0]
        oldest = [*at_front[:1], *live[len(at_front) :][:1]]
        ages = [self.clock() - message["published_at"] for message in oldest]
        assert stats.oldest_age == max(ages, default=None)

    async def drain(self, worker: Participant) -> list[int]:
        """Claim and ack until nothing is due; return the events."""
        return await drain(worker)

    async def live_events(self) -> list[int]:
        """Return the events of messages that are not settled, in order of their numbers."""
        return [message["event"] for message in await self._live()]

    async def live_heads(self) -> list[int]:
        """Return the first event of each group that is not settled."""
        groups = {
            self.log.stories[event].group_id: event for event in reversed(await self.live_events())
        }
        return list(groups.values())

    async def stored(self, part: str) -> list[Any]:
        """Return the documents of a collection, as they are."""
        transport, _ = await self._stage.transport(0)
        return await documents(transport, part)

    async def _live(self) -> list[Any]:
        done = {seq for lock in await self.stored("locks") for seq in lock["done"]}
        messages = await self.stored("messages")
        return [message for message in messages if message["_id"] not in done]


def _state(lock: Any, now: float) -> str:
    if lock["available_at"] <= now:
        return "ready"
    if "stopped" in lock:
        return "stopped"
    return "parked" if lock["token"] is None else "leased"


def _is_on_its_way(letter: Any) -> bool:
    return "pending" in letter or "rising" in letter


class Stage(Protocol):
    """Where worlds are set up: a kind of database."""

    clock: ManualClock
    leftovers: tuple[str, ...]
    """Collections that may have documents; the present world may know better."""

    async def fresh(self) -> World:
        """Return a world without documents and with one partition."""

    async def divide(self, partitions: int, *, is_followed: bool) -> None:
        """Store the number of partitions, and let every transport know it."""

    async def transport(self, number: int) -> tuple[Transport, Wire]:
        """Return the transport of the world's participant with this number."""

    def locks(self) -> Sequence[Document]:
        """Return the locks as they are; none where that would take a driver call."""

    def contents(self) -> object:
        """Return all documents in a form that can be compared; None where they cannot be seen."""


class MemoryStage:
    """Worlds in memory. What is done in them can be observed."""

    def __init__(self, *, is_recent: bool) -> None:
        self.clock = ManualClock(START)
        self.leftovers: tuple[str, ...] = PARTS
        self._is_recent = is_recent
        self._is_followed = False
        self._partitions = 1
        self._database = MemoryDatabase()
        self._transports: list[tuple[Transport, Wire]] = []

    async def fresh(self) -> World:
        self.clock.jump(START)
        self._database.clear()
        await self.divide(1, is_followed=False)
        return World(self, Log(self.clock))

    async def divide(self, partitions: int, *, is_followed: bool) -> None:
        self._is_followed, self._partitions = is_followed, partitions
        self._database.divide(partitions)
        for transport, _ in self._transports:
            _keep_time(transport, self.clock if is_followed else None)
            _begin_anew(transport, partitions)

    def locks(self) -> Sequence[Document]:
        return self._database.locks()

    def contents(self) -> object:
        return self._database.contents()

    def observe(self) -> Footprint:
        """Return what was read and written since the last call."""
        footprint, self._database.footprint = self._database.footprint, Footprint()
        return footprint

    async def transport(self, number: int) -> tuple[Transport, Wire]:
        while len(self._transports) <= number:
            transport = self._database.transport(clock=self.clock)
            _keep_time(transport, self.clock if self._is_followed else None)
            self._transports.append(await _wired(transport, is_recent=self._is_recent))
            _begin_anew(transport, self._partitions)
        return self._transports[number]


class ServerStage:
    """Worlds on a server: one after the other, in one database."""

    def __init__(
        self, make: Callable[..., Transport], clock: ManualClock, *, is_recent: bool
    ) -> None:
        self.clock = clock
        self.leftovers: tuple[str, ...] = PARTS
        self._make = make
        self._is_recent = is_recent
        self._is_divided = False
        self._transports: list[tuple[Transport, Wire]] = []

    async def fresh(self) -> World:
        self.clock.jump(START)
        transport, _ = await self.transport(0)
        for part in self.leftovers:
            collection: Any = getattr(transport._store, part)
            await collection._inner.delete_many({"_id": {"$ne": "settings"}})
        self.leftovers = PARTS
        if self._is_divided:
            await self.divide(1, is_followed=False)
            self._is_divided = False
        return World(self, Log(self.clock))

    async def divide(self, partitions: int, *, is_followed: bool) -> None:
        self._is_divided = True
        transport, _ = await self.transport(0)
        counters: Any = transport._store.counters
        await counters._inner.delete_one(SETTINGS)
        await counters._inner.upsert([(SETTINGS, {"$set": {"partitions": partitions}})])
        for each, _ in self._transports:
            _keep_time(each, self.clock if is_followed else None)
            _begin_anew(each, partitions)

    def locks(self) -> Sequence[Document]:
        return ()

    def contents(self) -> object:
        return None

    async def transport(self, number: int) -> tuple[Transport, Wire]:
        while len(self._transports) <= number:
            transport = self._make(clock=self.clock, ensure_indexes=not self._transports)
            self._transports.append(await _wired(transport, is_recent=self._is_recent))
        return self._transports[number]


async def _wired(transport: Transport, *, is_recent: bool) -> tuple[Transport, Wire]:
    await transport._store.ready()
    driver = transport._store.driver
    driver.has_cross_collection_bulk = driver.has_union = driver.has_lookup = is_recent
    let_walk(transport)
    return transport, Wire(transport)


def _keep_time(transport: Transport, clock: ManualClock | None) -> None:
    """Let what the transport knows of the settings age by this clock, or not at all."""
    store: Any = transport._store
    store._monotonic = clock or (lambda: START)


def _begin_anew(transport: Transport, partitions: int) -> None:
    """Let a transport be as one that read the settings when the world began."""
    store: Any = transport._store
    store.partitioning = Partitioning.stored({"partitions": partitions})
    store._reread_at = START + REREAD
    let_walk(transport)
