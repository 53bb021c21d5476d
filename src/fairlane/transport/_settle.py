"""Settle: the one conditional write that ends or moves a lease, and the clean-up after it."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pymongo.errors import PyMongoError

from fairlane.driver import Change, Delete, Document, Unit, Write
from fairlane.flushing import Flushes
from fairlane.lease import commands
from fairlane.model import Lease
from fairlane.shield import finish
from fairlane.transport import _group_commands
from fairlane.transport._dead import Burial
from fairlane.transport._floors import Floors
from fairlane.transport._stopping import DeadHead
from fairlane.transport._store import Store

__all__ = ("Settler",)

logger = logging.getLogger(__name__)

Leases = Sequence[Lease[Any]]

RECENT = 5.0
"""Seconds for which a claim's look at its group is trusted; `repair()` allows for far more."""

MOST = 500
"""Leases that acks at the same time settle together."""

MOST_MESSAGES = 5_000
"""Messages of those leases, unless one alone has more."""

MAX_TEXT = 4_000
"""Characters of a reason or an error that are kept."""


class Settler:
    """Every way out of leases. All tell of each lease whether it was still held.

    Any number of leases takes as many commands as one.
    """

    def __init__(self, store: Store, burial: Burial, floors: Floors, dead_head: DeadHead) -> None:
        self._store = store
        self._burial = burial
        self._floors = floors
        self._dead_head = dead_head
        self._flushes: Flushes[Lease[Any], bool] = Flushes(
            self._ack, most=MOST, heaviest=MOST_MESSAGES, weigh=lambda lease: len(_seqs(lease))
        )

    async def ack(self, lease: Lease[Any]) -> bool:
        """Settle a lease, together with those that others settle now."""
        return await self._flushes.call(lease)

    async def ack_many(self, leases: Leases) -> list[bool]:
        return [_told(each) for each in await finish(self._ack(leases))]

    async def drain(self) -> None:
        """Wait until every `ack` that was called is done."""
        await self._flushes.drain()

    async def dead_letter(
        self, lease: Lease[Any], reason: str, traceback: str | None = None, done: int = 0
    ) -> bool:
        """Settle the first `done` messages, bury the next one, and give the rest back."""
        why = {"reason": reason[:MAX_TEXT]}
        if traceback is not None:
            why["traceback"] = traceback[-MAX_TEXT:]
        return await finish(self._dead_letter(lease, why, done))

    async def nack(self, leases: Leases, delay: float, error: str | None) -> list[bool]:
        at = await self._store.now() + delay
        kept = None if error is None else error[:MAX_TEXT]
        changes = [
            _change(
                lease,
                _group_commands.parked(at=at, seq=lease.seq, attempt=lease.attempt, error=kept),
            )
            for lease in leases
        ]
        return await finish(self._apply(changes))

    async def nack_rest(
        self, lease: Lease[Any], done: int, delay: float, error: str | None
    ) -> bool:
        """Settle the first `done` messages, and give the rest back as `nack` does.

        The next one was delivered once, behind the others; those behind it were not.
        """
        (told,) = await finish(self._nack_rest(lease, done, delay, error))
        return _told(told)

    async def release_rest(
        self, lease: Lease[Any], done: int, delay: float = 0.0, *, interrupted: bool = False
    ) -> bool:
        """Settle the first `done` messages, and give the rest back; none of them is charged."""
        behind = lease.messages[done].seq if interrupted else None
        (told,) = await finish(self._ack([_part(lease, done)], delay, behind))
        return _told(told)

    async def release(
        self, leases: Leases, delay: float = 0.0, *, interrupted: bool = False
    ) -> list[bool]:
        at = await self._store.now() + delay
        changes = [
            _change(
                lease,
                _group_commands.interrupted(at=at, seq=lease.seq)
                if interrupted
                else commands.given_back(now=at),
            )
            for lease in leases
        ]
        return await finish(self._apply(changes))

    async def extend(self, leases: Leases, visibility: float) -> list[Lease[Any] | None]:
        until = await self._store.now() + visibility
        changes = [_change(lease, commands.extended(until=until)) for lease in leases]
        return [
            replace(lease, expires_at=max(until, lease.expires_at)) if is_held else None
            for lease, is_held in zip(leases, await self._apply(changes), strict=True)
        ]

    async def _apply(self, changes: Sequence[Change]) -> list[bool]:
        return await self._store.driver.update_and_tell(self._store.locks, changes)

    async def _ack(
        self, leases: Leases, delay: float = 0.0, interrupted: int | None = None
    ) -> list[bool | Exception]:
        now = await self._store.now() + delay
        last = await self._last([lease for lease in leases if lease._seen.is_last])
        changes = [self._settlement(lease, now, interrupted=interrupted) for lease in leases]
        return await self._settle(leases, changes, last)

    async def _nack_rest(
        self, lease: Lease[Any], done: int, delay: float, error: str | None
    ) -> list[bool | Exception]:
        part = _part(lease, done)
        parked = _group_commands.parked(
            at=await self._store.now() + delay,
            seq=lease.messages[done].seq,
            attempt=1,
            error=None if error is None else error[:MAX_TEXT],
            done=_done(part),
        )
        return await self._settle([part], [_change(lease, parked)], [])

    async def _dead_letter(self, lease: Lease[Any], why: Document, done: int) -> bool:
        """Settle first, with what the dead letter needs in the lock, then move the message.

        Storing the dead letter first would leave it behind when the lease turns out to be lost.
        """
        now = await self._store.now()
        part = _part(lease, done + 1)
        note: Document = {
            "seq": _seqs(part)[-1],
            "redriven_from": None if done else lease._seen.redriven_from,
            "priority": lease.priority,
            **why,
            "attempts": 1 if done else lease.attempt,
            "interrupted": 0 if done else lease.interrupted,
            "died_at": now,
        }
        if self._dead_head == "stop":
            note["stops"] = True
            part = _followed(part)
        (is_held,) = await self._apply([self._settlement(part, now, note)])
        if is_held:
            await self._bury(part, note)
        return is_held

    def _settlement(
        self,
        lease: Lease[Any],
        now: float,
        dead: Document | None = None,
        interrupted: int | None = None,
    ) -> Change:
        settled = _group_commands.settled(
            now=now,
            partition=self._store.partition_of(lease.group_id),
            done=_done(lease),
            dead=dead,
            interrupted=interrupted,
        )
        return _change(lease, settled)

    async def _settle(
        self, leases: Leases, changes: Sequence[Change], last: Leases
    ) -> list[bool | Exception]:
        """Apply the changes, each with its clean-up; tell of each whether its lease was held.

        A change alone decides. What its clean-up leaves, the next claim of the group does, or
        `repair()`.
        """
        tokens = {lease.token for lease in last}
        units = [
            Unit(self._store.locks, change, self._leftovers(lease, lease.token in tokens))
            for lease, change in zip(leases, changes, strict=True)
        ]
        settled = await self._store.driver.settle(units)
        for lease, each in zip(leases, settled, strict=True):
            if each.is_held and each.trouble is not None:
                _tell_unfinished(lease, each.trouble)
        return [each.is_held if each.is_held else each.trouble or False for each in settled]

    async def _bury(self, lease: Lease[Any], note: Document) -> None:
        """Carry a death out that is decided already: a failure here is not the caller's."""
        try:
            if not await self._burial.try_complete(lease.group_id, note):
                return
            last = await self._last([lease] if lease._seen.is_last else [])
            phases = self._leftovers(lease, bool(last))
            await self._store.driver.write_in_order([each for phase in phases for each in phase])
        except PyMongoError as error:
            _tell_unfinished(lease, error)

    def _leftovers(self, lease: Lease[Any], is_last: bool) -> Sequence[Sequence[Write]]:
        """Return what deletes the messages, and the lock of a group with nothing behind them.

        Messages are deleted before the lock: without it nobody would know that they are settled.
        What older settlements left undeleted stays in `done` until a claim sees it.
        """
        # Only the head of a lease was ever a dead letter.
        settled = {
            seq: lease._seen.redriven_from if seq == lease.seq else None for seq in _seqs(lease)
        }
        deletions = self._store.deletions(settled)
        if not is_last:
            return deletions, (), ()
        return deletions, [self._floors.raised(lease.group_id, lease.epoch)], [self._removal(lease)]

    def _removal(self, lease: Lease[Any]) -> Write:
        match = _group_commands.drained(
            lease.group_id, version=lease._seen.version, epoch=lease.epoch, done=_done(lease)
        )
        return Delete(self._store.locks, match)

    async def _last(self, leases: Leases) -> Leases:
        """Leave out leases behind which there is a message now; look again if the look is old.

        Race: a publisher that died after its insert, before it bumped `version`: `repair()` saw the
        lock of a long lease, did nothing, and will not look at that message again.
        """
        now = await self._store.now()
        old = [lease for lease in leases if now - lease._seen.at >= RECENT]
        if not old:
            return leases
        busy = await self._groups_with_more(old)
        return [lease for lease in leases if lease.group_id not in busy]

    async def _groups_with_more(self, leases: Leases) -> set[str]:
        match: Document = {
            "group_id": {"$in": [lease.group_id for lease in leases]},
            "_id": {"$nin": [seq for lease in leases for seq in _done(lease)]},
        }
        if len(leases) == 1:  # one message tells, however many there are
            found = await self._store.messages.find_one(match, {"group_id": 1})
            return set() if found is None else {found["group_id"]}
        groups: list[Document] = [{"$match": match}, {"$group": {"_id": "$group_id"}}]
        return {row["_id"] for row in await self._store.messages.aggregate(groups)}


