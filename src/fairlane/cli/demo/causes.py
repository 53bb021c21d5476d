"""Why events were delivered more than once. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Literal

from fairlane.cli.demo.records import Execution

__all__ = ("Cause", "causes")

Cause = Literal["failure", "kill", "other"]
"""`other`: a living worker lost the lease or was stopped."""


def causes(executions: Iterable[Execution], killed: Collection[str] = ()) -> Counter[Cause]:
    """Count the executions beyond the first of their event by what became of the one before.

    `killed` names the workers that were killed.
    """
    before: dict[tuple[str, int], Execution] = {}
    found: Counter[Cause] = Counter()
    for execution in sorted(executions, key=lambda e: (e.started_at, e.ended_at)):
        place = execution.delivery.group, execution.delivery.index
        if place in before:
            found[_cause(before[place], killed)] += 1
        before[place] = execution
    return found


def _cause(before: Execution, killed: Collection[str]) -> Cause:
    if before.outcome == "failed":
        return "failure"
    return "kill" if before.worker in killed else "other"
