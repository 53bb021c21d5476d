"""The result of a demo run, and its JSON object."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from fairlane.cli.demo.check import Published, Verdict
from fairlane.cli.demo.crew import DriverName
from fairlane.cli.demo.plan import Plan

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = (
    "Call",
    "Judged",
    "Leftovers",
    "Pace",
    "Report",
    "Result",
    "percentile",
    "report",
    "to_json",
)

R = TypeVar("R")
V = TypeVar("V")

MILLISECOND = 1_000_000
SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What the database still held when all workers had stopped."""

    messages: int = 0
    locks: int = 0
    dead: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The keys of the JSON object, in its order.

    `seconds` run from the first publish to the end of the last handler, `publish_per_s` counts
    until the last publish has returned, `process_per_s` is over `seconds`. Latencies run from the
    call of publish to the end of the handler; null where nothing was handled.
    """

    published: int
    processed: int
    groups: int
    out_of_order: int
    overlapping: int
    lost: int
    redelivered: int
    dead: int
    workers: int
    processes: int
    seconds: float
    publish_per_s: float
    process_per_s: float
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    server: str
    driver: DriverName
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged(Generic[R, V]):
    """A judged run.

    Attributes:
        waited: seconds which the work of the killed worker waited for its leases to end; None if
            none was killed.
    """

    report: R
    verdict: V
    waited: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Judged[Report, Verdict]):
    """A judged run over events."""

    left: Leftovers


def report(
    plan: Plan,
    server: str,
    published: Sequence[Published],
    verdict: Verdict,
    left: Leftovers,
) -> Report:
    """Sum up a run, whether or not anything happened in it."""
    pace = Pace.of(published, verdict.ended_at)
    is_whole = len(published) == len(plan.events) and not verdict.breaches
    return Report(
        published=len(published),
        processed=verdict.processed,
        groups=plan.groups,
        out_of_order=verdict.count("out_of_order"),
        overlapping=verdict.count("overlapping"),
        lost=verdict.count("lost"),
        redelivered=verdict.redelivered.total(),
        dead=left.dead,
        workers=plan.workers,
        processes=plan.processes,
        seconds=round(pace.seconds, 3),
        publish_per_s=pace.calls_per_s,
        process_per_s=pace.per_s(verdict.processed),
        p50_ms=percentile(verdict.latencies, 50),
        p95_ms=percentile(verdict.latencies, 95),
        p99_ms=percentile(verdict.latencies, 99),
        server=server,
        driver=plan.driver,
        ok=is_whole and left == Leftovers(),
    )


class Call(Protocol):
    """Something that was given to the database; the times (nanoseconds) are around the call."""

    @property
    def started_at(self) -> int: ...

    @property
    def returned_at(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How quick a run was: `seconds` from the first call to the end of the last handler."""

    seconds: float
    calls_per_s: float

    @classmethod
    def of(cls, calls: Sequence[Call], ended_at: int | None) -> "Pace":
        began_at = min((call.started_at for call in calls), default=0)
        returned_at = max((call.returned_at for call in calls), default=0)
        return cls(
            seconds=((ended_at or returned_at) - began_at) / SECOND,
            calls_per_s=_rate(len(calls), (returned_at - began_at) / SECOND),
        )

    def per_s(self, number: int) -> float:
        return _rate(number, self.seconds)


def percentile(latencies: Sequence[int], percent: int) -> float | None:
    """Return the nearest-rank percentile of ascending nanoseconds, in milliseconds."""
    if not latencies:
        return None
    rank = max(1, math.ceil(len(latencies) * percent / 100))
    return round(latencies[rank - 1] / MILLISECOND, 1)


def _rate(events: int, seconds: float) -> float:
    return round(events / seconds, 1) if seconds > 0 else 0.0


def to_json(result: "DataclassInstance") -> str:
    return json.dumps(asdict(result))
