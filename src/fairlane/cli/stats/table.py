"""A sample as tables for people."""

from collections.abc import Iterator, Mapping

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from fairlane.cli.stats.sample import Pace, Sample
from fairlane.cli.text import age, preview
from fairlane.jobs import JobStats
from fairlane.model import TransportStats

__all__ = ("tables",)

MESSAGES = ("groups", "ready", "leased", "parked", "stopped", "messages", "dead", "oldest")
RATES = ("in/s", "out/s")
JOBS = ("ready", "delayed", "processing", "done", "failed", "oldest")
NARROW = 40


def tables(sample: Sample, speed: Pace | None, *, is_watched: bool = False) -> Group:
    """Return the tables of what there is; the columns of the pace only where it is watched."""
    parts: list[RenderableType] = []
    if sample.messages is not None:
        parts.append(_of_messages(sample.messages, speed, is_watched))
        parts.extend(_priorities(sample.messages.ready_by_priority))
    if sample.jobs is not None:
        parts.append(_of_jobs(sample.jobs))
    return Group(*parts)


def _of_messages(stats: TransportStats, speed: Pace | None, is_watched: bool) -> Table:
    table = _table(*MESSAGES, *(RATES if is_watched else ()))
    counts = [
        Text(f"{stats.groups:,}"),
        Text(f"{stats.ready:,}"),
        Text(f"{stats.leased:,}"),
        Text(f"{stats.parked:,}"),
        _alarming(stats.stopped),
        Text(f"{stats.messages:,}"),
        _alarming(stats.dead),
        Text(age(stats.oldest_age)),
    ]
    table.add_row(*counts, *(_rates(speed) if is_watched else ()))
    return table


def _rates(speed: Pace | None) -> Iterator[Text]:
    for value in (None, None) if speed is None else (speed.incoming, speed.outgoing):
        yield Text("-" if value is None else f"{value:,.1f}")


def _priorities(ready: Mapping[int, int]) -> Iterator[Text]:
    if any(ready):  # some that are not 0
        levels = ", ".join(f"{number:,} of priority {level}" for level, number in ready.items())
        yield Text(f"ready: {levels}\n")


def _of_jobs(stats: JobStats) -> Table:
    table = _table("jobs", *JOBS)
    for name, each in stats.by_type.items():
        table.add_row(Text(preview(name, NARROW)), *_counts(each))
    table.add_section()
    table.add_row("all", *_counts(stats))
    return table


def _counts(stats: JobStats) -> Iterator[Text]:
    for number in (stats.ready, stats.delayed, stats.processing, stats.done):
        yield Text(f"{number:,}")
    yield _alarming(stats.failed)
    yield Text(age(stats.oldest_age))


def _alarming(number: int) -> Text:
    return Text(f"{number:,}", style="bold red" if number else "")


def _table(*names: str) -> Table:
    # All columns of messages fit into a terminal of 80.
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in names:
        table.add_column(name, justify="left" if name == "jobs" else "right", no_wrap=True)
    return table
