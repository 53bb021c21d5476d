"""Counts, and a look at one job."""

from collections.abc import Mapping
from typing import Any

from fairlane.driver import Document
from fairlane.jobs._store import JobStore, job_of
from fairlane.jobs.model import Job, JobStats

__all__ = ("View",)

ENDED = ("done", "failed")


class View:
    def __init__(self, store: JobStore) -> None:
        self._store = store

    async def get(self, key: str) -> Job | None:
        document = await self._store.jobs.find_one({"_id": key})
        return None if document is None else job_of(document)

    async def count(self, state: str | None, type: str | None) -> int:
        wanted = {"state": state, "type": type}
        return await self._store.jobs.count(
            {name: value for name, value in wanted.items() if value is not None}
        )

    async def stats(self, type: str | None) -> JobStats:
        now = await self._store.now()
        match = [] if type is None else [{"$match": {"type": type}}]
        rows = await self._store.jobs.aggregate([*match, *_states(now)])
        by_type = {
            kind: _summed([row for row in rows if row["_id"].get("type") == kind], now)
            for kind in sorted(_types(rows))
        }
        return _summed(rows, now, by_type)


def _types(rows: list[Document]) -> set[str]:
    """Return the types there are; a document that somebody else has written may have none."""
    return {kind for row in rows if isinstance(kind := row["_id"].get("type"), str)}


def _summed(
    rows: list[Document], now: float, by_type: Mapping[str, JobStats] | None = None
) -> JobStats:
    counts: dict[str, int] = {}
    for row in rows:
        state = row["_id"]["state"]
        counts[state] = counts.get(state, 0) + row["n"]
    oldest = [row["oldest"] for row in rows if row["_id"]["state"] == "ready"]
    return JobStats(
        **counts,
        total=sum(counts.values()),
        oldest_age=max(0.0, now - min(oldest)) if oldest else None,
        by_type=by_type or {},
    )


def _states(now: float) -> list[Document]:
    """Count jobs by state and type. One whose lease is over counts as ready: it can be claimed."""
    is_held: Any = {"$ne": [{"$ifNull": ["$token", None]}, None]}
    waiting = {"$cond": [is_held, "processing", "delayed"]}
    live = {"$cond": [{"$lte": ["$available_at", now]}, "ready", waiting]}
    state = {"$cond": [{"$in": ["$state", list(ENDED)]}, "$state", live]}
    return [
        {"$project": {"state": state, "type": 1, "created_at": 1}},
        {
            "$group": {
                "_id": {"state": "$state", "type": "$type"},
                "n": {"$sum": 1},
                "oldest": {"$min": "$created_at"},
            }
        },
    ]
