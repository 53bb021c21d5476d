"""The two protocols that are put to the same scenes: the original design's and the product's.

Both stages set up worlds in memory whose participants may be on machines with a wrong clock.
"""

import itertools
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Protocol

from fairlane import AsyncMongoTransport, DeadLetter, Lease
from fairlane.clock import ServerClock
from fairlane.driver import Document
from fairlane.testing import ManualClock
from property.log import Log
from property.memory import MemoryDatabase
from property.seed_protocol import SeedLease, SeedProtocol
from property.wire import PARTS, Wire
from property.world import START, MemoryStage, Participant, Stage, World

__all__ = ("ProductStage", "SeedStage", "SubjectStage")


class SubjectStage(Stage, Protocol):
    async def set_wall(self, participant: Participant, ahead: float) -> None:
        """Put the participant on a machine whose own clock is ahead by so many seconds."""


class ProductStage(MemoryStage):
    async def set_wall(self, participant: Participant, ahead: float) -> None:
        """Let the transport keep time as it does where no clock is injected."""
        clock = ServerClock(monotonic=self.clock, wall=lambda: self.clock() + ahead)
        await clock.refresh(self._server_time)
        store: Any = participant.transport._store
        store.clock, store.driver.server_time = clock, self._server_time
        transport: Any = ProductTransport(participant.transport, self.clock)
        participant.transport = transport

    async def _server_time(self) -> float:
        return self.clock()


class ProductTransport:
    """The product, whose leases end by the true time here, whatever it takes for the time."""

    def __init__(self, transport: AsyncMongoTransport[Any], clock: ManualClock) -> None:
        self._transport = transport
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    async def claim(self, worker_id: str, visibility: float) -> Lease[Any] | None:
        lease = await self._transport.claim(worker_id, visibility)
        if lease is None:
            return None
        error = self._transport._store.clock() - self._clock()
        return replace(lease, expires_at=lease.expires_at - error)


class SeedTransport:
    """The original protocol as a `Participant`, and the judge of a `World`, would have it.

    Its leases get what the log looks at and the original lacks: attempts and epochs that are never
    wrong, and the end of the lease by the true time, which the original does not know.
    """

    def __init__(self, database: MemoryDatabase, clock: ManualClock, epochs: Iterator[int]) -> None:
        self.ahead = 0.0
        self._clock = clock
        self._claimed_at = 0.0
        self._epochs = epochs
        parts = {part: database.collection(f"fairlane_{part}") for part in PARTS}
        self._store = SimpleNamespace(**parts, driver=SimpleNamespace(client=database))
        transport: Any = self
        self.wire = Wire(transport)
        self._protocol = SeedProtocol(
            self._store.messages, self._store.locks, self._store.counters, clock=self._wall
        )

    async def publish(self, group_id: str, event: int) -> int:
        return await self._protocol.publish(group_id, event)

    async def claim(self, worker_id: str, visibility: float) -> Lease[Any] | None:
        lease = await self._protocol.claim(worker_id, visibility)
        return None if lease is None else self._judged(lease, visibility)

    async def ack(self, lease: Lease[Any]) -> bool:
        return await self._protocol.ack(_original(lease))

    async def nack(self, lease: Lease[Any], delay: float = 0.0) -> bool:
        return await self._protocol.nack(_original(lease), delay)

    async def repair(self, *, full: bool = False) -> None:
        """Do nothing: the original has no repair."""

    async def dead_letters(self) -> AsyncIterator[DeadLetter[Any]]:
        """Yield nothing: the original has no dead letters."""
        letters: tuple[DeadLetter[Any], ...] = ()
        for letter in letters:
            yield letter

    def _wall(self) -> float:
        self._claimed_at = self._clock()
        return self._claimed_at + self.ahead

    def _judged(self, lease: SeedLease, visibility: float) -> Lease[Any]:
        return Lease(
            group_id=lease.group_id,
            seq=lease.seq,
            event=lease.event,
            token=lease.token,
            priority=0,
            attempt=1,
            epoch=next(self._epochs),
            expires_at=self._claimed_at + visibility,
        )


class SeedStage:
    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.leftovers: tuple[str, ...] = ()
        self._database = MemoryDatabase()
        self._epochs = itertools.count(1)
        self._transports: list[SeedTransport] = []

    async def fresh(self) -> World:
        self.clock.jump(START)
        self._database.clear()
        return World(self, Log(self.clock))

    async def transport(self, number: int) -> tuple[Any, Wire]:
        while len(self._transports) <= number:
            self._transports.append(SeedTransport(self._database, self.clock, self._epochs))
        transport = self._transports[number]
        return transport, transport.wire

    async def divide(self, partitions: int, *, is_followed: bool) -> None:
        """Do nothing: the original has no partitions."""

    def locks(self) -> Sequence[Document]:
        """Return nothing: what the original's claims overlook is judged in the end."""
        return ()

    def contents(self) -> object:
        return None

    async def set_wall(self, participant: Participant, ahead: float) -> None:
        transport: Any = participant.transport
        transport.ahead = ahead


def _original(lease: Lease[Any]) -> SeedLease:
    return SeedLease(lease.seq, lease.group_id, lease.event, lease.token)
