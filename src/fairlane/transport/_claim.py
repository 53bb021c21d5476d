"""Claim: lease the group that has waited longest, read its head, hand it out."""

import logging
from enum import Enum
from typing import Generic, TypeVar
from uuid import uuid4

from bson.errors import InvalidBSON
from pymongo.errors import PyMongoError

from fairlane.driver import Document
from fairlane.errors import describe
from fairlane.lease import commands
from fairlane.lease.sweep import Sweeps
from fairlane.model import Lease, Message, Seen
from fairlane.payload import Payload
from fairlane.shield import finish
from fairlane.transport import _group_commands
from fairlane.transport._dead import Burial, DeadLetters
from fairlane.transport._floors import Floors
from fairlane.transport._head import Head
from fairlane.transport._reading import GroupReader
from fairlane.transport._settle import Settler
from fairlane.transport._store import Store

__all__ = ("Claimer",)

E = TypeVar("E")
logger = logging.getLogger(__name__)

BLOCKED = 60.0
"""Seconds for which a group rests whose dead letter cannot be stored."""

MAX_LATE = 20
"""So many leases in a row that came too late mean that the visibility is shorter than a claim."""


class Skipped(Enum):
    """Why an attempt that leased a group has nothing to hand out."""

    EMPTY = "the group had no message to deliver"
    LATE = "less than half of the visibility was left"


