"""Random programs for the job queue and its model.

After every step all that is stored, and the statistics, are what the model holds. At the end
everything is drained, which must bring exactly what the model still holds.
"""

import math
import sys

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

from fairlane import Job
from fairlane.jobs import NewJob
from fairlane.jobs._drafts import OnDuplicate
from property.job_comparison import TICK, JobComparison, Move
from property.job_subject import JobSubject

__all__ = ("JobMachine",)

Jobs = MultipleResults[Job]

TYPES = ("a", "b")
MOVES: tuple[Move, ...] = (
    ("ack", {}),
    ("ack", {}),
    ("nack", {"error": "why"}),
    ("nack", {"error": "why", "delay": 20.0}),
    ("fail", {"error": "why"}),
    ("release", {}),
    ("release", {"interrupted": True}),
)
FORCES = (("ack", "done"), ("fail", "failed"), ("release", "pending"))
BACKLOG = 12
"""With so many jobs no more come by the dozen."""

new_jobs = st.builds(
    NewJob,
    payload=st.none(),
    type=st.sampled_from(TYPES),
    priority=st.sampled_from((0, 0, 3)),
    delay=st.sampled_from((None, None, 20.0)),
    max_attempts=st.sampled_from((None, 1, 2)),
    unique_key=st.sampled_from((None, None, "k", "l")),
)
duplicates: st.SearchStrategy[OnDuplicate] = st.sampled_from(("skip", "replace", "raise"))
wanted = st.sampled_from(((), ("a",), ("b",), ("a", "b"), (TICK,)))
type_or_all = st.sampled_from((None, *TYPES))
leases_for = st.sampled_from((10.0, 30.0))
moves = st.sampled_from(MOVES)
periods = st.sampled_from((40.0, 90.0))
waits = st.sampled_from((0.25, 5.0, 10.0, 20.0, 30.0, 90.0))
"""Small ones, to the end of a lease or a delay, past it. Their sums are exact."""


class JobMachine(RuleBasedStateMachine):
    leases: Bundle[Job] = Bundle("leases")
    """Jobs that were claimed and not settled yet: held, run out, or claimed by another."""
    spent: Bundle[Job] = Bundle("spent")
    """Jobs that were settled, or whose settlement was refused."""

    def __init__(self, subject: JobSubject) -> None:
        super().__init__()
        self.both = JobComparison(subject)
        self.model = self.both.model

    @rule(new=new_jobs, on_duplicate=duplicates)
    def enqueue(self, new: NewJob, on_duplicate: OnDuplicate) -> None:
        self.both.enqueue(new, "skip" if new.unique_key is None else on_duplicate)

    @precondition(lambda self: len(self.model.jobs) < BACKLOG)
    @rule(jobs=st.lists(new_jobs, min_size=1, max_size=4), on_duplicate=duplicates)
    def enqueue_many(self, jobs: list[NewJob], on_duplicate: OnDuplicate) -> None:
        self.both.enqueue_many(jobs, on_duplicate)

    @rule(target=leases, types=wanted, lease=leases_for)
    def claim(self, types: tuple[str, ...], lease: float) -> Jobs:
        job = self.both.claim(types, lease)
        return multiple() if job is None else multiple(job)

    @rule(target=leases, n=st.integers(1, 4), types=wanted, lease=leases_for)
    def claim_many(self, n: int, types: tuple[str, ...], lease: float) -> Jobs:
        return multiple(*self.both.claim_many(n, types, lease))

    @rule(target=spent, move=moves)
    def claim_and_settle(self, move: Move) -> Jobs:
        job = self.both.claim(TYPES)
        if job is None:
            return multiple()
        assert self.both.settle(job, move)
        return multiple(job)

    @rule(target=spent, job=consumes(leases), move=moves, period=periods)
    def settle(self, job: Job, move: Move, period: float) -> Job:
        self._settle(job, move, period)
        return job

    @rule(
        target=spent,
        held=st.lists(consumes(leases), min_size=1, max_size=4),
        settled=st.lists(spent, max_size=1),
    )
    def ack_many(self, held: list[Job], settled: list[Job]) -> Jobs:
        jobs = [job for job in (*settled, *held) if job.kind == "event"]
        self.both.ack_many(jobs)
        return multiple(*held)

    @rule(target=leases, job=consumes(leases), lease=leases_for)
    def extend(self, job: Job, lease: float) -> Job:
        return self.both.extend(job, lease) or job

    @rule(job=spent, move=moves, period=periods)
    def settle_again(self, job: Job, move: Move, period: float) -> None:
        assert not self._settle(job, move, period)

    @rule(type=type_or_all)
    def reclaim(self, type: str | None) -> None:
        self.both.reclaim(type)

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        self.both.cancel(self._draw(data))

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data(), force=st.sampled_from(FORCES))
    def force(self, data: st.DataObject, force: tuple[str, str]) -> None:
        job_id = self._draw(data)
        if self.model.jobs[job_id].tick is None:
            self.both.force(job_id, *force)

    @precondition(lambda self: self.model.stats().failed)
    @rule(type=type_or_all)
    def redrive(self, type: str | None) -> None:
        self.both.redrive(type=type)

    @precondition(lambda self: self.model.stats().failed)
    @rule(data=st.data())
    def redrive_one(self, data: st.DataObject) -> None:
        self.both.redrive(self._draw(data))

    @precondition(lambda self: len(self.model.jobs) >= BACKLOG)
    @rule(type=type_or_all)
    def purge(self, type: str | None) -> None:
        self.both.purge(type)

    @rule(period=periods)
    def define(self, period: float) -> None:
        self.both.define(period)

    @rule()
    def remove(self) -> None:
        self.both.remove()

    @rule(seconds=waits)
    def wait(self, seconds: float) -> None:
        self.both.clock.advance(seconds)

    @precondition(lambda self: self.both.next_due() < math.inf)
    @rule()
    def wait_until_next_job_is_due(self) -> None:
        self.both.clock.jump(self.both.next_due())

    @invariant()
    def stored_is_what_the_model_holds(self) -> None:
        self.both.stored()

    def teardown(self) -> None:
        if sys.exception() is None:  # else the run has failed, and draining would hide how
            self.both.drain()

    def _settle(self, job: Job, move: Move, period: float) -> bool:
        """Nobody acks or fails a recurring job: its runs end by waiting for the next tick."""
        if job.kind == "recurring" and move[0] in ("ack", "fail"):
            return self.both.fire(job, period)
        return self.both.settle(job, move)

    def _draw(self, data: st.DataObject) -> str:
        """Draw a job by its place: ids differ from run to run."""
        jobs = self.model.numbered()
        return jobs[data.draw(st.integers(0, len(jobs) - 1), label="place")].id
