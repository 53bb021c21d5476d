"""What is known of one job, and of one of its leases."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fairlane import Job
from fairlane.clock import instant

__all__ = ("JobHolding", "JobStory", "name_in_store", "name_of")


@dataclass(slots=True)
class JobStory:
    """What happened to what one call of enqueue asked for, or to one tick of a recurring job.

    Attributes:
        name: what tells it from others: the event that is its payload, or its id and tick.
        fate: what is known of its enqueue: "called", "stored", "refused" or "unknown".
        before: what had been stored by the time of its call.
        starts: how often it was handed out, without those that were given back.
        unseen: leases in the store that were not handed out, or not yet.
        overtaken: leases that had run out before anybody knew of them.
        unsure: releases of which it is not known whether they happened.
        tried: what was tried to end it and may have done so.
        ended_by: what has ended it.
        is_used_up: it has failed, in the store, when no attempt was left.
        may_restart: a redrive may give it all its attempts again.
        may_replace: it may yet take the place of others.
        may_meet: another one may have had its key since it was called.
    """

    name: object
    key: str | None = None
    fate: str = "called"
    job_id: str | None = None
    before: frozenset[object] = frozenset()
    starts: int = 0
    unseen: set[str] = field(default_factory=set)
    overtaken: int = 0
    unsure: int = 0
    tried: Counter[str] = field(default_factory=Counter)
    ended_by: str | None = None
    is_used_up: bool = False
    may_restart: bool = False
    may_replace: bool = False
    may_meet: bool = False

    def state(self) -> object:
        tried = tuple(sorted((+self.tried).items()))
        ending = (
            tried,
            self.ended_by or "",
            self.is_used_up,
            self.may_restart,
            self.may_replace,
            self.may_meet,
        )
        starts = self.starts, self.overtaken, self.unsure, tuple(sorted(self.unseen))
        return self.fate, self.job_id or "", tuple(sorted(map(str, self.before))), *starts, *ending

    @property
    def may_have_ended(self) -> bool:
        return self.ended_by is not None or self.is_used_up or self.tried.total() > 0

    @property
    def is_over(self) -> bool:
        """Whether it has ended for certain, and for good."""
        return (self.ended_by is not None or self.is_used_up) and not self.may_restart

    def attempts(self) -> range:
        """Return how many attempts may be counted.

        Each start that was handed out counts until it is given back. A claim whose process died, or
        was cut off, before it knew what it had leased counts, or has given it back. One that was so
        slow that its lease had run out by then counts.
        """
        most = self.starts + len(self.unseen) + self.overtaken
        return range(self.starts - self.unsure, most + 1)

    def restart(self) -> None:
        """Begin anew: it was redriven, and has all its attempts again."""
        self.starts = self.overtaken = 0
        self.unseen.clear()
        self.ended_by, self.is_used_up = None, False


@dataclass(slots=True)
class JobHolding:
    """One lease of a job, from its claim until its settlement begins."""

    job: Job
    story: JobStory
    until: float
    is_live: bool = True
    settled_by: str | None = None
    open: int = 0
    """Settlements of which it is not known whether they happened."""
    is_late: bool = False
    """Somebody else had the job, or it had ended, before a settlement was called."""

    def state(self) -> tuple[Any, ...]:
        settlements = self.settled_by or "", self.open, self.is_late
        return self.until, self.is_live, str(self.story.name), *settlements


def name_of(job: Job) -> object:
    """Return by what a job that was claimed is known: its payload, or its tick."""
    return (job.type, str(job.scheduled_at)) if job.kind == "recurring" else job.payload


def name_in_store(document: Mapping[str, Any]) -> object:
    """Return by what a stored job is known."""
    if document["kind"] == "recurring":
        return document["type"], str(instant(document["scheduled_at"]))
    return document["payload"]
