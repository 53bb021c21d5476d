"""What every job is owed: a rule for each kind of breach, which says what was broken. Pure.

- overlapping: a handler started while another one worked on the job;
- not_once: a job, or a tick of the recurring one, ended twice or never, or was started after its
  end;
- wrong_end: a job ended otherwise than planned, or with attempts left that it was to use;
- lost: an enqueued job is not there, or is done though no handler finished it;
- stuck: a job has not ended, or the recurring one does not wait for its next tick;
- miscounted: the stored attempts are not the starts, and what a killed worker had leased besides;
- unfenced: a start whose lease is not newer than that of the start before;
- early: a job was started before it was due;
- duplicated: a second job of a unique key while the first one was alive, or calls of `enqueue` that
  do not agree on which of them made a job;
- unexpected: a job that was never enqueued, or never like that.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Literal, get_args

from fairlane.cli.demo.breach import overlaps
from fairlane.cli.demo.jobs.case import Case
from fairlane.cli.demo.records import digest
from fairlane.cli.demo.wording import counted

__all__ = ("KINDS", "RULES", "RULES_OF_TICKS", "Kind", "due_at")

Kind = Literal[
    "overlapping",
    "not_once",
    "wrong_end",
    "lost",
    "stuck",
    "miscounted",
    "unfenced",
    "early",
    "duplicated",
    "unexpected",
]
KINDS: tuple[Kind, ...] = get_args(Kind)

Rule = Callable[[Case], Iterator[str]]

SECOND = 1_000_000_000
SLACK = SECOND // 4
"""How far the clocks of enqueuer and claimer may be apart: each is wrong by half a round trip."""


def due_at(case: Case) -> int:
    """Return when a job was due at the earliest, in nanoseconds."""
    return case.enqueued_at + round(case.job.delay * SECOND)


def _overlapping(case: Case) -> Iterator[str]:
    for start, running in overlaps(case.starts):
        yield f"was started by {start.worker} while {running.worker} worked on it"


def _not_once(case: Case) -> Iterator[str]:
    yield from _ended_once(case, is_over=case.has_ended)


def _ended_once(case: Case, *, is_over: bool) -> Iterator[str]:
    number = len(case.endings)
    if number > 1 or (number == 0 and is_over and not case.is_end_unseen):
        yield f"ended {counted(number, 'time')}"
    for start in case.starts:
        if any(ending.settled_at < start.started_at for ending in case.endings):
            yield f"was started by {start.worker} after its end"


def _wrong_end(case: Case) -> Iterator[str]:
    kind, stored = case.job.kind, case.stored
    if stored is None or not case.has_ended:
        return
    if stored.state != kind.ends:
        yield f"ended as {stored.state}, not as {kind.ends}"
    elif kind.uses_all and stored.attempts < kind.max_attempts:
        yield f"failed after {stored.attempts} of {kind.max_attempts} attempts"


def _lost(case: Case) -> Iterator[str]:
    yield from _missing(case)
    is_finished = any(start.outcome == case.job.kind.closes for start in case.starts)
    if case.stored is not None and case.stored.state == "done" and not is_finished:
        yield "is done, but no handler finished it"


def _missing(case: Case) -> Iterator[str]:
    if case.stored is None:
        yield "is not stored"


def _stuck(case: Case) -> Iterator[str]:
    if case.stored is not None and not case.has_ended:
        yield f"is {case.stored.state} still"


def _miscounted(case: Case) -> Iterator[str]:
    starts, unstarted = len(case.starts), case.unstarted
    if case.stored is not None and case.stored.attempts != starts + unstarted:
        told = f"was started {counted(starts, 'time')}"
        besides = (
            f", and leased {counted(unstarted, 'time')} by a killed worker" if unstarted else ""
        )
        yield f"{told}{besides}, but counts {counted(case.stored.attempts, 'attempt')}"
    for before, start in pairwise(start.delivery.attempt for start in case.starts):
        if start <= before:
            yield f"was told attempt {start} after attempt {before}"


def _unfenced(case: Case) -> Iterator[str]:
    for before, start in pairwise(start.delivery.seq for start in case.starts):
        if start <= before:
            yield f"was started with epoch {start} after epoch {before}"


def _early(case: Case) -> Iterator[str]:
    for start in case.starts[:1]:
        if start.started_at < due_at(case) - SLACK:
            early = (due_at(case) - start.started_at) / SECOND
            yield f"was started {early:.2f} s before it was due"


def _duplicated(case: Case) -> Iterator[str]:
    """Two jobs of one key are looked for elsewhere; here it is two calls that made one job."""
    makers = sum(call.is_created for call in case.placed)
    if makers != 1:
        yield f"was made by {makers} calls"
    strangers = {call.job.index for call in case.placed} - {case.job.index}
    yield from (f"was returned for job {index} as well" for index in sorted(strangers))


def _unexpected(case: Case) -> Iterator[str]:
    enqueued = case.job.index, digest(case.job.payload())
    for start in case.starts:
        if (start.delivery.index, start.delivery.digest) != enqueued:
            yield f"was started by {start.worker} with another payload"


def _tick_stuck(case: Case) -> Iterator[str]:
    if case.stored is not None and (case.stored.state != "pending" or case.stored.is_leased):
        yield f"is {case.stored.state} when all workers have gone"


def _tick_not_once(case: Case) -> Iterator[str]:
    latest = case.starts[-1].delivery.index if case.starts else None
    for tick, run in case.ticks():
        for detail in _ended_once(run, is_over=tick != latest):
            yield f"at its tick {tick} {detail}"
    for before, start in pairwise(start.delivery.index for start in case.starts):
        if start < before:
            yield f"went back to its tick {start}"


RULES: dict[Kind, Rule] = {
    "overlapping": _overlapping,
    "not_once": _not_once,
    "wrong_end": _wrong_end,
    "lost": _lost,
    "stuck": _stuck,
    "miscounted": _miscounted,
    "unfenced": _unfenced,
    "early": _early,
    "duplicated": _duplicated,
    "unexpected": _unexpected,
}

RULES_OF_TICKS: dict[Kind, Rule] = {
    "overlapping": _overlapping,
    "not_once": _tick_not_once,
    "lost": _missing,
    "stuck": _tick_stuck,
    "unfenced": _unfenced,
}
