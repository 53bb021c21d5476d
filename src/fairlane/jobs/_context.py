"""What a handler is given beside its payload."""

import logging
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from fairlane import checks
from fairlane.checks import Seconds
from fairlane.errors import FairlaneError, JobLost
from fairlane.jobs.model import Job
from fairlane.model import Hold as LeaseHold
from fairlane.model import LeaseSignal

__all__ = ("Hold", "JobContext")

if TYPE_CHECKING:
    Adapter = logging.LoggerAdapter[logging.Logger]
else:
    Adapter = logging.LoggerAdapter


class Hold(LeaseHold, Protocol):
    """The hold that a worker has on a job."""

    async def extend(self, seconds: float) -> None: ...


class Extensions:
    """Extensions of one lease, one write at a time; those that wait for it become one write.

    That is for the longest of them, so none can end a lease that another one has made longer.
    """

    def __init__(self, hold: Hold) -> None:
        self._hold = hold
        self._writing = anyio.Lock()
        self._waiting = Pulse()

    async def extend(self, seconds: float) -> None:
        pulse = self._waiting
        pulse.longest = max(pulse.longest, seconds)
        async with self._writing:
            if pulse.is_written:
                return
            if pulse is self._waiting:
                self._waiting = Pulse()
            await self._hold.extend(pulse.longest)
            pulse.is_written = True


@dataclass(slots=True)
class Pulse:
    """Extensions that were asked for while another one was being written."""

    longest: float = 0.0
    is_written: bool = False


class JobContext:
    """The job at work, as its handler sees it.

    An `async def` handler is cancelled when its lease is lost; one that runs in a thread cannot be,
    and should look at `lease_lost` between its steps. The lease is renewed in the background, so
    `extend` is needed only before something that blocks the event loop.

    Attributes:
        job: as it was claimed.
        logger: adds id, type and attempt of the job to each line, as `extra`.
        lease_lost: `is_set()`, and `await wait()`.
    """

    def __init__(self, job: Job, hold: Hold, *, lease: float) -> None:
        self.job = job
        self.lease_lost: LeaseSignal = LeaseSignal(hold)
        self.logger: Adapter = _JobLogger(
            logging.getLogger("fairlane.job"),
            {"job_id": job.id, "job_type": job.type, "attempt": job.attempts},
        )
        self._hold = hold
        self._extensions = Extensions(hold)
        self._lease = lease
        self._is_over = False

    @property
    def attempt(self) -> int:
        """Number of this start of the job; 1 is the first."""
        return self.job.attempts

    @property
    def scheduled_at(self) -> datetime | None:
        """Of a recurring job the moment that its schedule names for this run."""
        return self.job.scheduled_at

    async def extend(self, lease: Seconds | None = None) -> None:
        """Hold the job for at least `lease` seconds from now, by default as long as its type says.

        From a handler in a thread: `anyio.from_thread.run(ctx.extend, 60)`. Of extensions that are
        asked for while another one is being written the longest is written, for all of them.

        Raises:
            JobLost: somebody else may have the job, or soon will; nothing was changed.
            FairlaneError: the handler has returned, and the job is settled.
        """
        seconds = self._lease if lease is None else checks.positive_seconds("lease", lease)
        if self._is_over:
            raise FairlaneError(f"job {self.job.id} has been settled: there is nothing to extend")
        if self._hold.is_lost:
            raise JobLost(self.job.id, self.job.type, self.job.epoch)
        await self._extensions.extend(seconds)

    def release(self) -> None:
        """End the context: called by the worker when the job is settled."""
        self._is_over = True


class _JobLogger(Adapter):
    """Keeps what a line says itself in `extra`, which before Python 3.13 adapters threw away."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        given: Mapping[str, object] = kwargs.get("extra") or {}
        return msg, {**kwargs, "extra": {**(self.extra or {}), **given}}
