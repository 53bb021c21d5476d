"""One process in a world. What it does is written to the log, and watched."""

import asyncio
from collections.abc import Sequence
from typing import Any

from fairlane import AsyncMongoTransport, Lease, LeaseLost
from property.log import Log
from property.lookout import Lookout
from property.walks import let_walk, walk_of

__all__ = ("VISIBILITY", "Participant", "Refused")

Transport = AsyncMongoTransport[Any]

VISIBILITY = 30.0


class Refused(Exception):
    """Marks errors of calls of which the server has certainly applied nothing."""


class Participant:
    """One process: its own transport. What it does is written to the log."""

    def __init__(
        self, transport: Transport, log: Log, name: str, lookout: Lookout | None = None
    ) -> None:
        self.transport = transport
        self.name = name
        self._log = log
        self._lookout = lookout or Lookout(tuple, lambda: 0.0, log.blame)

    def walk(self, *, is_backwards: bool) -> None:
        """Begin with the last partition, or with the first one."""
        let_walk(self.transport, is_backwards=is_backwards)

    def memory(self) -> object:
        """Return what the process remembers of its operations, of its own accord."""
        store = self.transport._store
        return store.partitioning, store._reread_at, walk_of(self.transport)

    async def publish(
        self, group_id: str = "g", *, event: int | None = None, **options: Any
    ) -> int:
        """Publish, for the first time unless an event is given, and return the event."""
        if event is None:
            event = self._log.publishing(group_id, self.name)
        self._log.published(event, await self.transport.publish(group_id, event, **options))
        return event

    async def publish_many(self, *group_ids: str) -> list[int]:
        events = self._log.publishing_many(group_ids, self.name)
        seqs = await self.transport.publish_many(list(zip(group_ids, events, strict=True)))
        for event, seq in zip(events, seqs, strict=True):
            self._log.published(event, seq)
        return events

    async def publish_together(self, *group_ids: str) -> list[int]:
        """Publish in several tasks at one time."""
        return await asyncio.gather(*map(self.publish, group_ids))

    async def claim(self, visibility: float = VISIBILITY) -> Lease[Any] | None:
        with self._lookout.claim(self.name) as look:
            lease = await self.transport.claim(self.name, visibility)
            look.returned = [] if lease is None else [lease]
        if lease is not None:
            self._log.delivered(lease, visibility)
        return lease

    async def claimed(self, visibility: float = VISIBILITY) -> Lease[Any]:
        """Claim where there is something to claim."""
        lease = await self.claim(visibility)
        assert lease is not None, "nothing to claim"
        return lease

    async def claim_many(self, n: int, visibility: float = VISIBILITY) -> list[Lease[Any]]:
        with self._lookout.claim(self.name) as look:
            leases = await self.transport.claim_many(self.name, n, visibility)
            look.returned = leases
        for lease in leases:
            self._log.delivered(lease, visibility)
        return leases

    async def ack(self, lease: Lease[Any]) -> bool:
        return await self._settle("ack", lease)

    async def ack_together(self, leases: Sequence[Lease[Any]]) -> list[bool]:
        """Settle in several tasks at one time."""
        return await asyncio.gather(*map(self.ack, leases))

    async def nack(self, lease: Lease[Any], delay: float = 0.0) -> bool:
        return await self._settle("nack", lease, delay)

    async def release(self, lease: Lease[Any]) -> bool:
        return await self._settle("release", lease)

    async def ack_many(self, leases: Sequence[Lease[Any]]) -> list[bool]:
        return await self._settle_many("ack", leases)

    async def nack_many(self, leases: Sequence[Lease[Any]], delay: float = 0.0) -> list[bool]:
        return await self._settle_many("nack", leases, delay)

    async def dead_letter(self, lease: Lease[Any]) -> bool:
        return await self._settle("dead_letter", lease, "because")

    async def extend(self, lease: Lease[Any], visibility: float = VISIBILITY) -> bool:
        try:
            self._log.extended(await self.transport.extend(lease, visibility))
        except LeaseLost as error:
            self._log.lost(error)
            return False
        return True

    async def redrive(self) -> int:
        self._log.redriving()
        number = await self.transport.redrive()
        self._log.redriven(number)
        return number

    async def resume(self, group_id: str = "g") -> bool:
        return await self.transport.resume(group_id)

    async def repair(self, *, full: bool = False) -> None:
        await self.transport.repair(full=full)

    async def dead_events(self) -> list[int]:
        events = [letter.event async for letter in self.transport.dead_letters()]
        return [event for event in events if event is not None]

    async def waiting_events(self, group_id: str = "g") -> list[int]:
        return [message.event for message in await self.transport.peek(group_id, 100)]

    async def repartition(self, partitions: int) -> None:
        await self.transport.repartition(partitions)

    async def reconcile(self) -> int:
        return await self.transport.reconcile()

    async def _settle(self, verb: str, lease: Lease[Any], *args: Any) -> bool:
        self._log.settling(verb, lease)
        try:
            is_accepted: bool = await getattr(self.transport, verb)(lease, *args)
        except Refused:
            self._log.not_settled(verb, lease)
            raise
        self._settled(verb, lease, is_accepted)
        return is_accepted

    async def _settle_many(self, verb: str, leases: Sequence[Lease[Any]], *args: Any) -> list[bool]:
        """Settle in one bulk. One that is refused may have been applied in part."""
        for lease in leases:
            self._log.settling(verb, lease)
        told: list[bool] = await getattr(self.transport, f"{verb}_many")(leases, *args)
        for lease, is_accepted in zip(leases, told, strict=True):
            self._settled(verb, lease, is_accepted)
        return told

    def _settled(self, verb: str, lease: Lease[Any], is_accepted: bool) -> None:
        self._log.settled(verb, lease, is_accepted)
        self._lookout.expect_over(lease)
