"""Settle: the one conditional write that ends or moves a lease, and the clean-up after it."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import anyio
from pymongo.errors import PyMongoError

from fairlane.driver import Delete, Document, Write
from fairlane.errors import LeaseLost
from fairlane.lease import commands
from fairlane.model import Lease
from fairlane.shield import DEADLINE, finish
from fairlane.transport import _group_commands
from fairlane.transport._dead import Burial
from fairlane.transport._floors import Floors
from fairlane.transport._store import Store

__all__ = ("Settler",)

logger = logging.getLogger(__name__)

RECENT = 5.0
"""Seconds for which a claim's look at its group is trusted; `repair()` allows for far more."""

MAX_TEXT = 4_000
"""Characters of a reason or an error that are kept."""


class Settler:
    """Every way out of a lease. All return whether the lease was still held."""

    def __init__(self, store: Store, burial: Burial, floors: Floors) -> None:
        self._store = store
        self._burial = burial
        self._floors = floors

    async def ack(self, lease: Lease[Any]) -> bool:
        return await finish(self._ack(lease))

    async def dead_letter(self, lease: Lease[Any], reason: str) -> bool:
        return await finish(self._dead_letter(lease, reason[:MAX_TEXT]))

    async def nack(self, lease: Lease[Any], delay: float, error: str | None) -> bool:
        at = await self._store.now() + delay
        kept = None if error is None else error[:MAX_TEXT]
        update = _group_commands.parked(at=at, seq=lease.seq, attempt=lease.attempt, error=kept)
        return await finish(self._change(lease, update))

    async def release(self, lease: Lease[Any]) -> bool:
        now = await self._store.now()
        return await finish(self._change(lease, commands.given_back(now=now)))

    async def release_all(self, leases: Iterable[Lease[Any]]) -> None:
        """Give leases back on the way out; those for which that fails run out by themselves."""
        with anyio.move_on_after(DEADLINE):
            await finish(self._release_each(leases))

    async def extend(self, lease: Lease[Any], visibility: float) -> Lease[Any]:
        until = await self._store.now() + visibility
        if not await self._change(lease, commands.extended(until=until)):
            raise LeaseLost(lease.group_id, lease.seq, lease.epoch)
        return replace(lease, expires_at=max(until, lease.expires_at))

    async def _release_each(self, leases: Iterable[Lease[Any]]) -> None:
        for lease in leases:
            try:
                await self.release(lease)
            except PyMongoError:
                logger.warning("leases of a failed claim_many run out by themselves", exc_info=True)
                return

    async def _change(self, lease: Lease[Any], update: Document) -> bool:
        match = commands.held(lease.group_id, lease.token)
        return await self._store.locks.update_one(match, update)

    async def _ack(self, lease: Lease[Any]) -> bool:
        done = _done(lease)
        now = await self._store.now()
        if not await self._change(lease, self._settled(lease, now, done, dead=None)):
            return False
        await self._tidy(lease, done, dead=None)
        return True

    async def _dead_letter(self, lease: Lease[Any], reason: str) -> bool:
        """Settle first, with what the dead letter needs in the lock, then move the message.

        Storing the dead letter first would leave it behind when the lease turns out to be lost.
        """
        done = _done(lease)
        now = await self._store.now()
        dead: Document = {
            "seq": lease.seq,
            "redriven_from": lease._seen.redriven_from,
            "priority": lease.priority,
            "reason": reason,
            "attempts": lease.attempt,
            "died_at": now,
        }
        if not await self._change(lease, self._settled(lease, now, done, dead)):
            return False
        await self._tidy(lease, done, dead)
        return True

    def _settled(
        self, lease: Lease[Any], now: float, done: tuple[int, ...], dead: Document | None
    ) -> Document:
        partition = self._store.partition_of(lease.group_id)
        return _group_commands.settled(now=now, partition=partition, done=done, dead=dead)

    async def _tidy(self, lease: Lease[Any], done: tuple[int, ...], dead: Document | None) -> None:
        """Clean up after a settlement that is already decided: a failure here is not the caller's.

        The next claim of the group, or `repair()`, does what is left. Messages are deleted before
        the lock: without it nobody would know that they are settled.
        """
        try:
            if dead is not None and not await self._burial.try_complete(lease.group_id, dead):
                return
            await self._store.driver.write_in_order(await self._leftovers(lease, done))
        except PyMongoError:
            logger.warning(
                "group %r is settled; its clean-up is left to the next claim",
                lease.group_id,
                exc_info=True,
                extra={"group_id": lease.group_id, "seq": lease.seq, "attempt": lease.attempt},
            )

    async def _leftovers(self, lease: Lease[Any], done: tuple[int, ...]) -> list[Write]:
        """Return what deletes the message, and its group's lock if there is nothing behind it.

        What older settlements left undeleted stays in `done` until a claim sees it.
        """
        deletions = self._store.deletion(lease.seq, lease._seen.redriven_from)
        if not lease._seen.is_last or not await self._is_still_last(lease, done):
            return deletions
        match = _group_commands.drained(
            lease.group_id, version=lease._seen.version, epoch=lease.epoch, done=done
        )
        floor = self._floors.raised(lease.group_id, lease.epoch)
        return [*deletions, floor, Delete(self._store.locks, match)]

    async def _is_still_last(self, lease: Lease[Any], done: tuple[int, ...]) -> bool:
        """Look again if the claim's look is old.

        Race: a publisher that died after its insert, before it bumped `version`: `repair()` saw the
        lock of a long lease, did nothing, and will not look at that message again.
        """
        if await self._store.now() - lease._seen.at < RECENT:
            return True
        match = {"group_id": lease.group_id, "_id": {"$nin": list(done)}}
        return await self._store.messages.find_one(match, {"_id": 1}) is None


def _done(lease: Lease[Any]) -> tuple[int, ...]:
    return (*lease._seen.undeleted, lease.seq)
