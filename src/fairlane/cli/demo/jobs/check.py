"""The judge of jobs: from what was enqueued, done and stored, say what was broken. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fairlane.cli.demo.breach import Breach
from fairlane.cli.demo.causes import Cause, causes
from fairlane.cli.demo.jobs.case import Case, Evidence, cases
from fairlane.cli.demo.jobs.plan import TICKING_ID
from fairlane.cli.demo.jobs.rules import RULES, RULES_OF_TICKS, Kind, due_at

__all__ = ("Verdict", "check")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the record shows.

    Attributes:
        jobs, done, failed: how many there are, and how many ended as what.
        duplicates: calls of `enqueue` that found their unique key taken.
        ticks: how often the recurring job ran to its end.
        repeated: executions beyond the first of their job or tick, by cause.
        unstarted: leases that ended with the killed worker before it began to work.
        cut: executions that ended with their process.
        waits: nanoseconds from the moment a job was due to its first start, ascending.
        ended_at: when the last handler ended, nanoseconds; None if none did.
        breaches: every broken promise, none if all hold.
    """

    jobs: int
    done: int
    failed: int
    duplicates: int
    ticks: int
    repeated: Counter[Cause]
    unstarted: int
    cut: int
    waits: tuple[int, ...]
    ended_at: int | None
    breaches: tuple[Breach, ...]

    def count(self, kind: Kind) -> int:
        return sum(breach.kind == kind for breach in self.breaches)


def check(evidence: Evidence) -> Verdict:
    """Judge a finished run; `fairlane.cli.demo.jobs.rules` says what is a breach."""
    found = list(cases(evidence))
    jobs = [case for case in found if case.placed]
    states = Counter(case.stored.state for case in jobs if case.stored is not None)
    starts = [start for case in jobs for start in case.starts]
    return Verdict(
        jobs=len(jobs),
        done=states["done"],
        failed=states["failed"],
        duplicates=sum(not call.is_created for call in evidence.placed),
        ticks=sum(len(case.endings) for case in found if case.id == TICKING_ID),
        repeated=causes(evidence.executions, evidence.killed),
        unstarted=sum(case.unstarted for case in found),
        cut=sum(execution.outcome == "cut" for execution in evidence.executions),
        waits=tuple(
            sorted(case.starts[0].started_at - due_at(case) for case in jobs if case.starts)
        ),
        ended_at=max((start.ended_at for start in starts), default=None),
        breaches=(*_broken(found), *_duplicated(jobs), *_silent(found)),
    )


def _broken(found: Sequence[Case]) -> Iterator[Breach]:
    for case in found:
        if not case.placed and case.id != TICKING_ID:
            yield Breach(kind="unexpected", detail=f"{case} was never enqueued")
            continue
        for kind, rule in (RULES if case.placed else RULES_OF_TICKS).items():
            for detail in rule(case):
                yield Breach(kind=kind, detail=f"{case} {detail}")


def _duplicated(jobs: Sequence[Case]) -> Iterator[Breach]:
    """Two jobs of one key are right only if the first had ended when the second was made."""
    by_key: defaultdict[str, list[Case]] = defaultdict(list)
    for case in jobs:
        if case.job.unique_key is not None:
            by_key[case.job.unique_key].append(case)
    for key, rivals in by_key.items():
        for first, second in pairwise(sorted(rivals, key=lambda case: case.stored_at)):
            if first.alive_until >= second.stored_at:
                detail = f"{second} was made of the key {key!r} while {first} was alive"
                yield Breach(kind="duplicated", detail=detail)


def _silent(found: Sequence[Case]) -> Iterator[Breach]:
    if not any(case.id == TICKING_ID and case.endings for case in found):
        yield Breach(kind="stuck", detail="the recurring job never ran")
