"""The result of a demo run, and its JSON object."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from fairlane.cli.demo.check import Published, Verdict
from fairlane.cli.demo.plan import DriverName, Plan

__all__ = ("Leftovers", "Report", "Result", "percentile", "report", "to_json")

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
class Result:
    """A judged run.

    Attributes:
        waited: seconds which the groups of the killed worker waited for its leases to end; None
            if none was killed.
    """

    report: Report
    verdict: Verdict
    left: Leftovers
    waited: float | None


def report(
    plan: Plan,
    server: str,
    published: Sequence[Published],
    verdict: Verdict,
    left: Leftovers,
) -> Report:
    """Sum up a run, whether or not anything happened in it."""
    began_at = min((event.started_at for event in published), default=0)
    published_at = max((event.returned_at for event in published), default=0)
    seconds = ((verdict.ended_at or published_at) - began_at) / SECOND
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
        seconds=round(seconds, 3),
        publish_per_s=_rate(len(published), (published_at - began_at) / SECOND),
        process_per_s=_rate(verdict.processed, seconds),
        p50_ms=percentile(verdict.latencies, 50),
        p95_ms=percentile(verdict.latencies, 95),
        p99_ms=percentile(verdict.latencies, 99),
        server=server,
        driver=plan.driver,
        ok=is_whole and left == Leftovers(),
    )


def percentile(latencies: Sequence[int], percent: int) -> float | None:
    """Return the nearest-rank percentile of ascending nanoseconds, in milliseconds."""
    if not latencies:
        return None
    rank = max(1, math.ceil(len(latencies) * percent / 100))
    return round(latencies[rank - 1] / MILLISECOND, 1)


def _rate(events: int, seconds: float) -> float:
    return round(events / seconds, 1) if seconds > 0 else 0.0


def to_json(result: Report) -> str:
    return json.dumps(asdict(result))
