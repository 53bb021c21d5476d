"""Settle: the one conditional write that ends or moves the lease of a job."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pymongo.errors import PyMongoError

from fairlane.clock import instant
from fairlane.driver import Change, Document
from fairlane.jobs import _job_commands
from fairlane.jobs._store import JobStore
from fairlane.jobs.model import Job, Outcome, State
from fairlane.lease import commands
from fairlane.shield import finish

__all__ = ("Retention", "Settler")

logger = logging.getLogger(__name__)

MAX_TEXT = 4_000
"""Characters of an error that are kept."""

Jobs = Sequence[Job]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """For how many seconds ended jobs are kept: None until they are purged, 0 not at all."""

    done: float | None
    failed: float | None


class Settler:
    """Every way out of a lease. All tell of each job whether its lease was still held."""

    def __init__(self, store: JobStore, retention: Retention) -> None:
        self._store = store
        self._retention = retention

    def now(self) -> float:
        """Return the server's time in epoch seconds, without asking."""
        return self._store.clock()

    async def ack(self, jobs: Jobs, result: Any = None) -> list[bool]:
        values = {} if result is None else dict(self._store.storable({"result": result}))
        return await self._end(jobs, "done", values)

    async def fail(self, jobs: Jobs, error: str | None) -> list[bool]:
        return await self._end(jobs, "failed", _noted(error))

    async def fail_unstarted(self, jobs: Jobs, error: str) -> list[bool]:
        """Fail jobs that a claim has found and does not hand out."""
        return await self._end(jobs, "failed", _noted(error), is_started=False)

    async def nack(self, job: Job, delay: float, error: str | None) -> Outcome:
        """Race: none about the last attempt: `attempts` are those of this lease, or it is lost."""
        if job.attempts >= job.max_attempts:
            (is_held,) = await self.fail([job], error)
            return Outcome.FAILED if is_held else Outcome.LOST
        at = await self._store.now() + delay
        update = _job_commands.retried(at=at, error=_cut(error), answered=job.attempts)
        (is_held,) = await finish(self._apply([_change(job, update)]))
        return Outcome.RETRY if is_held else Outcome.LOST

    async def release(self, jobs: Jobs, delay: float = 0.0, *, begun: int = 0) -> list[bool]:
        """Give jobs back, those first whose handlers had `begun` as interrupted."""
        now = await self._store.now() + delay
        changes = [
            _change(job, _job_commands.returned(now=now, interrupted=number < begun))
            for number, job in enumerate(jobs)
        ]
        return await finish(self._apply(changes))

    async def extend_many(self, jobs: Jobs, lease: float) -> list[Job | None]:
        until = await self._store.now() + lease
        changes = [_change(job, commands.extended(until=until)) for job in jobs]
        return [
            replace(job, available_at=max(until, job.available_at or until)) if is_held else None
            for job, is_held in zip(jobs, await self._apply(changes), strict=True)
        ]

    async def rerank(self, job: Job, priority: int) -> bool:
        """Race: as of a settlement: the token tells whose job it is."""
        (is_held,) = await self._apply([_change(job, _job_commands.reranked(priority))])
        return is_held

    async def end_unseen(self, match: Document, error: str) -> bool:
        """End a leased job of which only the token is known."""
        update = self.ended("failed", await self._store.now(), None, {"last_error": error})
        return await self._store.jobs.update_one(match, _job_commands.unstarted(update))

    async def _end(
        self, jobs: Jobs, state: State, values: Document, *, is_started: bool = True
    ) -> list[bool]:
        now = await self._store.now()
        changes = []
        for job in jobs:
            update = self.ended(state, now, job.unique_key, values)
            changes.append(_change(job, update if is_started else _job_commands.unstarted(update)))
        return await finish(self._apply_end(changes, state))

    async def _apply_end(self, changes: Sequence[Change], state: State) -> list[bool]:
        """End jobs; of those that are not to be kept the documents go as well.

        The end decides. If the deletion fails, `expires_at` lets the server do it.
        """
        is_kept = self._kept(state) != 0
        if not is_kept and len(changes) == 1:
            return [await self._store.jobs.delete_one(changes[0][0])]
        ended = await self._apply(changes)
        ids = [
            match["_id"] for (match, _), is_ended in zip(changes, ended, strict=True) if is_ended
        ]
        if ids and not is_kept:
            await self._delete(_job_commands.still_ended(ids, state))
        return ended

    async def _delete(self, match: Document) -> None:
        try:
            await self._store.jobs.delete_many(match)
        except PyMongoError:
            logger.warning("jobs that have ended are deleted by the server", exc_info=True)

    async def _apply(self, changes: Sequence[Change]) -> list[bool]:
        return await self._store.driver.update_and_tell(self._store.jobs, changes)

    def ended(self, state: State, now: float, key: str | None, values: Document) -> Document:
        """Return the update that ends a job, with how long it is kept."""
        expires_at = _expiry(now, self._kept(state))
        return _job_commands.ended(
            state=state, now=now, expires_at=expires_at, key=key, values=values
        )

    def _kept(self, state: State) -> float | None:
        return self._retention.done if state == "done" else self._retention.failed


def _expiry(now: float, keep: float | None) -> datetime | None:
    return None if keep is None else instant(now + keep)


def _noted(error: str | None) -> Document:
    return {} if error is None else {"last_error": _cut(error)}


def _cut(error: str | None) -> str | None:
    return None if error is None else error[:MAX_TEXT]


def _change(job: Job, update: Document) -> Change:
    return commands.held(job.id, job.token or ""), update
