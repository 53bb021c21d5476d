"""The real job queue beside its model: each step is done to both, and what comes of it compared."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fairlane import Duplicate, Job, JobLost, schema
from fairlane.jobs import NewJob
from fairlane.jobs._drafts import OnDuplicate
from property.comparison import same
from property.job_programs import every
from property.job_subject import JobSubject
from property.model_job import Entry
from property.model_queue import ModelQueue
from property.world import HOUR

__all__ = ("TICK", "JobComparison", "Move")

Move = tuple[str, Mapping[str, Any]]
"""A way to settle: the verb and its options."""

TICK = "tick"
LEASE = 30.0
MOST_ATTEMPTS = 3
MOST_LEFT = 500


class JobComparison:
    """One run. Every method fails if the queue does anything that its model does not."""

    def __init__(self, subject: JobSubject) -> None:
        subject.reset()
        self.clock = subject.clock
        self.model = ModelQueue(
            subject.clock, lambda key: schema.partition_of(key, subject.partitions)
        )
        self._subject = subject
        self._queue = subject.queue
        self._run = subject.run
        self._numbers = itertools.count(1)
        self._epochs: dict[str, int] = {}
        self._tokens: set[str] = set()

    def enqueue(self, new: NewJob, on_duplicate: OnDuplicate = "skip") -> None:
        entry = self._entry(new)
        adding = self._queue.enqueue(
            entry.payload,
            entry.type,
            priority=entry.priority,
            delay=new.delay,
            max_attempts=new.max_attempts,
            unique_key=new.unique_key,
            on_duplicate=on_duplicate,
        )
        try:
            told = self._run(adding)
        except Duplicate:
            assert on_duplicate == "raise"
            assert self.model.rival(entry.type, entry.key), f"{entry.key} is free"
            return
        entry.id = told.id
        expected, is_created, is_replaced = self.model.enqueue(entry, on_duplicate)
        assert not (on_duplicate == "raise" and not is_created), f"{entry.key} is taken"
        same("enqueued", (told.created, told.replaced), (is_created, is_replaced))
        same("id", told.id, expected.id)

    def enqueue_many(self, jobs: Sequence[NewJob], on_duplicate: OnDuplicate) -> None:
        """Those without a key are all new; of the others each is told its own way."""
        entries = [self._entry(new) for new in jobs]
        items = [
            NewJob(
                *(entry.payload, new.type, new.priority, new.delay, None),
                *(new.max_attempts, new.unique_key),
            )
            for entry, new in zip(entries, jobs, strict=True)
        ]
        told = self._run(self._queue.enqueue_many(items, on_duplicate=on_duplicate))
        counts = [0, 0, 0, 0]
        for entry, id in zip(entries, told.ids, strict=True):
            if id is None or (on_duplicate == "raise" and self.model.rival(entry.type, entry.key)):
                assert id is None
                assert self.model.rival(entry.type, entry.key)
                counts[3] += 1
                continue
            entry.id = id
            _, is_created, is_replaced = self.model.enqueue(entry, on_duplicate)
            counts[0 if is_created else 1 if is_replaced else 2] += 1
        same(
            "created, replaced, skipped, errors",
            [told.created, told.replaced, told.skipped, len(told.errors)],
            counts,
        )

    def claim(self, types: Sequence[str] = (), lease: float = LEASE) -> Job | None:
        job = self._run(self._queue.claim(*types, worker_id="w", lease=lease))
        self._expect_claimed(job, types, lease)
        return job

    def claim_many(self, n: int, types: Sequence[str], lease: float = LEASE) -> list[Job]:
        jobs = self._run(self._queue.claim_many(n, *types, worker_id="w", lease=lease))
        assert len(jobs) <= n, f"{len(jobs)} jobs instead of {n}"
        ended = self._exhausted_by_claim(types)
        for entry in ended:
            self.model.exhaust(entry)
        for job in jobs:
            self._expect_first(job, types, lease)
        left = self.model.due(types)
        assert not left or len(jobs) + len(ended) >= n, f"{len(jobs)} jobs, and {left} are due"
        return jobs

    def settle(self, job: Job, move: Move) -> bool:
        verb, options = move
        told = bool(self._run(getattr(self._queue, verb)(job, **options)))
        entry = self.model.held(job.id, job.token)
        same(f"accepted {verb}", told, entry is not None)
        if entry is not None:
            told_to = {name: value for name, value in options.items() if name != "error"}
            getattr(self.model, verb)(entry, **told_to)
        return told

    def ack_many(self, jobs: Sequence[Job]) -> None:
        number = self._run(self._queue.ack_many(jobs))
        held = [entry for job in jobs if (entry := self.model.held(job.id, job.token))]
        for entry in held:
            self.model.ack(entry)
        same("acked", number, len(held))

    def extend(self, job: Job, lease: float) -> Job | None:
        """Return the extended job; None if its lease is lost."""
        extended: Job | None
        try:
            extended = self._run(self._queue.extend(job, lease))
        except JobLost:
            extended = None
        entry = self.model.held(job.id, job.token)
        same("accepted extend", extended is not None, entry is not None)
        if extended is not None and entry is not None:
            self.model.extend(entry, lease)
            same("end", extended.available_at, entry.due)
        return extended

    def reclaim(self, type: str | None) -> None:
        same("reclaimed", self._run(self._queue.reclaim_stale(type=type)), self.model.reclaim(type))

    def cancel(self, id: str) -> None:
        same("cancelled", self._run(self._queue.cancel(id)), self.model.cancel(id))
        self._forget_recurring()

    def redrive(self, id: str | None = None, type: str | None = None) -> None:
        number = self._run(self._queue.redrive(id, type=type))
        same("redriven", number, self.model.redrive(id, type))

    def purge(self, type: str | None) -> None:
        same("purged", self._run(self._queue.purge(type)), self.model.purge(type))

    def force(self, id: str, verb: str, state: str) -> None:
        forced = self._run(getattr(self._queue, f"force_{verb}")(id))
        same("forced", forced, self.model.force(id, state))

    def define(self, period: float) -> None:
        self._run(self._queue.working_side().open([every(period)]))
        self.model.define(TICK, period, next(self._numbers))

    def fire(self, job: Job, period: float) -> bool:
        """End a run as a worker does whose program has this definition, maybe an old one."""
        told = self._run(self._queue.working_side().reschedule(job, every(period), None))
        entry = self.model.held(job.id, job.token)
        same("accepted fire", told, entry is not None)
        if entry is not None:
            self.model.fire(entry)
        return told

    def remove(self) -> None:
        told = self._run(self._queue.remove_recurring(TICK))
        same("removed", told, self.model.jobs.pop(f"recurring:{TICK}", None) is not None)
        self._forget_recurring()

    def stored(self) -> None:
        """Compare everything that is stored with what the model holds."""
        stored = self._subject.stored()
        same("jobs", stored.keys(), self.model.jobs.keys())
        for entry in self.model.numbered():
            same(f"job {entry.number}", _shown(stored[entry.id]), _expected(entry))
        same("stats", self._run(self._queue.stats()), self.model.stats())

    def drain(self) -> None:
        """What the model holds comes, all of it; then nothing is left that is due."""
        self.clock.advance(HOUR)
        for _ in range(MOST_LEFT):
            job = self.claim()
            if job is None:
                break
            if job.kind == "recurring":
                assert self.fire(job, self.model.jobs[job.id].period)
            else:
                assert self.settle(job, ("ack", {}))
        self.stored()
        left = [each for each in self.model.jobs.values() if each.is_alive and each.tick is None]
        same("left", left, [])

    def next_due(self) -> float:
        """Return when the next job becomes claimable that is not; infinity if there is none."""
        times = [job.due for job in self.model.jobs.values() if job.is_alive]
        return min((each for each in times if each > self.clock()), default=math.inf)

    def _forget_recurring(self) -> None:
        """A recurring job that is defined again has its id again, but epochs from the first on."""
        if f"recurring:{TICK}" not in self.model.jobs:
            self._epochs.pop(f"recurring:{TICK}", None)

    def _entry(self, new: NewJob) -> Entry:
        number, now = next(self._numbers), self.clock()
        return Entry(
            number,
            "",
            new.type or "",
            number,
            new.priority or 0,
            now + float(new.delay or 0.0),  # type: ignore[arg-type]
            now,
            new.max_attempts or MOST_ATTEMPTS,
            key=new.unique_key,
        )

    def _expect_claimed(self, job: Job | None, types: Sequence[str], lease: float) -> None:
        ended = self._exhausted_by_claim(types)
        passed = [entry for entry in self.model.due(types) if entry.is_exhausted]
        if job is None:
            same("exhausted", ended, passed)
        else:
            found = self.model.jobs[job.id]
            place = self.model.partition_of(job.id)
            for entry in passed:
                if self.model.partition_of(entry.id) == place and entry.order != found.order:
                    same("exhausted", entry in ended, entry.order < found.order)
        for entry in ended:
            self.model.exhaust(entry)
        if job is None:
            left = self.model.due(types)
            assert not left, f"nothing claimed, but {left} are due"
        else:
            self._expect_first(job, types, lease)

    def _exhausted_by_claim(self, types: Sequence[str]) -> list[Entry]:
        """Return the jobs without an attempt left that a claim has met and ended."""
        stored = self._subject.stored()
        passed = [entry for entry in self.model.due(types) if entry.is_exhausted]
        return [entry for entry in passed if stored[entry.id]["state"] == "failed"]

    def _expect_first(self, job: Job, types: Sequence[str], lease: float) -> None:
        first = self.model.first(types)
        entry = self.model.jobs[job.id]
        assert entry in first, f"claimed {entry}, first in line are {first}"
        assert job.token is not None
        assert job.token not in self._tokens, "a token is used again"
        self._tokens.add(job.token)
        entry.lease(job.token, self.clock() + lease)
        same("payload", job.payload, entry.payload)
        same("attempts", job.attempts, entry.attempts)
        same("interrupted", job.interrupted, entry.interrupted)
        same("end", job.available_at, entry.due)
        assert job.epoch > self._epochs.get(job.id, 0), f"epoch {job.epoch} again"
        self._epochs[job.id] = job.epoch


def _expected(entry: Entry) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "state": entry.state,
        "payload": entry.payload,
        "priority": entry.priority,
        "attempts": entry.attempts,
        "interrupted": entry.interrupted,
        "max_attempts": entry.max_attempts,
        "last_error": entry.last_error,
        "scheduled_at": entry.tick,
    }
    if entry.is_alive:
        live = {"available_at": entry.due, "token": entry.holder, "unique_key": entry.key}
        return {**shown, **live}
    return shown


def _shown(job: Mapping[str, Any]) -> dict[str, Any]:
    names = ["state", "payload", "priority", "attempts", "max_attempts", "last_error"]
    names += ["interrupted", "scheduled_at"]
    if "available_at" in job:
        names += ["available_at", "token", "unique_key"]
    return {name: job.get(name) for name in names}
