"""When the next group is due, for those who sleep until then."""

import sys
from collections.abc import Iterator

from fairlane.lease import commands
from fairlane.lease.sweep import TOGETHER
from fairlane.transport import _group_commands
from fairlane.transport._store import Store

__all__ = ("Outlook",)


LATEST = sys.float_info.max
"""Any group is due by then, but those that are stopped."""


class Outlook:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def next_due(self, min_priority: int) -> float | None:
        """Return in how many seconds a group is due, 0 for now; None if none will be.

        One read of one index entry for each priority and partition, 32 partitions in a command.
        """
        among = _group_commands.among(min_priority)
        earliest: list[float] = []
        for partitions in self._shares():
            rows = await self._store.locks.find(
                commands.due(partitions=partitions, now=LATEST, among=among),
                sort=commands.order_by("fair"),
                limit=1,
                fields={"_id": 0, "available_at": 1},
            )
            earliest += [row["available_at"] for row in rows]
        return max(0.0, min(earliest) - await self._store.now()) if earliest else None

    def _shares(self) -> Iterator[list[int]]:
        span = self._store.partitioning.span
        for first in range(0, span, TOGETHER):
            yield list(range(first, min(first + TOGETHER, span)))
