"""The side of a job queue that a worker pool works on: for `fairlane.worker`, not for programs."""

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pymongo.errors import PyMongoError

from fairlane.announcing import Sleeper
from fairlane.errors import JobLost
from fairlane.jobs._claim import Claimer, Request
from fairlane.jobs._definition import Definition
from fairlane.jobs._history import History
from fairlane.jobs._recurring import Recurrer
from fairlane.jobs._settle import Settler
from fairlane.jobs._store import JobStore
from fairlane.jobs._upkeep import Upkeep
from fairlane.jobs.model import Execution, Job
from fairlane.shield import finish

__all__ = ("Demand", "Renewing", "WorkingSide")

logger: logging.Logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What a pool can take on now.

    Attributes:
        leases: the types, and how long each is to be leased, in seconds; not empty.
        caps: so many jobs of a type at most, one at least.
        is_filtered: whether types are left out of which the pool has enough.
        lowers: of types whose stale jobs are to be of lower priority: that one.
    """

    worker_id: str
    leases: Mapping[str, float]
    caps: Mapping[str, int] = field(default_factory=dict)
    is_filtered: bool = False
    lowers: Mapping[str, int] = field(default_factory=dict)


class Renewing(Protocol):
    """The same jobs through a client of its own: `close()` closes it."""

    async def __aenter__(self) -> object: ...
    async def extend_many(self, jobs: Sequence[Job], lease: float) -> list[Job | None]: ...
    async def close(self) -> None: ...


class WorkingSide:
    def __init__(
        self,
        store: JobStore,
        *,
        claimer: Claimer,
        settler: Settler,
        upkeep: Upkeep,
        recurrer: Recurrer,
        history: History,
        lease: float,
        subscribe: Callable[[Callable[[], object]], Callable[[], None]],
        separate: Callable[[], Renewing] | None,
    ) -> None:
        self._store = store
        self._claimer = claimer
        self._settler = settler
        self._upkeep = upkeep
        self._recurrer = recurrer
        self._history = history
        self.lease = lease
        self.subscribe = subscribe
        self.separate = separate

    @property
    def watch(self) -> Callable[[Sleeper], Coroutine[Any, Any, None]] | None:
        """What tells a sleeper of all jobs that become claimable, of whatever type."""
        return self._store.watch

    def now(self) -> float:
        """Return the server's time in epoch seconds, without asking."""
        return self._store.clock()

    async def open(self, definitions: Iterable[Definition]) -> None:
        """Let the stored records be as these definitions say."""
        await self._store.ready()
        known = tuple(definitions)
        if any(each.keep_history is not None for each in known):
            await self._store.ensure_history()
        await self.revive(each for each in known if each.is_recurring)

    async def revive(self, recurring: Iterable[Definition]) -> None:
        """Let recurring jobs be as these definitions say, also those that somebody has ended."""
        await self._store.ready()  # a record is put into a partition
        for each in recurring:
            await self._recurrer.ensure(each)

    async def claim(self, demand: Demand, n: int) -> list[Job]:
        """Lease up to `n` jobs, each for as long as its type says.

        Those without an attempt left are among them: what becomes of them is up to the pool.
        """
        await self._store.ready()  # here it can be cancelled at once
        return await finish(self._claim(demand, n), undo=self._settler.release)

    async def _claim(self, demand: Demand, n: int) -> list[Job]:
        shortest = min(demand.leases.values())
        request = Request(
            types=tuple(demand.leases),
            worker_id=demand.worker_id,
            lease=shortest,
            caps=demand.caps,
            is_filtered=demand.is_filtered,
            takes_exhausted=True,
        )
        claimed = await self._claimer.claim_many(request, n)
        try:
            jobs = await self._prolonged(claimed, demand, shortest)
        except PyMongoError:
            await self._settler.release(claimed)
            raise
        return await self._fresh([await self._lowered(job, demand) for job in jobs], demand)

    async def _prolonged(
        self, claimed: Sequence[Job], demand: Demand, shortest: float
    ) -> list[Job]:
        """Lease each for as long as its type says; leave out those that were lost meanwhile."""
        jobs = [job for job in claimed if demand.leases[job.type] == shortest]
        for lease in {demand.leases[job.type] for job in claimed} - {shortest}:
            alike = [job for job in claimed if demand.leases[job.type] == lease]
            jobs += filter(None, await self._settler.extend_many(alike, lease))
        return jobs

    async def _fresh(self, jobs: Sequence[Job], demand: Demand) -> list[Job]:
        """Give back what was leased too long ago by now, as a claim does."""
        now = await self._store.now()
        late = [
            job for job in jobs if (job.available_at or 0.0) - now < demand.leases[job.type] / 2
        ]
        if late:
            await self._settler.release(late)
        return [job for job in jobs if job not in late]

    async def _lowered(self, job: Job, demand: Demand) -> Job:
        """Lower the priority of a job that was found stale, if its type says so."""
        priority = demand.lowers.get(job.type, job.priority)
        if not job.was_stale or priority >= job.priority:
            return job
        try:
            await self._settler.rerank(job, priority)
        except PyMongoError:
            logger.warning("job %s keeps its priority %d", job.id, job.priority, exc_info=True)
            return job
        return replace(job, priority=priority)

    async def ack(self, job: Job) -> bool:
        (is_held,) = await self._settler.ack([job])
        return is_held

    async def fail(self, job: Job, error: str | None, *, is_started: bool = True) -> bool:
        """End the job as failed. One that was not started does not count as another attempt."""
        if is_started:
            (is_held,) = await self._settler.fail([job], error)
        else:
            (is_held,) = await self._settler.fail_unstarted([job], error or "")
        return is_held

    async def retry(self, job: Job, delay: float, error: str | None) -> bool:
        return bool(await self._settler.nack(job, delay, error))

    async def release(self, job: Job, delay: float = 0.0, *, interrupted: bool = False) -> bool:
        (is_held,) = await self._settler.release([job], delay, begun=interrupted)
        return is_held

    async def extend(self, job: Job, lease: float) -> Job:
        """Raises `JobLost`."""
        (extended,) = await self._settler.extend_many([job], lease)
        if extended is None:
            raise JobLost(job.id, job.type, job.epoch)
        return extended

    async def reschedule(self, job: Job, definition: Definition, error: str | None) -> bool:
        return await self._recurrer.reschedule(job, definition, error)

    async def lower(self, job: Job, priority: int) -> bool:
        """Lower the priority of a job whose lease has run out, unless somebody has claimed it."""
        return await self._settler.rerank(job, priority)

    async def begin(self, execution: Execution, job: Job, keep: float) -> None:
        await self._history.begin(execution, job, keep)

    async def record(self, execution: Execution, keep: float) -> None:
        await self._history.record(execution, keep)

    async def overtake(self, job: Job) -> None:
        """Note that executions of this job ended when it was claimed anew."""
        await self._history.overtake(job, self._store.clock())

    async def reconcile(self) -> int:
        return await self._upkeep.reconcile()
