"""Claim: lease the most urgent due jobs, and end those that have no attempt left."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import uuid4

from pymongo.errors import PyMongoError

from fairlane.driver import Document
from fairlane.jobs import _job_commands
from fairlane.jobs._settle import Settler
from fairlane.jobs._store import JobStore, readable
from fairlane.jobs.model import Job
from fairlane.lease import batch, commands
from fairlane.lease.batch import Appetite, Spread, Wanted
from fairlane.lease.hints import Index
from fairlane.lease.rounds import Found, Rounds, Skipped, by_freshness
from fairlane.lease.sweep import Sweep

__all__ = ("Claimer", "Request")

logger = logging.getLogger(__name__)

ORDER = commands.order_by("priority")
EXHAUSTED = "no attempt is left: each of its workers died, or lost its lease"
UNREADABLE = "its document cannot be read"


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

    def wanted(self, now: float, hint: Index | None) -> Wanted:
        return Wanted(
            now=now,
            until=now + self.lease,
            sort=ORDER,
            among=_job_commands.among(self.types),
            marks=_job_commands.marks(worker_id=self.worker_id, now=now),
            hint=hint,
        )


class Claimer:
    def __init__(self, store: JobStore, settler: Settler) -> None:
        self._store = store
        self._settler = settler
        self._rounds: Rounds[Job] = Rounds(self._give_back)
        self._spread = Spread()
        self._appetite = Appetite()

    async def claim(self, request: Request) -> Job | None:
        await self._store.ready()
        span = self._store.partitioning.span
        attempt = partial(self._attempt, request)
        return await self._rounds.one(span, attempt, visibility=request.lease)

    async def claim_many(self, request: Request, n: int) -> list[Job]:
        if n == 1:  # by one command less
            job = await self.claim(request)
            return [] if job is None else [job]
        await self._store.ready()
        span = self._store.partitioning.span
        attempt = partial(self._attempt_many, request, n)
        return await self._rounds.many(span, attempt, visibility=request.lease)

    async def _attempt(self, request: Request, partition: int) -> Found[Job]:
        now, token = await self._store.now(), request.token()
        wanted = request.wanted(now, self._hint(request))
        leased = await self._store.leaser.lease(
            self._store.jobs.undecoded(),
            commands.due(partitions=[partition], now=now, among=wanted.among),
            token=token,
            now=now,
            until=wanted.until,
            sort=wanted.sort,
            hint=wanted.hint,
            marks=wanted.marks,
        )
        if not leased:
            return None if leased is None else Skipped.EMPTY
        jobs = readable([leased])
        if not jobs:
            await self._end_unreadable(commands.taken(token))
            return Skipped.EMPTY
        return await self._handed_out(jobs, request)

    async def _attempt_many(self, request: Request, n: int, sweep: Sweep) -> Found[Job]:
        jobs, now = self._store.jobs, await self._store.now()
        wanted = request.wanted(now, self._hint(request))
        look = partial(self._store.leaser.look, jobs, **_capped(request.caps))
        looks = sweep.looks(ranges=wanted.ranges)
        portion = self._appetite.portion(n)
        keys = await batch.candidates(look, wanted, looks, portion, self._spread)
        if not keys:
            return None
        bids = {key: request.token() for key in keys}
        leased = await batch.lease_all(jobs, wanted, bids, read_back=self._read_back)
        self._spread.note(bids=len(bids), won=len(leased))
        found = await self._handed_out([document["job"] for document in leased], request)
        self._appetite.note(len(leased), is_late=found is Skipped.LATE)
        return found

    def _hint(self, request: Request) -> Index | None:
        return self._store.hint(request.types, is_filtered=request.is_filtered)

    async def _read_back(self, taken: Document) -> list[Document]:
        """Read what was won; what cannot be read ends here, and is not handed out."""
        rows = await self._store.jobs.undecoded().find(taken, sort=[("_id", 1)], limit=0)
        jobs = readable(rows)
        if len(jobs) < len(rows):
            good = [job.id for job in jobs]
            for key in taken["_id"]["$in"]:
                if key not in good:
                    await self._end_unreadable({**taken, "_id": key})
        return [{"_id": job.id, "job": job} for job in jobs]

    async def _end_unreadable(self, match: Document) -> None:
        if await self._settler.end_unseen(match, UNREADABLE):
            logger.error("a job failed: %s", UNREADABLE)

    async def _handed_out(self, jobs: Sequence[Job], request: Request) -> Found[Job]:
        try:
            exhausted = [] if request.takes_exhausted else _exhausted(jobs)
            await self._fail(exhausted)
            now = await self._store.now()
        except BaseException:  # whatever it is, jobs need not wait for their lease to pass
            await self._give_back(jobs)
            raise
        alive = [job for job in jobs if job not in exhausted]
        fresh, late = by_freshness(
            alive, lambda job: job.available_at or 0.0, now=now, visibility=request.lease
        )
        await self._give_back(late)
        return fresh or (Skipped.LATE if late else Skipped.EMPTY)

    async def _fail(self, exhausted: Sequence[Job]) -> None:
        if not exhausted:
            return
        ended = await self._settler.fail_unstarted(exhausted, EXHAUSTED)
        for job, is_ended in zip(exhausted, ended, strict=True):
            if is_ended:
                logger.warning("job %s of type %r failed: %s", job.id, job.type, EXHAUSTED)

    async def _give_back(self, jobs: Sequence[Job]) -> None:
        if not jobs:
            return
        try:
            await self._settler.release(jobs)
        except PyMongoError:
            logger.warning("%d leases run out by themselves", len(jobs), exc_info=True)


def _capped(caps: Mapping[str, int]) -> Document:
    """Return how to look for jobs without more of a type than its cap."""
    return {"fields": ("type",), "admits": _Caps(caps).admits} if caps else {}


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
