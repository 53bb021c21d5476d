"""Delivery: what a claim does with the groups that it has leased, before it hands them out."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from bson.errors import InvalidBSON
from pymongo.errors import PyMongoError

from fairlane.driver import Change, Document
from fairlane.errors import describe
from fairlane.lease import commands
from fairlane.model import Lease, Message, Seen
from fairlane.payload import Payload
from fairlane.transport import _group_commands
from fairlane.transport._dead import Burial, DeadLetters
from fairlane.transport._floors import Floors
from fairlane.transport._head import Head
from fairlane.transport._reading import GroupReader
from fairlane.transport._settle import Settler
from fairlane.transport._store import Store

__all__ = ("Delivery",)

E = TypeVar("E")
logger = logging.getLogger(__name__)

BLOCKED = 60.0
"""Seconds for which a group rests that cannot be read, or whose dead letter cannot be stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """A leased group, and what stands at its front: one message at least."""

    group: Document
    head: Head
    floor: int | None

    @property
    def message(self) -> Document:
        return self.head.messages[0]


class Delivery(Generic[E]):
    def __init__(
        self,
        store: Store,
        payload: Payload[E],
        *,
        reader: GroupReader,
        floors: Floors,
        settler: Settler,
        burial: Burial,
        dead: DeadLetters[E],
    ) -> None:
        self._store = store
        self._payload = payload
        self._reader = reader
        self._floors = floors
        self._settler = settler
        self._burial = burial
        self._dead = dead

    async def leases(self, groups: Sequence[Document], batch: int) -> list[Lease[E]]:
        """Return the leases of those groups that have something to deliver, of up to `batch` each.

        Puts right what it finds wrong in the others, and gives them back.
        """
        fronts = [front for group in groups if (front := await self._try_front(group, batch))]
        held = await self._corrected(fronts)
        return [lease for front in held if (lease := await self._decoded(front))]

    async def _try_front(self, group: Document, batch: int) -> Front | None:
        """Let one group that cannot be understood, whoever wrote it, not stop the others."""
        try:
            return await self._front(group, batch)
        except PyMongoError:
            raise
        except Exception:
            logger.exception("group %r rests: it cannot be read", group["_id"])
            await self._free(group, delay=BLOCKED)
            return None

    async def _front(self, group: Document, batch: int) -> Front | None:
        if "dead" in group and not await self._burial.try_complete(group["_id"], group["dead"]):
            await self._free(group, delay=BLOCKED)
            return None
        head, floor = await self._reader.read(group, batch)
        if head.deletable:
            settled = {each["_id"]: each.get("redriven_from") for each in head.deletable}
            await self._store.driver.write_in_order(self._store.deletions(settled))
        if not head.messages:
            await self._abandon(group)
            return None
        if not await self._dead.is_live(head.messages[0]):
            await self._skip(group, head.messages[0])
            return None
        return Front(group=group, head=head, floor=floor)

    async def _corrected(self, fronts: Sequence[Front]) -> list[Front]:
        """Put right what the leases found wrong in their locks; leave out those that are lost."""
        wrong = {
            front.group["_id"]: correction
            for front in fronts
            if (correction := _correction(front)) is not None
        }
        matched = await self._store.driver.update_and_tell(self._store.locks, list(wrong.values()))
        lost = {key for key, is_held in zip(wrong, matched, strict=True) if not is_held}
        return [front for front in fronts if front.group["_id"] not in lost]

    async def _decoded(self, front: Front) -> Lease[E] | None:
        document = front.message
        try:
            if "group_id" not in document:  # it could not be read together with the others
                document = await self._store.messages.find_one({"_id": document["_id"]}) or document
        except InvalidBSON as error:
            await self._refuse(front, error)
            return None
        try:
            message = self._payload.message(document)
        except Exception as error:  # whatever a codec may raise
            await self._refuse(front, error)
            return None
        return _lease(front, (message, *self._behind(front)))

    def _behind(self, front: Front) -> Iterator[Message[E]]:
        """Yield what is delivered with the head, up to the first one that cannot be read.

        That one is seen to when it is the head itself.
        """
        for document in front.head.messages[1:]:
            if "group_id" not in document:  # it could not be read together with the others
                return
            try:
                yield self._payload.message(document)
            except Exception:  # whatever a codec may raise
                return

    async def _refuse(self, front: Front, error: Exception) -> None:
        """Move a message that cannot be decoded to the dead letters, and let its group go on."""
        reason = f"cannot be decoded: {describe(error)}"
        message: Message[None] = Message(
            seq=front.message["_id"], group_id=front.group["_id"], event=None
        )
        logger.error("message %d of group %r %s", message.seq, message.group_id, reason)
        await self._settler.dead_letter(_lease(front, (message,)), reason)

    async def _skip(self, group: Document, message: Document) -> None:
        """Delete a message that came back after it was settled, and let its group go on."""
        await self._store.messages.delete_one({"_id": message["_id"]})
        await self._free(group)

    async def _abandon(self, group: Document) -> None:
        """Remove the lock of a group without messages, or give it back if one came meanwhile."""
        match = _group_commands.abandoned(
            group["_id"], group["token"], version=group.get("version")
        )
        floor = self._floors.raised(group["_id"], group["epoch"])
        await self._store.driver.write_in_order([floor])
        if not await self._store.locks.delete_one(match):
            await self._free(group)

    async def _free(self, group: Document, delay: float = 0.0) -> None:
        """Free a group on the way out; if that fails its lease runs out by itself."""
        match = commands.held(group["_id"], group["token"])
        try:
            now = await self._store.now() + delay
            await self._store.locks.update_one(match, commands.given_back(now=now))
        except PyMongoError:
            logger.warning(
                "group %r stays leased until its visibility ends", group["_id"], exc_info=True
            )


def _correction(front: Front) -> Change | None:
    """Return what puts the lock right, if something is wrong in it, and note that in the group."""
    group = front.group
    wrong = _group_commands.corrections(group, seq=front.message["_id"], floor=front.floor)
    if not wrong:
        return None
    group.update(wrong)
    return commands.held(group["_id"], group["token"]), {"$set": wrong}


def _lease(front: Front, messages: tuple[Message[E], ...]) -> Lease[E]:
    group, head, message = front.group, front.head, messages[0]
    return Lease(
        group_id=message.group_id,
        seq=message.seq,
        event=message.event,
        token=group["token"],
        priority=group.get("priority", 0),
        attempt=group["attempts"],
        interrupted=group.get("interrupted", 0),
        epoch=group["epoch"],
        expires_at=group["available_at"],
        messages=messages,
        _seen=Seen(
            version=group.get("version"),
            undeleted=head.undeleted,
            is_last=head.is_last and len(messages) == len(head.messages),
            at=group["leased_at"],
            redriven_from=front.message.get("redriven_from"),
        ),
    )