class Claimer(Generic[E]):
    def __init__(
        self,
        store: Store,
        payload: Payload[E],
        *,
        floors: Floors,
        settler: Settler,
        burial: Burial,
        dead: DeadLetters[E],
    ) -> None:
        self._store = store
        self._payload = payload
        self._floors = floors
        self._settler = settler
        self._burial = burial
        self._dead = dead
        self._reader = GroupReader(store)
        self._sweeps = Sweeps()

    async def claim(
        self, worker_id: str, visibility: float, min_priority: int, order: commands.Order
    ) -> Lease[E] | None:
        """Lease one group and return its head; None if no group is due in any partition.

        A cancelled claim gives back what it leased, before the cancellation goes on.
        """
        late = 0
        with self._sweeps.one(self._store.partitioning.span) as sweep:
            while late < MAX_LATE:
                partition = sweep.next()
                attempt = self._attempt(partition, worker_id, visibility, min_priority, order)
                found = await finish(attempt, undo=self._give_back)
                if isinstance(found, Lease):
                    return found
                if found is None:
                    sweep.miss(partition)
                    if sweep.is_complete:
                        return None
                else:
                    sweep.hit()
                    late += found is Skipped.LATE
        logger.warning("a claim takes longer than half of visibility=%g s", visibility)
        return None

    async def without_late(self, leases: list[Lease[E]], visibility: float) -> list[Lease[E]]:
        """Return the leases that may still be handed out together; give the others back."""
        fresh = []
        for lease in leases:
            if await self._is_fresh(lease, visibility):
                fresh.append(lease)
            else:
                await self._give_back(lease)
        return fresh

    async def _attempt(
        self,
        partition: int,
        worker_id: str,
        visibility: float,
        min_priority: int,
        order: commands.Order,
    ) -> Lease[E] | Skipped | None:
        now = await self._store.now()
        group = await self._store.leaser.lease(
            self._store.locks,
            _group_commands.claimable(partition=partition, min_priority=min_priority, now=now),
            token=f"{worker_id}:{uuid4().hex}",
            now=now,
            until=now + visibility,
            sort=commands.order_by(order),
            read_back=self._reader.read_back,
        )
        if group is None:
            return None
        group["leased_at"] = now
        try:
            lease = await self._head_of(group)
            if lease is None:
                return Skipped.EMPTY
            if await self._is_fresh(lease, visibility):
                return lease
        except BaseException:  # whatever it is, the group need not wait for its visibility to pass
            await self._free(group["_id"], group["token"])
            raise
        await self._give_back(lease)
        return Skipped.LATE

    async def _head_of(self, group: Document) -> Lease[E] | None:
        if "dead" in group and not await self._burial.try_complete(group["_id"], group["dead"]):
            await self._free(group["_id"], group["token"], delay=BLOCKED)
            return None
        head, floor = await self._reader.read(group)
        for settled in head.deletable:
            deletion = self._store.deletion(settled["_id"], settled.get("redriven_from"))
            await self._store.driver.write_in_order(deletion)
        if head.message is None:
            await self._abandon(group)
            return None
        if not await self._dead.is_live(head.message):
            await self._skip(group, head.message)
            return None
        if not await self._correct(group, head.message["_id"], floor):
            return None
        return await self._decoded_lease(group, head, head.message)

    async def _correct(self, group: Document, seq: int, floor: int | None) -> bool:
        """Put right what the lease found wrong in the lock; False if the lease is lost."""
        wrong = _group_commands.corrections(group, seq=seq, floor=floor)
        if not wrong:
            return True
        group.update(wrong)
        match = commands.held(group["_id"], group["token"])
        return await self._store.locks.update_one(match, {"$set": wrong})

    async def _decoded_lease(
        self, group: Document, head: Head, document: Document
    ) -> Lease[E] | None:
        try:
            if "group_id" not in document:  # it could not be read together with the others
                document = await self._store.messages.find_one({"_id": document["_id"]}) or document
        except InvalidBSON as error:
            await self._refuse(group, head, document, error)
            return None
        try:
            message = self._payload.message(document)
        except Exception as error:  # whatever a codec may raise
            await self._refuse(group, head, document, error)
            return None
        return _lease(group, message, head)

    async def _refuse(
        self, group: Document, head: Head, document: Document, error: Exception
    ) -> None:
        """Move a message that cannot be decoded to the dead letters, and let its group go on."""
        reason = f"cannot be decoded: {describe(error)}"
        message: Message[None] = Message(seq=document["_id"], group_id=group["_id"], event=None)
        logger.error("message %d of group %r %s", message.seq, message.group_id, reason)
        await self._settler.dead_letter(_lease(group, message, head), reason)

    async def _skip(self, group: Document, message: Document) -> None:
        """Delete a message that came back after it was settled, and let its group go on."""
        await self._store.messages.delete_one({"_id": message["_id"]})
        await self._free(group["_id"], group["token"])

    async def _abandon(self, group: Document) -> None:
        """Remove the lock of a group without messages, or give it back if one came meanwhile."""
        match = _group_commands.abandoned(
            group["_id"], group["token"], version=group.get("version")
        )
        floor = self._floors.raised(group["_id"], group["epoch"])
        await self._store.driver.write_in_order([floor])
        if not await self._store.locks.delete_one(match):
            await self._free(group["_id"], group["token"])

    async def _is_fresh(self, lease: Lease[E], visibility: float) -> bool:
        """Tell whether half of the visibility is left.

        Race: a lease that ran out between its two commands may show a message that somebody else
        has settled meanwhile.
        """
        return lease.expires_at - await self._store.now() >= visibility / 2

    async def _give_back(self, found: Lease[E] | Skipped | None) -> None:
        if isinstance(found, Lease):
            await self._free(found.group_id, found.token)

    async def _free(self, group_id: str, token: str, delay: float = 0.0) -> None:
        """Free a group on the way out; if that fails its lease runs out by itself."""
        try:
            now = await self._store.now() + delay
            await self._store.locks.update_one(
                commands.held(group_id, token), commands.given_back(now=now)
            )
        except PyMongoError:
            logger.warning(
                "group %r stays leased until its visibility ends", group_id, exc_info=True
            )


def _lease(group: Document, message: Message[E], head: Head) -> Lease[E]:
    return Lease(
        group_id=message.group_id,
        seq=message.seq,
        event=message.event,
        token=group["token"],
        priority=group.get("priority", 0),
        attempt=group["attempts"],
        epoch=group["epoch"],
        expires_at=group["available_at"],
        messages=(message,),
        _seen=Seen(
            version=group.get("version"),
            undeleted=head.undeleted,
            is_last=head.is_last,
            at=group["leased_at"],
            redriven_from=None if head.message is None else head.message.get("redriven_from"),
        ),
    )
