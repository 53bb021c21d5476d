"""The result of a demo run as a table for people."""

from collections.abc import Iterable, Iterator

from rich import box
from rich.table import Table

from fairlane.cli.demo.report import Result
from fairlane.cli.demo.wording import causes_in_words, counted, noun, server_in_words

__all__ = ("Promise", "Row", "laid_out", "milliseconds", "table")


Row = tuple[str, str, str]
Promise = tuple[str, int, str]


def table(result: Result) -> Table:
    facts = [*_facts(result), *_latencies(result), _redelivered(result)]
    return laid_out(facts, _promises(result), is_ok=result.report.ok)


def laid_out(facts: Iterable[Row], promises: Iterable[Promise], *, is_ok: bool) -> Table:
    """Return facts, promises with the number of their breaches, and the verdict, as a table."""
    rows = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    rows.add_column(style="bold")
    rows.add_column(justify="right")
    rows.add_column()
    for row in facts:
        rows.add_row(*row)
    rows.add_section()
    for name, broken, promise in promises:
        rows.add_row(name, f"{broken:,}", "[red]BROKEN[/]" if broken else f"[green]ok[/] {promise}")
    rows.add_section()
    rows.add_row("verdict", "[green]ok[/]" if is_ok else "[red]BROKEN[/]")
    return rows


def _facts(result: Result) -> Iterator[Row]:
    report = result.report
    groups = counted(report.groups, "group")
    processes = counted(report.processes, "process", "processes")
    waiting = "" if result.waited is None else ", the wait after the kill included"
    yield "server", "", server_in_words(report.server)
    yield "published", f"{report.published:,}", f"{noun(report.published, 'event')} in {groups}"
    yield "handled", f"{report.processed:,}", f"in {report.seconds:,.1f} s"
    yield "workers", f"{report.workers:,}", f"{noun(report.workers, 'claimer')} in {processes}"
    yield "publish rate", f"{report.publish_per_s:,.0f}", "events/s"
    yield "handle rate", f"{report.process_per_s:,.0f}", f"events/s{waiting}"


def _latencies(result: Result) -> Iterator[Row]:
    report = result.report
    tail = "ms"
    if result.waited is not None:
        tail = f"ms; the killed worker's groups waited {result.waited:g} s for leases"
    yield "latency p50", milliseconds(report.p50_ms), "ms from publish to handled"
    yield "latency p95", milliseconds(report.p95_ms), tail
    yield "latency p99", milliseconds(report.p99_ms), tail


def milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _redelivered(result: Result) -> Row:
    redelivered = result.verdict.redelivered
    remark = causes_in_words(redelivered, was_killed=result.waited is not None)
    return "redelivered", f"{redelivered.total():,}", remark


def _promises(result: Result) -> list[Promise]:
    report, left = result.report, result.left
    return [
        ("lost", report.lost, "every event was handled"),
        ("out of order", report.out_of_order, "every group in publish order"),
        ("overlapping", report.overlapping, "never two handlers in one group"),
        ("dead", report.dead, "no dead letters"),
        ("left behind", left.messages + left.locks, "no messages, no locks"),
    ]
