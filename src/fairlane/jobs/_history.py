"""History: a row about each execution, kept for a while."""

import logging
from typing import Any

from bson.errors import BSONError

from fairlane.clock import instant
from fairlane.driver import Document
from fairlane.errors import PayloadError
from fairlane.jobs._store import JobStore
from fairlane.jobs.model import Execution, Job
from fairlane.payload import as_bson

__all__ = ("History",)

logger = logging.getLogger(__name__)

RUNNING = "running"
OVERTAKEN = "its worker died, or lost its lease"
MOST_OVERTAKEN = 100


class History:
    """The first end that is written of an execution stays: its lease cannot come back."""

    def __init__(self, store: JobStore) -> None:
        self._store = store

    async def begin(self, execution: Execution, job: Job, keep: float) -> None:
        """Write that an execution has started."""
        row = self._storable(execution, execution.started_at.timestamp() + keep)
        await self._insert({**row, "outcome": RUNNING, "epoch": job.epoch})

    async def record(self, execution: Execution, keep: float) -> None:
        """Write how it ended; once, however often it is asked for."""
        assert execution.ended_at is not None
        row = self._storable(execution, execution.ended_at.timestamp() + keep)
        rest = {name: value for name, value in row.items() if name != "_id"}
        match = {"_id": row["_id"], "outcome": RUNNING}
        if not await self._store.history.update_one(match, {"$set": rest}):
            await self._insert(row)

    async def overtake(self, job: Job, now: float) -> None:
        """Write of earlier executions of a job that they have ended, if nobody has.

        Race: a later claimer of the job: `epoch` grows with every lease.
        """
        match = {"job_id": job.id, "outcome": RUNNING, "epoch": {"$lt": job.epoch}}
        sort = [("started_at", -1)]
        found = await self._store.history.find(
            match, sort=sort, limit=MOST_OVERTAKEN, fields={"_id": 1}
        )
        ended = {"$set": {"outcome": "stale", "ended_at": now, "error": OVERTAKEN}}
        for row in found:
            match = {"_id": row["_id"], "outcome": RUNNING}
            await self._store.history.update_one(match, ended)

    async def rows(self, type: str | None, job_id: str | None, limit: int) -> list[Execution]:
        wanted = {"type": type, "job_id": job_id}
        match = {name: value for name, value in wanted.items() if value is not None}
        found = await self._store.history.find(match, sort=[("started_at", -1)], limit=limit)
        return [_execution(row) for row in found]

    def _storable(self, execution: Execution, expires_at: float) -> Document:
        row = {**_row(execution), "expires_at": instant(expires_at)}
        return {**row, **self._store.storable({"result": row["result"]})}

    async def _insert(self, row: Document) -> None:
        new = {name: value for name, value in row.items() if name != "_id"}
        await self._store.history.upsert([({"_id": row["_id"]}, {"$setOnInsert": new})])


def _row(execution: Execution) -> Document:
    return {
        "_id": execution.id,
        "job_id": execution.job_id,
        "type": execution.type,
        "attempt": execution.attempt,
        "worker_id": execution.worker_id,
        "started_at": execution.started_at.timestamp(),
        "ended_at": None if execution.ended_at is None else execution.ended_at.timestamp(),
        "outcome": execution.outcome,
        "error": execution.error,
        "result": _kept(execution),
    }


def _kept(execution: Execution) -> Any:
    """Return a result that can be stored: the job has succeeded, whatever it returned."""
    try:
        return as_bson("result", execution.result, beside=64 * 1024)
    except (PayloadError, BSONError) as error:
        logger.warning("job %s: its result is not kept: %s", execution.job_id, error)
        return None


def _execution(row: Document) -> Execution:
    return Execution(
        id=row["_id"],
        job_id=row["job_id"],
        type=row["type"],
        attempt=row["attempt"],
        worker_id=row["worker_id"],
        started_at=instant(row["started_at"]),
        ended_at=None if row["ended_at"] is None else instant(row["ended_at"]),
        outcome=row["outcome"],
        error=row["error"],
        result=row["result"],
    )
