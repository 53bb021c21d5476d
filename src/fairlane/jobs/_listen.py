"""Listen: work off the jobs of one type, one after the other, until cancelled."""

import asyncio
import inspect
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from anyio import to_thread
from pymongo.errors import PyMongoError

from fairlane.checks import is_async
from fairlane.containing import contained, deliver_cancellation
from fairlane.errors import describe
from fairlane.jobs._claim import Claimer, Request
from fairlane.jobs._settle import Settler
from fairlane.jobs._upkeep import Upkeep
from fairlane.jobs.model import Job
from fairlane.retry import Backoff, Discard, Fail, Reject, Retry, Snooze, heed
from fairlane.shield import DEADLINE, outlast

__all__ = ("Handler", "Listener", "Pace")

logger = logging.getLogger(__name__)

Handler = Callable[[Job], Awaitable[object] | object]
"""`async def handle(job)`, or `def handle(job)`, which runs in a thread."""

PAUSE = Backoff(base=0.1, cap=3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How a listener goes about it. Durations are seconds.

    Attributes:
        poll_interval: between two looks for work when there is none.
        reclaim_every: between two rounds of putting back what others have left behind.
        batch: so many jobs are claimed together.
        backoff: until a failed job is started again.
    """

    poll_interval: float
    reclaim_every: float
    batch: int
    backoff: Backoff


@dataclass(slots=True)
class Batch:
    """Jobs that were claimed together: those that are not settled, and the one at work.

    Attributes:
        begun: 1 if the handler of the first one has been called, else 0.
    """

    left: list[Job]
    renewed_at: float
    begun: int = 0
    lost: set[str] = field(default_factory=set)
    at_work: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    renewal: anyio.CancelScope = field(default_factory=lambda: anyio.CancelScope(shield=True))

    def lose(self, ids: set[str]) -> None:
        self.lost |= ids
        if self.left and self.left[0].id in ids:
            self.at_work.cancel()


class Listener:
    """Claims, calls the handler, settles. Leases of waiting jobs are renewed as that at work is."""

    def __init__(
        self,
        claimer: Claimer,
        settler: Settler,
        upkeep: Upkeep,
        *,
        handler: Handler,
        request: Request,
        pace: Pace,
    ) -> None:
        self._claimer = claimer
        self._settler = settler
        self._upkeep = upkeep
        self._handler = handler
        self._request = request
        self._pace = pace
        self._failures = 0
        self._woken = anyio.Event()

    def wake(self) -> None:
        """Look for work now: something was enqueued."""
        self._woken.set()

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._reclaim)
            while True:
                self._woken = anyio.Event()
                claimed_at = anyio.current_time()
                jobs = await self._alone(await self._claim())
                if jobs:
                    await self._work(Batch(jobs, claimed_at))
                else:
                    await self._rest(self._pace.poll_interval)

    async def _claim(self) -> list[Job]:
        try:
            jobs = await self._claimer.claim_many(self._request, self._pace.batch)
        except Exception as error:
            await self._note(error)
            return []
        self._failures = 0
        return jobs

    async def _alone(self, jobs: list[Job]) -> list[Job]:
        """Work on one that was started before by itself.

        Should it kill its worker again, no other job is charged for that.
        """
        again = next((job for job in jobs if job.attempts > 1), None)
        if again is None:
            return jobs
        await self._give_back([job for job in jobs if job is not again])
        return [again]

    async def _note(self, error: Exception) -> None:
        """Tell of the first error of an outage, and wait longer and longer."""
        self._failures += 1
        if self._failures == 1:
            logger.warning("cannot claim jobs, trying on: %s", describe(error, 300))
        await anyio.sleep(PAUSE.delay(self._failures))

    async def _rest(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._woken.wait()

    async def _work(self, batch: Batch) -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._renew, batch)
                try:
                    while batch.left:
                        # In a task of its own: a cancellation that gets here is the listener's.
                        async with anyio.create_task_group() as handling:
                            handling.start_soon(self._handle, batch)
                        del batch.left[0]
                        batch.begun = 0
                finally:  # only now: a handler that is cancelled may yet take its time
                    batch.renewal.cancel()
        finally:
            await self._give_back(batch.left, batch.begun)

    async def _handle(self, batch: Batch) -> None:
        job, error = batch.left[0], None
        with anyio.CancelScope(deadline=self._give_up_at(batch)) as batch.at_work:
            if job.id in batch.lost:
                batch.at_work.cancel()
            try:
                await anyio.lowlevel.checkpoint()
                batch.begun = 1
                await contained(self._call(job))
            except (Exception, SystemExit) as raised:
                error = raised
        if batch.at_work.cancelled_caught:
            logger.warning("job %s is somebody else's by now; it was not settled", job.id)
        else:
            await self._settle(job, error)

    async def _call(self, job: Job) -> None:
        if is_async(self._handler):
            result: Any = self._handler(job)
        else:
            result = await _in_thread(partial(self._handler, job))
        # Of a plain function, too: it may be one around a coroutine.
        heed(await result if inspect.isawaitable(result) else result)
        await deliver_cancellation()  # here it fails the job, later it would be forgotten

    async def _settle(self, job: Job, error: BaseException | None) -> None:
        try:
            is_held = await self._answer(job, error)
        except PyMongoError as failure:
            logger.warning("job %s could not be settled: %s", job.id, describe(failure, 300))
        else:
            if not is_held:
                logger.warning("job %s was somebody else's when it was to be settled", job.id)

    async def _answer(self, job: Job, error: BaseException | None) -> bool:
        """Do what the handler has said by returning or raising; False if the lease is lost."""
        if error is None or isinstance(error, Discard):
            (is_held,) = await self._settler.ack([job])
            return is_held
        if isinstance(error, Snooze):
            (is_held,) = await self._settler.release([job], error.delay)
            return is_held
        if isinstance(error, Reject | Fail):
            (is_held,) = await self._settler.fail([job], describe(error))
            return is_held
        return await self._retry(job, error)

    async def _retry(self, job: Job, error: BaseException) -> bool:
        delay = self._pace.backoff.delay(job.attempts)
        if isinstance(error, Retry):
            asked_for = error.seconds_from(self._settler.now())
            delay = delay if asked_for is None else asked_for
        else:
            line = "job %s failed, attempt %d: %s"
            logger.warning(line, job.id, job.attempts, describe(error, 300), exc_info=error)
        return bool(await self._settler.nack(job, delay, describe(error)))

    def _give_up_at(self, batch: Batch) -> float:
        return batch.renewed_at + self._request.lease * 2 / 3

    async def _renew(self, batch: Batch) -> None:
        """Renew each third of the lease, until the end of the batch.

        What could not be renewed for two thirds is lost: a handler gets the last third to end in,
        before another worker starts. Its deadline sees to that even while a renewal hangs.
        """
        period = self._request.lease / 3
        with batch.renewal:
            while True:
                again_at = anyio.current_time() + period / 4
                await anyio.sleep_until(max(batch.renewed_at + period, again_at))
                begun_at, jobs = anyio.current_time(), list(batch.left)
                held = await self._extended(jobs, period)
                if held is not None:
                    batch.renewed_at = begun_at
                    batch.at_work.deadline = self._give_up_at(batch)
                    batch.lose({job.id for job, ok in zip(jobs, held, strict=True) if not ok})
                elif anyio.current_time() - batch.renewed_at >= 2 * period:
                    batch.lose({job.id for job in jobs})

    async def _extended(self, jobs: Sequence[Job], seconds: float) -> list[bool] | None:
        """Tell of each job whether it is held for another lease; None if that cannot be told."""
        try:
            with anyio.fail_after(seconds):
                extended = await self._settler.extend_many(jobs, self._request.lease)
                return [bool(each) for each in extended]
        except (PyMongoError, TimeoutError) as error:
            logger.warning("leases could not be renewed, trying on: %s", describe(error, 300))
            return None

    async def _give_back(self, jobs: Sequence[Job], begun: int = 0) -> None:
        if not jobs:
            return
        with anyio.move_on_after(DEADLINE, shield=True):
            try:
                await self._settler.release(jobs, begun=begun)
            except PyMongoError:
                logger.warning("%d leases run out by themselves", len(jobs), exc_info=True)

    async def _reclaim(self) -> None:
        is_failing = False
        while True:
            await anyio.sleep(self._pace.reclaim_every)
            try:
                await self._upkeep.reclaim(None, self._request.types[0])
                await self._upkeep.reconcile()
            except Exception as error:
                if not is_failing:
                    logger.warning("stale jobs are not put back now: %s", describe(error, 300))
                is_failing = True
            else:
                is_failing = False


async def _in_thread(call: Callable[[], object]) -> object:
    """Run a plain function. It cannot be stopped: a cancelled wait goes on until its end.

    Its job would be somebody else's meanwhile.
    """
    task = asyncio.ensure_future(to_thread.run_sync(call))
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        with anyio.CancelScope(shield=True):
            await outlast(task, math.inf)
        if not task.cancelled():
            task.exception()  # nobody is there to hear it
        raise
    return task.result()
