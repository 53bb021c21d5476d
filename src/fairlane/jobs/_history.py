"""History: a row about each execution, kept for a while."""

import logging
from typing import Any

from bson.errors import BSONError

from fairlane.clock import instant
from fairlane.driver import Document
from fairlane.errors import PayloadError
from fairlane.jobs._store import JobStore
from fairlane.jobs.model import Execution
from fairlane.payload import as_bson, stored

__all__ = ("History",)

logger = logging.getLogger(__name__)


class History:
    def __init__(self, store: JobStore) -> None:
        self._store = store

    async def record(self, execution: Execution, keep: float) -> None:
        """Write the row; once, however often it is asked for."""
        row = _row(execution)
        row["expires_at"] = instant(execution.ended_at.timestamp() + keep)
        key = row.pop("_id")
        ready: Any = stored({"row": row}, as_bytes=self._store.driver.keeps_bytes)
        await self._store.history.upsert([({"_id": key}, {"$setOnInsert": ready["row"]})])

    async def rows(self, type: str | None, job_id: str | None, limit: int) -> list[Execution]:
        wanted = {"type": type, "job_id": job_id}
        match = {name: value for name, value in wanted.items() if value is not None}
        found = await self._store.history.find(match, sort=[("started_at", -1)], limit=limit)
        return [_execution(row) for row in found]


def _row(execution: Execution) -> Document:
    return {
        "_id": execution.id,
        "job_id": execution.job_id,
        "type": execution.type,
        "attempt": execution.attempt,
        "worker_id": execution.worker_id,
        "started_at": execution.started_at.timestamp(),
        "ended_at": execution.ended_at.timestamp(),
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
        ended_at=instant(row["ended_at"]),
        outcome=row["outcome"],
        error=row["error"],
        result=row["result"],
    )
