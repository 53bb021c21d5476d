"""The result of a demo run, as one JSON object and as a table."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich import box
from rich.table import Table

from fairlane.cli.demo.check import Published, Verdict
from fairlane.cli.demo.plan import DriverName, Plan

__all__ = ("Leftovers", "Report", "percentile", "report", "table", "to_json")

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
        redelivered=verdict.redelivered,
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


def table(result: Report, left: Leftovers) -> Table:
    rows = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    rows.add_column(style="bold")
    rows.add_column(justify="right")
    rows.add_column()
    for name, value, remark in _facts(result):
        rows.add_row(name, value, remark)
    rows.add_section()
    for name, broken, promise in _promises(result, left):
        rows.add_row(name, f"{broken:,}", "[red]BROKEN[/]" if broken else f"[green]ok[/] {promise}")
    rows.add_section()
    rows.add_row("verdict", "[green]ok[/]" if result.ok else "[red]BROKEN[/]", result.server)
    return rows


def _facts(result: Report) -> list[tuple[str, str, str]]:
    return [
        ("published", f"{result.published:,}", f"events in {result.groups:,} groups"),
        ("handled", f"{result.processed:,}", f"in {result.seconds:,.1f} s"),
        ("workers", f"{result.workers:,}", f"claimers in {result.processes:,} processes"),
        ("publish rate", f"{result.publish_per_s:,.0f}", "events/s"),
        ("handle rate", f"{result.process_per_s:,.0f}", "events/s"),
        ("latency p50", _milliseconds(result.p50_ms), "ms from publish to handled"),
        ("latency p95", _milliseconds(result.p95_ms), "ms"),
        ("latency p99", _milliseconds(result.p99_ms), "ms"),
        ("redelivered", f"{result.redelivered:,}", "after a failure or the kill"),
    ]


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _promises(result: Report, left: Leftovers) -> list[tuple[str, int, str]]:
    return [
        ("lost", result.lost, "every event was handled"),
        ("out of order", result.out_of_order, "every group in publish order"),
        ("overlapping", result.overlapping, "never two handlers in one group"),
        ("dead", result.dead, "no dead letters"),
        ("left behind", left.messages + left.locks, "no messages, no locks"),
    ]
