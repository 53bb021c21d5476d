"""The rows that a pool writes about the executions of jobs; none of them holds up a job."""

from typing import Protocol

from fairlane.clock import instant
from fairlane.jobs import Execution, Job
from fairlane.worker._hooks import told
from fairlane.worker._job_outcome import JobOutcome
from fairlane.worker._outcome import Outcome
from fairlane.worker.events import EventKind

__all__ = ("ExecutionLog", "HistorySide")

NAME = "the history of jobs"
LABELS: dict[EventKind, str] = {
    "lease_lost": "stale",
    "unsettled": "unsettled",
    "released": "released",
}


class HistorySide(Protocol):
    """Where rows are kept; see `fairlane.jobs.working.WorkingSide`."""

    def now(self) -> float: ...
    async def begin(self, execution: Execution, job: Job, keep: float) -> None: ...
    async def record(self, execution: Execution, keep: float) -> None: ...
    async def overtake(self, job: Job) -> None: ...


class ExecutionLog:
    """`keep` is for how many seconds rows are kept; None for no rows."""

    def __init__(self, side: HistorySide, worker_id: str) -> None:
        self._side = side
        self._worker_id = worker_id

    async def begin(self, job: Job, keep: float | None, *, started_at: float) -> None:
        if keep is None:
            return
        row = self._row(job, started_at, ended_at=None, outcome="running")
        await told(NAME, self._side.begin, row, job, keep, is_shielded=False)
        await self.overtake(job, keep)

    async def overtake(self, job: Job, keep: float | None) -> None:
        """Tell of workers that have died with this job before it was claimed."""
        if keep is not None and job.was_stale:
            await told(NAME, self._side.overtake, job, is_shielded=False)

    async def end(
        self,
        job: Job,
        keep: float | None,
        *,
        started_at: float,
        outcome: Outcome,
        ending: EventKind,
    ) -> None:
        if keep is None:
            return
        known = outcome if isinstance(outcome, JobOutcome) else None
        is_interrupted = outcome.is_interrupted and ending == "released"
        label = LABELS.get(ending, "retry" if known is None else known.label)
        row = self._row(
            job,
            started_at,
            ended_at=self._side.now(),
            outcome="interrupted" if is_interrupted else label,
            error=outcome.reason,
            result=None if known is None else known.result,
        )
        await told(NAME, self._side.record, row, keep)

    def _row(
        self,
        job: Job,
        started_at: float,
        *,
        ended_at: float | None,
        outcome: str,
        error: str | None = None,
        result: object = None,
    ) -> Execution:
        return Execution(
            id=job.token or "",
            job_id=job.id,
            type=job.type,
            attempt=job.attempts,
            worker_id=self._worker_id,
            started_at=instant(started_at),
            ended_at=None if ended_at is None else instant(ended_at),
            outcome=outcome,
            error=error,
            result=result,
        )
