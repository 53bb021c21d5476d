"""The seven things that hold when N documents were claimed once each and nothing is left."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from benchmarks._claims_records import Claimed

__all__ = ("Stored", "violations")


class Stored(NamedTuple):
    """What a lock says after the run."""

    group: str
    token: str | None
    attempts: int


def violations(
    groups: int,
    *,
    returned: Sequence[Claimed],
    stored: Sequence[Stored],
    second_sweep: Sequence[str],
) -> list[str]:
    """Name each invariant that does not hold, and by how much.

    Args:
        groups: how many there were to claim.
        returned: the leases that the claimers got.
        stored: the locks afterwards.
        second_sweep: the groups that one more claim of each partition found.
    """
    attempts = [each.attempt for each in returned] + [each.attempts for each in stored]
    leases = {(each.group, each.token) for each in returned}
    locks = {(each.group, each.token) for each in stored}
    wrong = {
        "returned count": abs(len(returned) - groups),
        "distinct ids": _repeats([each.group for each in returned]),
        "distinct tokens": _repeats([each.token for each in returned]),
        "stored tokens": len(leases ^ locks),
        "every attempt 1": sum(attempt != 1 for attempt in attempts),
        "distinct stored tokens": _repeats([each.token for each in stored]),
        "empty second sweep": len(second_sweep),
    }
    return [f"{name} (off by {number})" for name, number in wrong.items() if number]


def _repeats(values: Sequence[Hashable]) -> int:
    return len(values) - len(set(values))
