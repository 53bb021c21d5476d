"""Claim: lease the groups that have waited longest, and hand their heads out."""

import logging
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar
from uuid import uuid4

from fairlane.driver import Document
from fairlane.lease import batch, commands
from fairlane.lease.batch import Wanted
from fairlane.lease.sweep import Sweep, Sweeps
from fairlane.model import Lease
from fairlane.shield import finish
from fairlane.transport import _group_commands
from fairlane.transport._delivery import Delivery
from fairlane.transport._reading import GroupReader
from fairlane.transport._store import Store

__all__ = ("Claimer", "Request")

E = TypeVar("E")
logger = logging.getLogger(__name__)

MAX_LATE = 20
"""So many leases in a row that came too late mean that the visibility is shorter than a claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a claimer asks for. `visibility` is in seconds."""

    worker_id: str
    visibility: float
    min_priority: int
    order: commands.Order

    def token(self) -> str:
        return f"{self.worker_id}:{uuid4().hex}"


class Skipped(Enum):
    """Why an attempt that found groups has nothing to hand out."""

    EMPTY = "no group had a message to deliver, or others were quicker to lease them all"
    LATE = "less than half of the visibility was left"


Found = list[Lease[E]] | Skipped | None
"""Of one attempt; None if nothing is due where it looked."""


class Claimer(Generic[E]):
    def __init__(self, store: Store, reader: GroupReader, delivery: Delivery[E]) -> None:
        self._store = store
        self._reader = reader
        self._delivery = delivery
        self._sweeps = Sweeps()

    async def claim(self, request: Request) -> Lease[E] | None:
        """Lease one group and return its head; None if no group is due in any partition.

        A cancelled claim gives back what it leased, before the cancellation goes on.
        """
        late = 0
        with self._sweeps.one(self._store.partitioning.span) as sweep:
            while late < MAX_LATE:
                partition = sweep.next()
                found = await self._finish(self._attempt(partition, request))
                if isinstance(found, list):
                    return found[0]
                if found is None:
                    sweep.miss(partition)
                    if sweep.is_complete:
                        return None
                else:
                    sweep.hit()
                    late += found is Skipped.LATE
        _warn_of_late(request)
        return None

    async def claim_many(self, request: Request, n: int) -> list[Lease[E]]:
        """Lease up to `n` groups and return their heads; none if nothing is due in any partition.

        Each attempt looks into all partitions if it must. It may lose what it found to others, all
        of it: then there was something, and the next attempt begins with another partition.
        Cancelled, it gives back what it leased.
        """
        late = 0
        with self._sweeps.one(self._store.partitioning.span) as sweep:
            while late < MAX_LATE:
                found = await self._finish(self._attempt_many(sweep, request, n))
                if not isinstance(found, Skipped):
                    return found or []
                late += found is Skipped.LATE
        _warn_of_late(request)
        return []

    async def _attempt(self, partition: int, request: Request) -> Found[E]:
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
            read_back=self._reader.read_back,
        )
        if group is None:
            return None
        return await self._handed_out([group], request, now)

    async def _attempt_many(self, sweep: Sweep, request: Request, n: int) -> Found[E]:
        now = await self._store.now()
        wanted = Wanted(
            now=now,
            until=now + request.visibility,
            sort=commands.order_by(request.order),
            among=_group_commands.among(request.min_priority),
        )
        keys = await batch.candidates(self._store.locks, wanted, sweep.looks(), n)
        if not keys:
            return None
        bids = {key: request.token() for key in keys}
        groups = await batch.lease_all(
            self._store.locks, wanted, bids, read_back=self._reader.read_back_all
        )
        return await self._handed_out(groups, request, now)

    async def _handed_out(
        self, groups: Sequence[Document], request: Request, leased_at: float
    ) -> Found[E]:
        """Return the leases of these groups that may be handed out; give the others back."""
        for group in groups:
            group["leased_at"] = leased_at
        try:
            leases = await self._delivery.leases(groups)
            now = await self._store.now()
        except BaseException:  # whatever it is, groups need not wait for their visibility to pass
            bids = {group["_id"]: group["token"] for group in groups}
            await batch.free_all(self._store.locks, bids, now=self._store.clock())
            raise
        fresh = [lease for lease in leases if _is_fresh(lease, request, now)]
        await self._give_back([lease for lease in leases if not _is_fresh(lease, request, now)])
        return fresh or (Skipped.LATE if leases else Skipped.EMPTY)

    async def _finish(self, attempt: Coroutine[Any, Any, Found[E]]) -> Found[E]:
        return await finish(attempt, undo=self._undo)

    async def _undo(self, found: Found[E]) -> None:
        if isinstance(found, list):
            await self._give_back(found)

    async def _give_back(self, leases: Sequence[Lease[E]]) -> None:
        bids = {lease.group_id: lease.token for lease in leases}
        await batch.free_all(self._store.locks, bids, now=self._store.clock())


def _is_fresh(lease: Lease[E], request: Request, now: float) -> bool:
    """Tell whether half of the visibility is left.

    Race: a lease that ran out between its two commands may show a message that somebody else has
    settled meanwhile.
    """
    return lease.expires_at - now >= request.visibility / 2


def _warn_of_late(request: Request) -> None:
    logger.warning("a claim takes longer than half of visibility=%g s", request.visibility)
