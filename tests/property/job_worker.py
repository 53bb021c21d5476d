"""One process in a world of jobs. What it does is written to the log, and watched."""

from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

from fairlane import AsyncJobQueue, Duplicate, Enqueued, Job, JobLost, Outcome
from fairlane.jobs import NewJob
from fairlane.jobs._definition import Definition
from fairlane.jobs._drafts import OnDuplicate
from fairlane.jobs._schedule import as_stored
from property.job_log import JobLog
from property.lookout import Lookout
from property.participant import VISIBILITY, Refused
from property.walks import walk_of

__all__ = ("TYPE", "Worker")

TYPE = "t"


class Worker:
    """One process: its own queue."""

    def __init__(self, queue: AsyncJobQueue, log: JobLog, name: str, lookout: Lookout) -> None:
        self.queue = queue
        self.name = name
        self._log = log
        self._lookout = lookout

    def memory(self) -> object:
        """Return what the process remembers of its operations, of its own accord."""
        store = self.queue._store
        return store.partitioning, store._reread_at, walk_of(self.queue)

    async def enqueue(
        self, key: str | None = None, on_duplicate: OnDuplicate = "skip", **options: Any
    ) -> str | None:
        """Return the id of the job that has the key now; None if it is refused."""
        event = self._log.enqueueing(self.name, key, on_duplicate)
        try:
            told = await self.queue.enqueue(
                event, TYPE, unique_key=key, on_duplicate=on_duplicate, **options
            )
        except (Duplicate, Refused) as error:
            self._log.not_enqueued(event, "refused")
            self._log.replace_is_over(event)
            if isinstance(error, Duplicate):
                return None
            raise
        except BaseException:
            self._log.not_enqueued(event, "unknown")
            raise
        self._log.enqueued(event, told)
        self._log.replace_is_over(event)
        return told.id

    async def enqueue_many(self, *keys: str | None) -> None:
        """Enqueue jobs with these keys, of which one may be taken."""
        events = [self._log.enqueueing(self.name, key, "skip") for key in keys]
        jobs = [NewJob(event, unique_key=key) for event, key in zip(events, keys, strict=True)]
        try:
            told = await self.queue.enqueue_many(jobs, TYPE)
        except BaseException:
            for event in events:
                self._log.not_enqueued(event, "unknown")
            raise
        for event, key, job_id in zip(events, keys, told.ids, strict=True):
            if job_id is None:
                self._log.not_enqueued(event, "unknown")
            else:
                is_new = key is None or not told.skipped
                self._log.enqueued(event, Enqueued(id=job_id, created=is_new))

    async def claim(self) -> Job | None:
        jobs = await self._claim(self._claim_one())
        return jobs[0] if jobs else None

    async def _claim_one(self) -> list[Job]:
        job = await self.queue.claim(TYPE, worker_id=self.name, lease=VISIBILITY)
        return [] if job is None else [job]

    async def claimed(self) -> Job:
        """Claim where there is something to claim."""
        job = await self.claim()
        assert job is not None, "nothing to claim"
        return job

    async def claim_many(self, n: int) -> list[Job]:
        claiming = self.queue.claim_many(n, TYPE, worker_id=self.name, lease=VISIBILITY)
        return await self._claim(claiming)

    async def _claim(self, claiming: Coroutine[Any, Any, list[Job]]) -> list[Job]:
        former = self._log.unseen(self.name)
        with self._lookout.claim(self.name) as look:
            look.returned = jobs = await claiming
        for job in jobs:
            self._log.delivered(job, VISIBILITY)
        if not look.is_disturbed:
            self._log.nothing_kept(self._log.unseen(self.name) - former)
        return jobs

    async def ack(self, job: Job) -> bool:
        return await self._settle("ack", job, self.queue.ack(job), is_final=True)

    async def fail(self, job: Job) -> bool:
        return await self._settle("fail", job, self.queue.fail(job), is_final=True)

    async def release(self, job: Job) -> bool:
        return await self._settle("release", job, self.queue.release(job))

    async def nack(self, job: Job, delay: float = 0.0) -> bool:
        return await self._settle("nack", job, self.queue.nack(job, delay=delay))

    async def ack_many(self, jobs: Sequence[Job]) -> int:
        """End several; which of them were held is told only by how many."""
        for job in jobs:
            self._log.settling("ack", job)
        number = await self.queue.ack_many(jobs)
        if number in (0, len(jobs)):
            for job in jobs:
                self._log.settled("ack", job, is_accepted=number > 0, is_final=True)
        return number

    async def extend(self, job: Job) -> bool:
        try:
            self._log.extended(await self.queue.extend(job, VISIBILITY))
        except JobLost:
            return False
        return True

    async def cancel(self, key: str) -> bool:
        self._log.cancelling(key)
        try:
            is_cancelled = await self.queue.cancel(key)
        except Refused:
            self._log.cancelled(key, is_cancelled=False)
            raise
        self._log.cancelled(key, is_cancelled=is_cancelled)
        return is_cancelled

    async def reclaim(self) -> object:
        return await self.queue.reclaim_stale()

    async def redrive(self) -> int:
        self._log.redriving()
        number = await self.queue.redrive()
        self._log.redriven()
        return number

    async def define(self, definition: Definition) -> None:
        assert definition.schedule is not None
        schedule = as_stored(definition.schedule)
        self._log.defining(definition.name, schedule)
        await self.queue.working_side().open([definition])
        self._log.has_defined(definition.name, schedule)

    async def claim_tick(self, definition: Definition) -> Job | None:
        job = await self.queue.claim(definition.name, worker_id=self.name, lease=VISIBILITY)
        if job is not None:
            self._log.delivered(job, VISIBILITY)
        return job

    async def fire(self, job: Job, definition: Definition) -> bool:
        """End a run, as its worker does when the handler has returned."""
        firing = self.queue.working_side().reschedule(job, definition, None)
        return await self._settle("fire", job, firing, is_final=True)

    async def remove(self, name: str) -> bool:
        self._log.removing(f"recurring:{name}")
        return await self.queue.remove_recurring(name)

    async def _settle(
        self,
        verb: str,
        job: Job,
        settlement: Awaitable[bool | Outcome],
        *,
        is_final: bool = False,
    ) -> bool:
        self._log.settling(verb, job)
        try:
            told = await settlement
        except Refused:
            self._log.not_settled(verb, job)
            raise
        is_final = is_final or told is Outcome.FAILED
        self._log.settled(verb, job, is_accepted=bool(told), is_final=is_final)
        return bool(told)
