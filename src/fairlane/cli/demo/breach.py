"""What a broken promise is, and what is looked for whatever was worked off. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fairlane.cli.demo.records import Execution

__all__ = ("Breach", "by_group", "overlaps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """One broken promise; each judge has kinds of its own."""

    kind: str
    detail: str


def by_group(executions: Iterable[Execution]) -> dict[str, list[Execution]]:
    """Return the executions of each group in the order in which they started."""
    groups: defaultdict[str, list[Execution]] = defaultdict(list)
    for execution in sorted(executions, key=lambda e: (e.started_at, e.ended_at)):
        groups[execution.delivery.group].append(execution)
    return groups


def overlaps(group: Sequence[Execution]) -> Iterator[tuple[Execution, Execution]]:
    """Yield each execution of a group that started beside another one, and that one."""
    running: Execution | None = None
    for execution in group:
        if running is not None and execution.started_at < running.ended_at:
            yield execution, running
        if running is None or execution.ended_at > running.ended_at:
            running = execution