def _told(told: bool | Exception) -> bool:
    if isinstance(told, Exception):
        raise told
    return told


def _tell_unfinished(lease: Lease[Any], error: PyMongoError) -> None:
    logger.warning(
        "group %r is settled; its clean-up is left to the next claim",
        lease.group_id,
        exc_info=error,
        extra={"group_id": lease.group_id, "seq": lease.seq, "attempt": lease.attempt},
    )


def _change(lease: Lease[Any], update: Document) -> Change:
    return commands.held(lease.group_id, lease.token), update


def _part(lease: Lease[Any], number: int) -> Lease[Any]:
    """Return a lease of the first messages only; others stand behind them unless these are all."""
    if number >= len(lease.messages):
        return lease
    return _followed(replace(lease, messages=lease.messages[:number]))


def _followed(lease: Lease[Any]) -> Lease[Any]:
    """Return a lease whose settlement leaves the lock, as if a message stood behind it."""
    return replace(lease, _seen=replace(lease._seen, is_last=False))


def _seqs(lease: Lease[Any]) -> tuple[int, ...]:
    return tuple(message.seq for message in lease.messages) or (lease.seq,)


def _done(lease: Lease[Any]) -> tuple[int, ...]:
    return (*lease._seen.undeleted, *_seqs(lease))
