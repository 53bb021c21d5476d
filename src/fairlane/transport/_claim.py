"""Claim: lease the groups that have waited longest, and hand their heads out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar
from uuid import uuid4

from fairlane.driver import Document
from fairlane.lease import batch, commands
from fairlane.lease.batch import Appetite, Spread, Wanted
from fairlane.lease.rounds import Found, Rounds, Skipped, by_freshness
from fairlane.lease.sweep import Sweep
from fairlane.model import Lease
from fairlane.transport import _group_commands
from fairlane.transport._delivery import Delivery
from fairlane.transport._reading import GroupReader
from fairlane.transport._store import Store

__all__ = ("Claimer", "Request")

E = TypeVar("E")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a claimer asks for: leases for `visibility` seconds, of up to `batch` messages each."""

    worker_id: str
    visibility: float
    min_priority: int
    order: commands.Order
    batch: int = 1

    def token(self) -> str:
        return f"{self.worker_id}:{uuid4().hex}"


class Claimer(Generic[E]):
    def __init__(self, store: Store, reader: GroupReader, delivery: Delivery[E]) -> None:
        self._store = store
        self._reader = reader
        self._delivery = delivery
        self._rounds: Rounds[Lease[E]] = Rounds(self._give_back)
        self._spread = Spread()
        self._appetite = Appetite()

    async def claim(self, request: Request) -> Lease[E] | None:
        """Lease one group and return its head; None if no group is due in any partition.

        A cancelled claim gives back what it leased, before the cancellation goes on.
        """
        span = self._store.partitioning.span
        attempt = partial(self._attempt, request)
        return await self._rounds.one(span, attempt, visibility=request.visibility)

    async def claim_many(self, request: Request, n: int) -> list[Lease[E]]:
        """Lease up to `n` groups and return their heads; none if nothing is due in any partition.

        Cancelled, it gives back what it leased.
        """
        span = self._store.partitioning.span
        attempt = partial(self._attempt_many, request, n)
        return await self._rounds.many(span, attempt, visibility=request.visibility)

    async def _attempt(self, request: Request, partition: int) -> Found[Lease[E]]:
        now = await self._store.now()
        group = await self._store.leaser.lease(
            self._store.locks,
            _group_commands.claimable(
                partition=partition, min_priority=request.min_priority, now=now
            ),
            token=request.token(),
            now=now,
            until=now + request.visibility,
            sort=commands.order_by(request.order),
            read_back=partial(self._reader.read_back, request.batch),
        )
        if not group:
            return None if group is None else Skipped.EMPTY
        return await self._handed_out([group], request, now)

    async def _attempt_many(self, request: Request, n: int, sweep: Sweep) -> Found[Lease[E]]:
        now = await self._store.now()
        wanted = Wanted(
            now=now,
            until=now + request.visibility,
            sort=commands.order_by(request.order),
            among=_group_commands.among(request.min_priority),
        )
        locks = self._store.locks
        look = partial(self._store.leaser.look, locks)
        looks = sweep.looks(ranges=wanted.ranges)
        portion = self._appetite.portion(n)
        keys = await batch.candidates(look, wanted, looks, portion, self._spread)
        if not keys:
            return None
        bids = {key: request.token() for key in keys}
        read_back = partial(self._reader.read_back_all, request.batch)
        groups = await batch.lease_all(locks, wanted, bids, read_back=read_back)
        self._spread.note(bids=len(bids), won=len(groups))
        found = await self._handed_out(groups, request, now)
        self._appetite.note(len(groups), is_late=found is Skipped.LATE)
        return found

    async def _handed_out(
        self, groups: Sequence[Document], request: Request, leased_at: float
    ) -> Found[Lease[E]]:
        """Return the leases of these groups that may be handed out; give the others back."""
        for group in groups:
            group["leased_at"] = leased_at
        try:
            leases = await self._delivery.leases(groups, request.batch)
            now = await self._store.now()
        except BaseException:  # whatever it is, groups need not wait for their visibility to pass
            bids = {group["_id"]: group["token"] for group in groups}
            await batch.free_all(self._store.locks, bids, now=self._store.clock())
            raise
        fresh, late = by_freshness(
            leases, lambda lease: lease.expires_at, now=now, visibility=request.visibility
        )
        await self._give_back(late)
        return fresh or (Skipped.LATE if leases else Skipped.EMPTY)

    async def _give_back(self, leases: Sequence[Lease[E]]) -> None:
        bids = {lease.group_id: lease.token for lease in leases}
        await batch.free_all(self._store.locks, bids, now=self._store.clock())
