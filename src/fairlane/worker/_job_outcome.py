"""Decide what becomes of a job. Nothing here waits, writes or reads a clock."""

from dataclasses import dataclass
from typing import Any, Literal

from fairlane.jobs import Definition, Job
from fairlane.retry import (
    STANDARD,
    Discard,
    Reject,
    Retry,
    RetryPolicy,
    Snooze,
    backoff_for,
)
from fairlane.worker._outcome import Outcome, delay_of, reason_of

__all__ = ("Answer", "JobOutcome", "Label", "after_error", "refusal", "succeeded")

Answer = Retry | Snooze | Reject | Discard

Label = Literal["success", "retry", "failed", "discarded", "released"]

EXHAUSTED = "no attempt is left: each of its workers died, or lost its lease"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome(Outcome):
    """How the lease of a job ends, and what its history says.

    `ack` ends an event job, and lets a recurring one wait for its next tick.
    """

    label: Label = "released"
    result: Any = None
    is_exhausted: bool = False


def succeeded(result: Any) -> JobOutcome:
    return JobOutcome(verb="ack", label="success", result=result)


def refusal(job: Job, definition: Definition, *, now: float) -> JobOutcome | None:
    """Refuse a job that is not to be started, though it was claimed."""
    if job.kind == "event":
        if job.attempts <= job.max_attempts:
            return None
        return JobOutcome(verb="dead_letter", label="failed", reason=EXHAUSTED, is_exhausted=True)
    if not definition.is_recurring:
        reason = f"{job.type!r} is no recurring job any more"
        return JobOutcome(verb="dead_letter", label="failed", reason=reason)
    if job.attempts > definition.attempts_of_a_run:
        return JobOutcome(verb="ack", label="failed", reason=EXHAUSTED)
    tick = job.scheduled_at
    if tick is not None and job.attempts == 1 and definition.misses(tick.timestamp(), now):
        return JobOutcome(verb="ack", label="discarded", reason="too late for this run")
    return None


def after_error(
    error: BaseException,
    answer: Answer | None,
    job: Job,
    definition: Definition,
    *,
    policy: RetryPolicy,
    now: float,
) -> JobOutcome:
    """Answer an error of the handler: `answer` is what it was, or what `on_error` says to it."""
    reason = reason_of(error)
    is_recurring = job.kind == "recurring"
    if isinstance(answer, Discard):
        return JobOutcome(verb="ack", label="discarded", reason=reason)
    if isinstance(answer, Snooze):
        return JobOutcome(verb="release", label="released", delay=answer.delay, reason=reason)
    backoff = backoff_for(error, definition.retry or policy)
    last = definition.attempts_of_a_run if is_recurring else job.max_attempts
    is_rejected = isinstance(answer, Reject) or (backoff is None and answer is None)
    if is_rejected or job.attempts >= last:
        return JobOutcome(
            verb="ack" if is_recurring else "dead_letter",
            label="failed",
            reason=reason,
            is_exhausted=not is_rejected and not is_recurring,
        )
    delay = delay_of(answer or error, job.attempts, backoff or STANDARD, now=now)
    return JobOutcome(verb="nack", label="retry", delay=delay, reason=reason)
