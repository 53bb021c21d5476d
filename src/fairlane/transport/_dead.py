"""Dead letters: move a message out of its group, list what died, publish it again.

A death is decided by the settlement, which leaves a note (`dead`) in the lock. The note is carried
out at once, or by whoever looks next: the next claim of the group, `repair()`, or a reader of the
dead letters. So a message is in its group or among the dead, never in both, never in neither.

A letter is in one of three states. `pending`: its note is being carried out; nobody sees it. At
rest: it is listed and can be redriven. `redriven_as`: its message is in its group again, under that
number; the letter is the proof that the message is not settled yet, and goes with it.

The message of a letter that stops its group comes back before all others: its number is a new one,
as any other's that comes back, but a negative one (`schema.FRONT`).
"""

import logging
from contextlib import suppress
from datetime import datetime
from typing import Any, Generic, TypeVar

from bson.errors import InvalidBSON, InvalidDocument
from bson.int64 import Int64
from pymongo.errors import DuplicateKeyError, OperationFailure

from fairlane import schema
from fairlane.clock import instant
from fairlane.driver import Document
from fairlane.errors import describe
from fairlane.model import DeadLetter
from fairlane.payload import Payload, plain
from fairlane.shield import finish
from fairlane.transport._stopping import Stops
from fairlane.transport._store import Store

__all__ = ("Burial", "DeadLetters")

E = TypeVar("E")
logger = logging.getLogger(__name__)

PAGE = 50

REFUSED = (OperationFailure, InvalidDocument)
"""What the server, or the driver for it, refuses: too large with what a letter adds, for one."""

NOTED: Document = {"dead.seq": {"$exists": True}}
RISING: Document = {"rising": True}
AT_REST: Document = {"redriven_as": {"$exists": False}, "pending": {"$exists": False}}


