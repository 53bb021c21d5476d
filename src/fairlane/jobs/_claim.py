"""Claim: lease the most urgent due jobs, and end those that have no attempt left."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

from bson.errors import InvalidBSON
from pymongo.errors import PyMongoError

from fairlane.driver import Document
from fairlane.jobs import _job_commands
from fairlane.jobs._settle import Settler
from fairlane.jobs._store import JobStore, job_of, readable
from fairlane.jobs.model import Job
from fairlane.lease import batch, commands
from fairlane.lease.batch import Wanted
from fairlane.lease.hints import Index
from fairlane.lease.rounds import Found, Rounds, Skipped
from fairlane.lease.sweep import Sweep
from fairlane.payload import plain

__all__ = ("Claimer", "Request")

logger = logging.getLogger(__name__)

ORDER = commands.order_by("priority")
EXHAUSTED = "no attempt is left: each of its workers died, or lost its lease"
UNREADABLE = "its document cannot be decoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a claimer asks for.

    Attributes:
        types: none means any.
        lease: seconds.
        caps: so many jobs of a type are wanted at most, one at least; of others any number.
        is_filtered: some types that this claimer otherwise wants are left out.
        takes_exhausted: hand out jobs without an attempt left as well, instead of failing them.
    """

    types: tuple[str, ...]
    worker_id: str
    lease: float
    caps: Mapping[str, int] = field(default_factory=dict)
    is_filtered: bool = False
    takes_exhausted: bool = False

    def token(self) -> str:
        return f"{self.worker_id}:{uuid4().hex}"

    def wanted(self, now: float) -> Wanted:
        return Wanted(
            now=now,
            until=now + self.lease,
            sort=ORDER,
            among=_job_commands.among(self.types),
            marks=_job_commands.marks(worker_id=self.worker_id, now=now),
        )


class Claimer:
    def __init__(self, store: JobStore, settler: Settler) -> None:
        self._store = store
        self._settler = settler
        self._rounds: Rounds[Job] = Rounds(self._give_back)

    async def claim(self, request: Request) -> Job | None:
        span = self._store.partitioning.span
        return await self._rounds.one(span, partial(self._attempt, request))

    async def claim_many(self, request: Request, n: int) -> list[Job]:
        if n == 1:  # by one command less
            job = await self.claim(request)
            return [] if job is None else [job]
        span = self._store.partitioning.span
        return await self._rounds.many(span, partial(self._attempt_many, request, n))

    async def _attempt(self, request: Request, partition: int) -> Found[Job]:
        now, token = await self._store.now(), request.token()
        wanted = request.wanted(now)
        leased = await self._store.leaser.lease(
            self._store.jobs.undecoded(),
            commands.due(partitions=[partition], now=now, among=wanted.among),
            token=token,
            now=now,
            until=wanted.until,
            sort=wanted.sort,
            hint=self._store.hint(request.types, is_filtered=request.is_filtered),
            marks=wanted.marks,
        )
        if leased is None:
            return None
        try:
            document = plain(leased)
        except InvalidBSON:
            await self._end_unreadable(commands.taken(token))
            return Skipped.EMPTY
        return await self._handed_out([document], request)

    async def _attempt_many(self, request: Request, n: int, sweep: Sweep) -> Found[Job]:
        jobs, wanted = self._store.jobs, request.wanted(await self._store.now())
        keys = await self._candidates(request, wanted, sweep.looks(), n)
        if not keys:
            return None
        bids = {key: request.token() for key in keys}
        leased = await batch.lease_all(jobs, wanted, bids, read_back=self._read_back)
        return await self._handed_out(leased, request)

    async def _candidates(
        self, request: Request, wanted: Wanted, looks: Sequence[Sequence[int]], n: int
    ) -> list[Any]:
        """Read what to bid for, by the index by type where types are left out."""

        async def read(hint: Index | None) -> list[Any]:
            admits = _Caps(request.caps).admits if request.caps else None
            return await batch.candidates(
                self._store.jobs, wanted, looks, n, admits=admits, hint=hint
            )

        forced = self._store.hint(request.types, is_filtered=True) if request.is_filtered else None
        return await self._store.leaser.hinted(read, forced)

    async def _read_back(self, taken: Document) -> list[Document]:
        """Read what was won; what cannot be decoded ends here, and is not handed out."""
        rows = await self._store.jobs.undecoded().find(taken, sort=[("_id", 1)], limit=0)
        decoded = readable(rows)
        if len(decoded) < len(rows):
            good = [document["_id"] for document in decoded]
            ids = [key for key in taken["_id"]["$in"] if key not in good]
            for key in ids:
                await self._end_unreadable({**taken, "_id": key})
        return decoded

    async def _end_unreadable(self, match: Document) -> None:
        if await self._settler.end_unseen(match, UNREADABLE):
            logger.error("a job failed: %s", UNREADABLE)

    async def _handed_out(self, documents: Sequence[Document], request: Request) -> Found[Job]:
        jobs = [job_of(document, is_claimed=True) for document in documents]
        try:
            exhausted = [] if request.takes_exhausted else _exhausted(jobs)
            await self._fail(exhausted)
            now = await self._store.now()
        except BaseException:  # whatever it is, jobs need not wait for their lease to pass
            await self._give_back(jobs)
            raise
        alive = [job for job in jobs if job not in exhausted]
        late = [job for job in alive if not _is_fresh(job, request, now)]
        await self._give_back(late)
        return [job for job in alive if job not in late] or (
            Skipped.LATE if late else Skipped.EMPTY
        )

    async def _fail(self, exhausted: Sequence[Job]) -> None:
        if not exhausted:
            return
        ended = await self._settler.fail(exhausted, EXHAUSTED)
        for job, is_ended in zip(exhausted, ended, strict=True):
            if is_ended:
                logger.warning("job %s of type %r failed: %s", job.id, job.type, EXHAUSTED)

    async def _give_back(self, jobs: Sequence[Job]) -> None:
        try:
            await self._settler.release(jobs)
        except PyMongoError:
            logger.warning("%d leases run out by themselves", len(jobs), exc_info=True)


class _Caps:
    """How many jobs of each type may be bid for still."""

    def __init__(self, caps: Mapping[str, int]) -> None:
        self._left = dict(caps)

    def admits(self, document: Document) -> bool:
        kind = document["type"]
        if kind not in self._left:
            return True
        self._left[kind] -= 1
        return self._left[kind] >= 0


def _exhausted(jobs: Sequence[Job]) -> list[Job]:
    return [job for job in jobs if job.attempts > job.max_attempts]


def _is_fresh(job: Job, request: Request, now: float) -> bool:
    """Tell whether half of the lease is left."""
    until: Any = job.available_at
    return bool(until - now >= request.lease / 2)
