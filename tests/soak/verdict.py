"""The judge of a run: the invariants I1 to I3 from what was published, handled and settled. Pure.

Handlers write down when they begin and end; pools, what became of each lease. Leases are ordered by
their epochs, which needs no clock: every lease of a group has a higher one than those before.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from fairlane.cli.demo.check import Published, check
from fairlane.cli.demo.records import Execution
from fairlane.worker import WorkerEvent
from soak.ledger import Stall

__all__ = ("Place", "Record", "judge", "unnumbered")

FINAL = ("acked", "dead_lettered")

Place = tuple[str, int]
"""A group, and the place of an event in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """All that is known of a run after its end.

    Attributes:
        published: what publish returned for.
        executions: what handlers did, in all processes.
        events: what the pools told.
        dead: the events found among the dead letters.
        stray: errors that nobody heard, in any process (I6).
        stalls: of each machine. A process that gets no processor cannot let a handler go before its
            lease ends: what a handler does counts until then.
    """

    published: Sequence[Published]
    executions: Sequence[Execution]
    events: Sequence[WorkerEvent]
    dead: frozenset[Place] = frozenset()
    stray: Sequence[str] = ()
    stalls: Mapping[str, Sequence[Stall]] = field(default_factory=dict)


def judge(record: Record) -> list[str]:
    """Return every breach of an invariant in words; none if all hold."""
    return [
        *_handling(record),
        *_ghosts(record),
        *(f"I6 {error}" for error in record.stray),
        *(breach for group in _by_group(record.events) for breach in _leases(group)),
    ]


def unnumbered(record: Record) -> Record:
    """Forget the sequence numbers of events.

    For runs in which a publish may be repeated although it has happened: an event that was settled
    in between is published once more, under another number.
    """
    return replace(
        record,
        published=[replace(event, seq=0) for event in record.published],
        executions=[
            replace(execution, delivery=replace(execution.delivery, seq=0))
            for execution in record.executions
        ],
    )


def _handling(record: Record) -> Iterator[str]:
    """Judge the handlers as the demo does, but that a dead letter need not have been handled."""
    executions = [
        _cut_short(each, record.stalls.get(each.worker, ())) for each in record.executions
    ]
    alive = [event for event in record.published if _place(event) not in record.dead]
    for breach in check(record.published, executions).breaches:
        if breach.kind != "lost":
            yield f"{breach.kind}: {breach.detail}"
    for breach in check(alive, executions).breaches:
        if breach.kind == "lost":
            yield f"lost: {breach.detail}"


def _cut_short(execution: Execution, stalls: Iterable[Stall]) -> Execution:
    """Let the handler end where its process stood still, if it did."""
    ends = [
        max(stall.since, execution.started_at)
        for stall in stalls
        if stall.since < execution.ended_at and stall.until > execution.started_at
    ]
    return replace(execution, ended_at=min([execution.ended_at, *ends]))


def _ghosts(record: Record) -> Iterator[str]:
    """Find messages that were settled and are dead letters all the same."""
    seqs = {_place(event): event.seq for event in record.published}
    acked = {(event.group_id, event.seq) for event in record.events if event.kind == "acked"}
    for group, index in record.dead:
        if (group, seqs.get((group, index))) in acked:
            yield f"I1 event {index} of {group!r} was acknowledged and is a dead letter"


def _place(event: Published) -> Place:
    return event.group, event.index


def _by_group(events: Iterable[WorkerEvent]) -> Iterable[list[WorkerEvent]]:
    groups: defaultdict[str, list[WorkerEvent]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event.epoch):
        groups[event.group_id].append(event)
    return groups.values()


def _leases(group: Sequence[WorkerEvent]) -> Iterator[str]:
    claims = [event for event in group if event.kind == "claimed"]
    settlements = [event for event in group if event.kind in FINAL]
    yield from _epochs(claims)
    yield from _settlements(claims, settlements)


def _epochs(claims: Sequence[WorkerEvent]) -> Iterator[str]:
    for earlier, later in pairwise(claims):
        if earlier.epoch == later.epoch:
            yield f"I3 {_about(earlier)} and {_about(later)} had the same epoch"
        if earlier.seq > later.seq:
            yield f"I2 {_about(later)} was claimed after {_about(earlier)}"


def _settlements(
    claims: Sequence[WorkerEvent], settlements: Sequence[WorkerEvent]
) -> Iterator[str]:
    settled_at = {event.seq: event for event in reversed(settlements)}
    for seq, times in Counter(event.seq for event in settlements).items():
        if times > 1:
            yield f"I3 {_about(settled_at[seq])} was settled {times} times"
    for claim in claims:
        settlement = settled_at.get(claim.seq)
        if settlement is not None and claim.epoch > settlement.epoch:
            yield f"I1 {_about(claim)} was claimed after it was settled by {_about(settlement)}"


def _about(event: WorkerEvent) -> str:
    return f"seq {event.seq} of {event.group_id!r} (epoch {event.epoch}, {event.worker_id})"
