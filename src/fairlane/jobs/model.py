"""The values that the job queue hands out. All are immutable."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Literal

__all__ = (
    "Enqueued",
    "EnqueuedMany",
    "Execution",
    "Job",
    "JobStats",
    "Kind",
    "Outcome",
    "Reclaimed",
    "Recurrence",
    "State",
)

Kind = Literal["event", "recurring"]
State = Literal["pending", "processing", "done", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """What the record of a recurring job said about its runs when it was read.

    Attributes:
        definition: tells whether the definition has been changed since.
        schedule: as stored.
        misfire: what becomes of missed ticks.
        priority: of every run, whatever became of it in the last one.
    """

    definition: str
    schedule: Mapping[str, Any]
    misfire: str
    priority: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job, as it was when it was read.

    Attributes:
        id: names it.
        type: what kind of work it is.
        payload: any BSON value.
        state: "pending", "processing", "done" or "failed".
        priority: higher ones are claimed first.
        attempts: how often it was started; of a claimed job this start included.
        max_attempts: so many starts it gets before it fails.
        interrupted: how often its handler was stopped besides, by the end of its worker.
        created_at: server time at which it was enqueued.
        available_at: epoch seconds on the server's clock: claimable from then on; of a claimed job
            the end of its lease. None for a job that has ended.
        token: of the lease, by which a claimed job is settled; None for one only looked at.
        epoch: fencing number; grows with every lease of the job.
        unique_key: of which its type has one job at a time that has not ended.
        locked_by, locked_at: who claimed it last, and when.
        last_error: what the last `nack` or `fail` said.
        done_at: when it ended.
        result: what `ack` was given.
        kind: "event", or "recurring" for the record of a recurring job.
        was_stale: whether a worker that started it before has died, or has lost its lease; known of
            a claimed job.
        scheduled_at: of a recurring job the moment that its schedule names for this run.
        recurrence: of a recurring job, for the workers.
    """

    id: str
    type: str
    payload: Any
    state: State
    priority: int
    attempts: int
    max_attempts: int
    created_at: datetime
    available_at: float | None = None
    token: str | None = None
    epoch: int = 0
    interrupted: int = 0
    unique_key: str | None = None
    locked_by: str | None = None
    locked_at: datetime | None = None
    last_error: str | None = None
    done_at: datetime | None = None
    result: Any = field(default=None, repr=False)
    kind: Kind = "event"
    was_stale: bool = False
    scheduled_at: datetime | None = None
    recurrence: Recurrence | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One execution of a job by a worker, from its history.

    Attributes:
        id: the token of its lease.
        job_id, type: of the job.
        attempt: number of this start.
        worker_id: of the pool.
        started_at: server time.
        ended_at: server time; None while it runs.
        outcome: "success", "retry", "failed", "discarded", "released" (given back by `Snooze`),
            "interrupted" (given back when the pool was stopped), "stale" (the lease was lost) or
            "unsettled" (nobody answered). "running" until it is known: if the worker has died,
            until a pool claims the job again, which makes it "stale".
        error: what went wrong.
        result: what the handler returned, if BSON can hold it.
    """

    id: str
    job_id: str
    type: str
    attempt: int
    worker_id: str
    started_at: datetime
    ended_at: datetime | None
    outcome: str
    error: str | None = None
    result: Any = field(default=None, repr=False)

    @property
    def duration(self) -> float | None:
        """Seconds; None while it runs."""
        return None if self.ended_at is None else (self.ended_at - self.started_at).total_seconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """What became of one job.

    Attributes:
        id: of the job, or of the one that has its unique key already.
        created: whether it is a new one.
        replaced: whether the one that was there waits with the new payload and options now.
    """

    id: str
    created: bool
    replaced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueuedMany:
    """What became of several jobs.

    Attributes:
        ids: of each job in order, as in `Enqueued`; None where there was an error.
        created: how many are new.
        skipped: how many had a unique key that was taken, and changed nothing.
        replaced: how many changed the one that was there.
        errors: the index of each bad item, and what is wrong with it.
    """

    ids: tuple[str | None, ...]
    created: int
    skipped: int
    replaced: int
    errors: tuple[tuple[int, Exception], ...]


class Outcome(Enum):
    """What a `nack` did. LOST, as a truth, is false."""

    RETRY = "it will be started again"
    FAILED = "that was its last attempt"
    LOST = "the lease was over; nothing was changed"

    def __bool__(self) -> bool:
        return self is not Outcome.LOST


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaimed:
    """What `reclaim_stale` did: jobs that are pending again, and those that had no attempt left."""

    requeued: int
    failed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStats:
    """A count of jobs, taken in one look.

    Attributes:
        ready: claimable now, those with an expired lease included.
        delayed: pending, and not due yet.
        processing: under a live lease.
        done, failed: ended, and kept.
        total: all of them.
        oldest_age: seconds since the oldest job that is ready was enqueued; None if none is.
        by_type: the same for each type; empty in there.
    """

    ready: int = 0
    delayed: int = 0
    processing: int = 0
    done: int = 0
    failed: int = 0
    total: int = 0
    oldest_age: float | None = None
    by_type: Mapping[str, "JobStats"] = field(default_factory=dict)
