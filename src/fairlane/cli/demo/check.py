"""The judge: from what was published and what handlers did, say what was broken. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fairlane.cli.demo.breach import Breach, by_group, overlaps
from fairlane.cli.demo.causes import Cause, causes
from fairlane.cli.demo.records import Delivery, Execution

__all__ = ("Breach", "Published", "Verdict", "check")

Kind = Literal["lost", "out_of_order", "overlapping", "unexpected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One event that `publish` stored; the times (nanoseconds) are around the call."""

    group: str
    index: int
    seq: int
    digest: str
    started_at: int
    returned_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the record shows.

    Attributes:
        processed: published events that a handler finished.
        redelivered: executions beyond the first of their event, by cause; legal.
        ended_at: when the last handler finished an event, nanoseconds; None if none did.
        latencies: nanoseconds from the call of publish to the end of the handler, ascending.
        breaches: every broken promise, none if all hold.
    """

    processed: int
    redelivered: Counter[Cause]
    ended_at: int | None
    latencies: tuple[int, ...]
    breaches: tuple[Breach, ...]

    def count(self, kind: Kind) -> int:
        return sum(breach.kind == kind for breach in self.breaches)


def check(
    published: Sequence[Published],
    executions: Sequence[Execution],
    killed: Collection[str] = (),
) -> Verdict:
    """Judge a finished run; `killed` names the workers that were killed.

    - lost: a published event that no handler finished with the content that was published;
    - out_of_order: a handler started although a later event of the group had started before;
    - overlapping: a handler started while another one of its group was running;
    - unexpected: a handler got something that was never published like that.

    A failed, cut or repeated delivery is none of these as long as the next event waits for it.
    """
    finished_at = _finished_at(executions)
    latencies = [
        finished_at[_name(event)] - event.started_at
        for event in published
        if _name(event) in finished_at
    ]
    breaches = [*_lost(published, finished_at), *_unexpected(published, executions)]
    for group in by_group(executions).values():
        breaches += [*_overlapping(group), *_out_of_order(group)]
    return Verdict(
        processed=len(latencies),
        redelivered=causes(executions, killed),
        ended_at=max(finished_at.values(), default=None),
        latencies=tuple(sorted(latencies)),
        breaches=tuple(breaches),
    )


_Name = tuple[str, int, int, str]


def _name(event: Published | Delivery) -> _Name:
    return event.group, event.index, event.seq, event.digest


def _finished_at(executions: Iterable[Execution]) -> dict[_Name, int]:
    """When each event was first handled to the end."""
    finished: dict[_Name, int] = {}
    for execution in executions:
        if execution.outcome == "handled":
            name = _name(execution.delivery)
            finished[name] = min(execution.ended_at, finished.get(name, execution.ended_at))
    return finished


def _lost(published: Iterable[Published], finished_at: dict[_Name, int]) -> Iterator[Breach]:
    for event in published:
        if _name(event) not in finished_at:
            detail = f"event {event.index} of {event.group!r} (seq {event.seq}) was never handled"
            yield Breach(kind="lost", detail=detail)


def _unexpected(
    published: Iterable[Published], executions: Iterable[Execution]
) -> Iterator[Breach]:
    known = {_name(event) for event in published}
    for execution in executions:
        if _name(execution.delivery) not in known:
            yield Breach(kind="unexpected", detail=f"{_about(execution)} was never published so")


def _overlapping(group: Sequence[Execution]) -> Iterator[Breach]:
    for execution, running in overlaps(group):
        detail = f"{_about(execution)} started while {_about(running)} was running"
        yield Breach(kind="overlapping", detail=detail)


def _out_of_order(group: Sequence[Execution]) -> Iterator[Breach]:
    latest: Execution | None = None
    for execution in group:
        if latest is None or execution.delivery.index >= latest.delivery.index:
            latest = execution
        else:
            detail = f"{_about(execution)} started after {_about(latest)}"
            yield Breach(kind="out_of_order", detail=detail)


def _about(execution: Execution) -> str:
    delivery = execution.delivery
    return f"event {delivery.index} of {delivery.group!r} (seq {delivery.seq}, {execution.worker})"
