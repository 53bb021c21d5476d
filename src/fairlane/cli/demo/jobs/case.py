"""All that was found about one job, side by side. Pure."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TypeVar

from fairlane.cli.demo.breach import by_group
from fairlane.cli.demo.jobs.enqueuing import Placed
from fairlane.cli.demo.jobs.ledger import Held, Stored
from fairlane.cli.demo.jobs.plan import PlannedJob
from fairlane.cli.demo.records import Execution, Settlement

__all__ = ("ENDINGS", "Case", "Evidence", "cases")

Name = TypeVar("Name")
T = TypeVar("T")

ENDINGS = ("acked", "dead_lettered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a finished run left.

    Attributes:
        placed: what each call of `enqueue` returned.
        executions: what handlers did.
        settlements: how leases ended, as the pools told.
        stored: every job that the database holds.
        held: the leases that the killed worker left behind.
        killed: names of the workers that were killed.
    """

    placed: Sequence[Placed]
    executions: Sequence[Execution]
    settlements: Sequence[Settlement]
    stored: Sequence[Stored]
    held: Collection[Held] = ()
    killed: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One job: `starts` are its executions in the order in which they started.

    Attributes:
        placed: the calls of `enqueue` that returned its id; none of what nobody enqueued.
        unstarted: how many leases the killed worker had of it, and had not begun to work on.
    """

    id: str
    placed: Sequence[Placed]
    starts: Sequence[Execution]
    settlements: Sequence[Settlement]
    stored: Stored | None
    unstarted: int
    killed: Collection[str] = field(repr=False)

    @property
    def job(self) -> PlannedJob:
        return self.placed[0].job

    @property
    def enqueued_at(self) -> int:
        """When the call began that made the job."""
        return self._maker.started_at

    @property
    def stored_at(self) -> int:
        """When the job was there for certain."""
        return self._maker.returned_at

    @property
    def _maker(self) -> Placed:
        return next((call for call in self.placed if call.is_created), self.placed[0])

    @property
    def endings(self) -> list[Settlement]:
        return [each for each in self.settlements if each.kind in ENDINGS]

    @property
    def has_ended(self) -> bool:
        return self.stored is not None and self.stored.state in ("done", "failed")

    @property
    def is_end_unseen(self) -> bool:
        """Whether a worker may have ended it without having been able to tell."""
        is_killed = bool(self.starts) and self.starts[-1].worker in self.killed
        return is_killed or any(each.kind == "unsettled" for each in self.settlements)

    @property
    def alive_until(self) -> float:
        """Until when it had not ended for certain."""
        if not self.has_ended:
            return inf
        return max((start.ended_at for start in self.starts), default=0)

    def ticks(self) -> Iterator[tuple[int, "Case"]]:
        """Yield what belongs to each tick of a recurring job, as if that were a job."""
        starts = _grouped(self.starts, lambda start: start.delivery.index)
        for tick, own in starts.items():
            epochs = {start.delivery.seq for start in own}
            settled = [each for each in self.settlements if each.seq in epochs]
            yield tick, replace(self, starts=own, settlements=settled)

    def __str__(self) -> str:
        if not self.placed:
            return f"job {self.id!r}"
        return f"job {self.job.index} ({self.job.type}, {self.id})"


def cases(evidence: Evidence) -> Iterator[Case]:
    """Yield a case for each job that anything tells of."""
    placed = _grouped(evidence.placed, lambda call: call.id)
    settled = _grouped(evidence.settlements, lambda settlement: settlement.group)
    starts = by_group(evidence.executions)
    stored = {job.id: job for job in evidence.stored}
    for key in sorted({*placed, *settled, *starts, *stored}):
        own = starts.get(key, [])
        yield Case(
            id=key,
            placed=placed.get(key, []),
            starts=own,
            settlements=settled.get(key, []),
            stored=stored.get(key),
            unstarted=_unstarted(key, own, evidence.held),
            killed=evidence.killed,
        )


def _grouped(items: Iterable[T], name: Callable[[T], Name]) -> dict[Name, list[T]]:
    groups: defaultdict[Name, list[T]] = defaultdict(list)
    for item in items:
        groups[name(item)].append(item)
    return groups


def _unstarted(key: str, starts: Iterable[Execution], held: Iterable[Held]) -> int:
    started = {execution.delivery.seq for execution in starts}
    return sum(lease.job_id == key and lease.epoch not in started for lease in held)