class Burial:
    """Carries out the notes that settlements left in locks. Every step may be repeated."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def complete(self, group_id: str, note: Document) -> None:
        """Copy the message to the dead letters, delete it, show the letter, remove the note.

        Race: two carry out one note and one of them stands still, until the letter has been
        redriven and is gone. The copy it makes then is pending, and the note, which it asks for
        after that, is gone: so nobody ever sees that copy.
        """
        seq = note["seq"]
        # Its document is deleted only after the copy is stored: no document, nothing left to copy.
        message = await self._store.messages.undecoded().find_one({"_id": seq})
        if message is not None:
            await self._copy(group_id, note, message)
            deletions = self._store.deletions({seq: note.get("redriven_from")})
            await self._store.driver.write_in_order(deletions)
        match = {"_id": group_id, "dead.seq": seq}
        copy = {"_id": seq, "pending": True}
        if await self._store.locks.find_one(match, {"_id": 1}) is None:
            await self._store.dead.delete_one(copy)
            return
        await self._store.dead.update_one(copy, {"$unset": {"pending": ""}})
        await self._store.locks.update_one(match, {"$unset": {"dead": ""}})

    async def complete_all(self) -> int:
        """Carry out every note; return how many there were."""
        number = 0
        async for lock in self._store.locks.each(NOTED, sort=[("_id", 1)]):
            number += await self.try_complete(lock["_id"], lock["dead"])
        return number

    async def try_complete(self, group_id: str, note: Document) -> bool:
        """Carry out a note; False if the server refuses it, which must not stop the others."""
        try:
            await self.complete(group_id, note)
        except REFUSED as error:
            logger.error("the dead letter of message %s cannot be stored: %s", note["seq"], error)
            return False
        return True

    async def _copy(self, group_id: str, note: Document, message: Document) -> None:
        with suppress(DuplicateKeyError):  # another one, carrying out the same note, was quicker
            await self._store.dead.insert([schema.dead_letter(group_id, note, message)])


class DeadLetters(Generic[E]):
    def __init__(self, store: Store, payload: Payload[E], burial: Burial, stops: Stops) -> None:
        self._store = store
        self._payload = payload
        self._burial = burial
        self._stops = stops

    async def complete(self) -> int:
        """Carry out every note and finish every redrive; return how many there were."""
        return await self._burial.complete_all() + await self._complete_redrives()

    async def count(self) -> int:
        await self.complete()
        return await self._store.dead.count(AT_REST)

    async def page(self, group_id: str | None, *, after: int | None) -> list[DeadLetter[E]]:
        """Return the first letters behind a number: not many, as letters can be large."""
        match = _matching(group_id, None)
        if after is None:
            await self.complete()
        else:
            match["_id"] = {"$gt": after}
        found = await self._store.dead.undecoded().find(match, sort=[("_id", 1)], limit=PAGE)
        stopping = await self._stops.among(found)
        return [self._letter(each, is_stopping=each["_id"] in stopping) for each in found]

    async def redrive(self, group_id: str | None, seq: int | None) -> int:
        """Publish dead letters again, oldest first; return how many this call decided on."""
        await self.complete()
        number = 0
        async for document in self._store.dead.each(
            _matching(group_id, seq), sort=[("_id", 1)], fields={"_id": 1}
        ):
            number += await finish(self._redrive(document["_id"]))
        return number

    async def is_live(self, message: Document) -> bool:
        """Tell whether a message may be delivered: a redriven one needs its dead letter.

        Race: a redrive that stands still while another one completes it: what it inserts after the
        message was settled must not be delivered again. The settlement deletes the letter first.
        """
        if "redriven_from" not in message:
            return True
        letter = {"_id": message["redriven_from"], "redriven_as": message["_id"]}
        return await self._store.dead.find_one(letter, {"_id": 1}) is not None

    async def _complete_redrives(self) -> int:
        number = 0
        async for document in self._store.dead.undecoded().each(RISING, sort=[("_id", 1)]):
            if not _can_rise(document):
                continue
            try:
                await self._publish_again(document, document["redriven_as"])
            except REFUSED as error:
                logger.error("dead letter %s cannot be redriven: %s", document["_id"], error)
            else:
                number += 1
        return number

    async def _redrive(self, seq: int) -> bool:
        letter = await self._store.dead.undecoded().find_one({"_id": seq, **AT_REST})
        if letter is None or not _can_rise(letter):
            return False
        renewed = await self._store.reserve(1)
        if await self._stops.is_stopping(letter):
            renewed += schema.FRONT
        # Race: two redrives of one letter: the first to set `redriven_as` decides its only number.
        chosen = await self._store.dead.update_one(
            {"_id": seq, **AT_REST}, {"$set": {"redriven_as": Int64(renewed), "rising": True}}
        )
        if chosen:
            await self._publish_again(letter, renewed)
        return chosen

    async def _publish_again(self, letter: Any, renewed: int) -> None:
        """Insert the message under its new number and ready its group. May be repeated.

        A group that it has stopped goes on when it is back, and not before: it comes first.
        """
        seq, group_id = letter["_id"], letter["group_id"]
        now = await self._store.now()
        message = schema.message(
            seq=renewed,
            group_id=group_id,
            event=letter["message"]["event"],
            priority=letter["priority"],
            published_at=now,
            redriven_from=seq,
        )
        with suppress(DuplicateKeyError):  # an interrupted redrive got this far
            await self._store.driver.write_in_order([self._store.insertion(message)])
        ready = self._store.readying(
            group_id, seq=renewed, messages=1, priority=letter["priority"], available_at=now
        )
        await self._store.driver.write_in_order([ready])
        await self._stops.end(letter)
        await self._store.dead.update_one(
            {"_id": seq, "redriven_as": renewed}, {"$unset": {"rising": ""}}
        )

    def _letter(self, document: Any, *, is_stopping: bool) -> DeadLetter[E]:
        event, problem = self._event(document)
        return DeadLetter(
            seq=int(document["_id"]),
            group_id=document["group_id"],
            event=event,
            priority=document["priority"],
            reason=document["reason"],
            traceback=document.get("traceback"),
            attempts=document["attempts"],
            interrupted=document.get("interrupted", 0),
            died_at=instant(document["died_at"]),
            published_at=_published_at(document),
            decode_error=problem,
            is_stopping=is_stopping,
        )

    def _event(self, document: Any) -> tuple[E | None, str | None]:
        try:
            return self._payload.decode(plain(document["message"])["event"]), None
        except Exception as error:
            return None, describe(error)


def _can_rise(letter: Any) -> bool:
    """Tell whether there is an event to publish again; a letter without one stays where it is."""
    try:
        return "event" in letter["message"]
    except InvalidBSON:
        logger.warning("dead letter %d cannot be read; it stays", letter["_id"])
        return False


def _published_at(letter: Any) -> datetime | None:
    try:
        return schema.published_instant(letter["message"])
    except InvalidBSON:
        return None


def _matching(group_id: str | None, seq: int | None) -> Document:
    match = dict(AT_REST)
    if group_id is not None:
        match["group_id"] = group_id
    if seq is not None:
        match["_id"] = seq
    return match
