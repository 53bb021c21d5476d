"""A job queue as a source of work: claims the registered types, and runs their handlers."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import anyio

from fairlane.jobs import Definition, Job, JobContext
from fairlane.jobs.working import Demand, Renewing
from fairlane.retry import ANSWERS
from fairlane.worker._current import at_work_on
from fairlane.worker._hooks import Guard, GuardRefused, Hook, guarded, told
from fairlane.worker._job_calling import asked, run
from fairlane.worker._job_history import ExecutionLog, HistorySide
from fairlane.worker._job_outcome import JobOutcome, after_error, refusal, succeeded
from fairlane.worker._load import Load
from fairlane.worker._middleware import Middleware, passed
from fairlane.worker._outcome import Outcome
from fairlane.worker._settings import Settings
from fairlane.worker._work import Chore, Foresee, Hold, Separate, TellSleeper, renewed
from fairlane.worker.events import EventKind

__all__ = ("JobHooks", "JobSide", "JobSource", "LeasedJob")

logger = logging.getLogger(__name__)

GUARD_SECONDS = 1.0
"""A job that its guard refused rests so long at least, or for `poll_interval`."""


class JobSide(HistorySide, Protocol):
    """What a pool needs of a job queue; see `fairlane.jobs.working.WorkingSide`."""

    lease: float
    subscribe: Callable[[Callable[[], object]], Callable[[], None]]

    @property
    def separate(self) -> Callable[[], Renewing] | None: ...

    @property
    def watch(self) -> TellSleeper | None: ...

    async def open(self, definitions: Sequence[Definition]) -> None: ...
    async def revive(self, recurring: Iterable[Definition]) -> None: ...
    async def claim(self, demand: Demand, n: int) -> list[Job]: ...
    async def ack(self, job: Job) -> bool: ...
    async def fail(self, job: Job, error: str | None, *, is_started: bool = True) -> bool: ...
    async def retry(self, job: Job, delay: float, error: str | None) -> bool: ...
    async def release(self, job: Job, delay: float = 0.0, *, interrupted: bool = False) -> bool: ...
    async def extend(self, job: Job, lease: float) -> Job: ...
    async def reschedule(self, job: Job, definition: Definition, error: str | None) -> bool: ...
    async def lower(self, job: Job, priority: int) -> bool: ...
    async def reconcile(self) -> object: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHooks:
    """What an application says about all jobs of a pool."""

    guard: Guard | None = None
    on_exhausted: Hook | None = None


@dataclass(frozen=True, slots=True)
class LeasedJob:
    """A claimed job; see `Work`."""

    job: Job
    visibility: float

    @property
    def token(self) -> str:
        return self.job.token or ""

    @property
    def attempt(self) -> int:
        return self.job.attempts

    @property
    def epoch(self) -> int:
        return self.job.epoch

    @property
    def priority(self) -> object:
        return self.job.priority

    @property
    def origin(self) -> object:
        return None

    @property
    def name(self) -> str:
        return f"job {self.job.id} of type {self.job.type!r}"

    @property
    def grave(self) -> str:
        return "failed"

    @property
    def identity(self) -> Mapping[str, Any]:
        return {"job_id": self.job.id, "job_type": self.job.type}


@dataclass(frozen=True, slots=True)
class Started:
    context: JobContext
    at: float


class JobSource:
    takes_many = True
    has_parts = False
    repair: Chore | None = None
    foresee: Foresee | None = None
    """By no index: the priorities of jobs are any numbers, so all jobs would have to be read."""

    def __init__(
        self,
        side: JobSide,
        definitions: Sequence[Definition],
        settings: Settings,
        hooks: JobHooks,
        middleware: Sequence[Middleware],
    ) -> None:
        self._side = side
        self._definitions = {each.name: each for each in definitions}
        self._lowers = {
            each.name: each.stale_priority
            for each in definitions
            if each.stale_priority is not None
        }
        self._settings = settings
        self._hooks = hooks
        self._middleware = middleware
        self._log = ExecutionLog(side, settings.worker_id)
        self._load = Load(definitions, worker_id=settings.worker_id, default_lease=side.lease)
        # Two claims that do not know of each other could together exceed a cap.
        self._claiming = anyio.Lock()
        self._opening = anyio.Lock()
        self._is_open = False
        self._started: dict[str, Started] = {}

    @property
    def reconcile(self) -> Chore | None:
        return lambda: self._reconcile()

    @property
    def separate(self) -> Callable[[], Separate[LeasedJob]] | None:
        opens = self._side.separate
        return None if opens is None else partial(_separate, opens)

    @property
    def watch(self) -> TellSleeper | None:
        return self._side.watch

    async def _reconcile(self) -> object:
        """Put jobs where claims find them, and let recurring ones go on that somebody has ended."""
        await self._side.revive(each for each in self._definitions.values() if each.is_recurring)
        return await self._side.reconcile()

    async def claim(self, n: int, floor: int) -> Sequence[LeasedJob]:
        """Lease jobs of every priority: the floor of a pool of jobs is always the lowest."""
        await self._open()
        async with self._claiming if self._load.is_capped else nullcontext():
            demand = self._load.demand()
            jobs = [] if demand is None else await self._claim(demand, n)
            for job in jobs:
                self._load.add(job.type)
        return [LeasedJob(job, self._load.lease_of(job.type)) for job in jobs]

    async def _claim(self, demand: Demand, n: int) -> list[Job]:
        return await self._side.claim(replace(demand, lowers=self._lowers), n)

    async def _open(self) -> None:
        """Before the first claim the stored definitions are brought up to date."""
        if self._is_open:
            return
        async with self._opening:
            if not self._is_open:
                await self._side.open(tuple(self._definitions.values()))
                self._is_open = True

    def refusal(self, work: LeasedJob) -> Outcome | None:
        return refusal(work.job, self._of(work), now=self._side.now())

    async def handle(self, work: LeasedJob, hold: Hold) -> Outcome:
        job, definition = work.job, self._of(work)
        context = JobContext(job, hold, lease=work.visibility)
        try:
            with at_work_on(context):
                async with guarded(self._hooks.guard, job) as stay:
                    await self._begin(work, context)
                    if self._middleware:
                        hold.begin()
                    handler = partial(run, definition, hold, stay)
                    return succeeded(await passed(self._middleware, context, handler))
        except GuardRefused as error:
            delay = max(self._settings.poll_interval, GUARD_SECONDS)
            logger.info("%s rests for %g s: its guard raised %s", work.name, delay, error)
            return JobOutcome(verb="release", delay=delay, reason=str(error))

    async def _begin(self, work: LeasedJob, context: JobContext) -> None:
        self._started[work.token] = started = Started(context, self._side.now())
        await self._log.begin(work.job, self._of(work).keep_history, started_at=started.at)

    async def judge(self, work: LeasedJob, error: BaseException) -> Outcome:
        definition, started = self._of(work), self._started.get(work.token)
        answer = error if isinstance(error, ANSWERS) else None
        if answer is None and definition.on_error is not None and started is not None:
            answer = await asked(definition.on_error, error, started.context, work.name)
        policy, now = self._settings.backoff, self._side.now()
        return after_error(error, answer, work.job, definition, policy=policy, now=now)

    def is_expected(self, work: LeasedJob, error: BaseException) -> bool:
        return isinstance(error, ANSWERS)

    async def settle(self, work: LeasedJob, outcome: Outcome) -> bool:
        job, definition = work.job, self._of(work)
        if outcome.verb == "ack":
            if job.kind == "recurring":
                return await self._side.reschedule(job, definition, outcome.reason)
            return await self._side.ack(job)
        if outcome.verb == "nack":
            return await self._side.retry(job, outcome.delay, outcome.reason)
        if outcome.verb == "dead_letter":
            is_started = work.token in self._started
            return await self._side.fail(job, outcome.reason, is_started=is_started)
        return await self._side.release(job, outcome.delay, interrupted=outcome.is_interrupted)

    async def extend(self, work: LeasedJob, seconds: float) -> LeasedJob:
        return replace(work, job=await self._side.extend(work.job, seconds))

    async def ended(self, work: LeasedJob, outcome: Outcome, ending: EventKind) -> None:
        definition, started = self._of(work), self._started.pop(work.token, None)
        if started is not None:
            started.context.release()
            if ending == "lease_lost":
                await self._tell_stale(definition, started.context)
        if ending == "dead_lettered":
            starts = work.attempt if started is not None else work.attempt - 1
            await self._tell_exhausted(work, outcome, starts)
        keep = definition.keep_history
        if started is None:
            await self._log.overtake(work.job, keep)
        else:
            await self._log.end(
                work.job, keep, started_at=started.at, outcome=outcome, ending=ending
            )

    async def _tell_stale(self, definition: Definition, context: JobContext) -> None:
        if definition.stale_priority is not None and definition.lowers(context.job):
            # Nobody has it yet if it could only not be renewed; whoever has it lowers it, too.
            priority = definition.stale_priority
            await told("the stale priority", self._side.lower, context.job, priority)
        if definition.on_stale is not None:
            await told("on_stale", definition.on_stale, context)

    async def _tell_exhausted(self, work: LeasedJob, outcome: Outcome, starts: int) -> None:
        hook = self._hooks.on_exhausted
        if hook is not None and isinstance(outcome, JobOutcome) and outcome.is_exhausted:
            job = replace(work.job, state="failed", attempts=starts, last_error=outcome.reason)
            await told("on_exhausted", hook, job)

    def let_go(self, work: LeasedJob) -> None:
        self._load.remove(work.job.type)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        return self._side.subscribe(callback)

    def _of(self, work: LeasedJob) -> Definition:
        return self._definitions[work.job.type]


def _separate(opens: Callable[[], Renewing]) -> Separate[LeasedJob]:
    queue = opens()

    async def extend(works: Sequence[LeasedJob], seconds: float) -> list[LeasedJob | None]:
        extended = await queue.extend_many([work.job for work in works], seconds)
        return renewed(works, extended, lambda work, job: replace(work, job=job))

    return Separate(queue.__aenter__, extend, queue.close)
