"""Recurring jobs: one record each, created once, that waits for its next tick after every run."""

import json
import logging
from collections.abc import Mapping
from typing import Any, cast

from anyio import to_thread

from fairlane.driver import Document
from fairlane.jobs import _job_commands
from fairlane.jobs._definition import Definition
from fairlane.jobs._schedule import (
    Misfire,
    Schedule,
    ScheduleError,
    as_stored,
    from_stored,
    next_tick,
)
from fairlane.jobs._settle import MAX_TEXT
from fairlane.jobs._store import JobStore, recurrence_of
from fairlane.jobs.model import Job, Recurrence
from fairlane.lease import commands
from fairlane.shield import finish

__all__ = ("Recurrer", "key_of")

logger = logging.getLogger(__name__)

TRIES = 10
WITHOUT_TICK = 60.0
"""Seconds until the next run where the application's `next_run` does not name it."""


def key_of(name: str) -> str:
    """Return the `_id` of a recurring job's record: everybody who creates it creates this one."""
    return f"recurring:{name}"


class Recurrer:
    def __init__(self, store: JobStore) -> None:
        self._store = store

    async def ensure(self, definition: Definition) -> None:
        """Create the record, or let it be as the definition says. Safe from many processes."""
        assert definition.schedule is not None
        terms = _terms(definition)
        now = await self._store.now()
        first = _tick(definition.schedule, "coalesce", tick=now, now=now, name=definition.name)
        key = key_of(definition.name)
        new = _job_commands.recurring(
            name=definition.name,
            terms=terms,
            scheduled_at=first,
            partition=self._store.partition_of(key),
            now=now,
        )
        await self._store.jobs.upsert([({"_id": key}, {"$setOnInsert": new})])
        for _ in range(TRIES):
            if await self._is_as_defined(key, terms, first):
                return
        logger.warning("recurring job %r changes too fast to be redefined now", definition.name)

    async def _is_as_defined(self, key: str, terms: Document, first: float) -> bool:
        """Try once to make it so.

        Race: a claim, a settlement or another definition since it was read: each changes the
        token, the state or the definition, which the filter names.
        """
        found = await self._store.jobs.find_one({"_id": key})
        if found is None:  # removed meanwhile: that came last
            return True
        is_ended = found["state"] not in _job_commands.LIVE
        if found.get("definition") == terms["definition"] and not is_ended:
            return True
        is_leased = found.get("token") is not None and not is_ended
        is_same = found.get("schedule") == terms["schedule"] and not is_ended
        update = _job_commands.redefined(
            terms,
            scheduled_at=None if is_same else first,
            partition=self._store.partition_of(key),
            is_leased=is_leased,
        )
        same = {name: found.get(name) for name in ("token", "state", "definition")}
        return await self._store.jobs.update_one({"_id": key, **same}, update)

    async def reschedule(self, job: Job, own: Definition, error: str | None) -> bool:
        """End a run: let the job wait for its next tick. False if the lease was not held."""
        return await finish(self._reschedule(job, own, error))

    async def _reschedule(self, job: Job, own: Definition, error: str | None) -> bool:
        """Race: another definition while it ran: the tick is that of the one that is stored."""
        held = commands.held(job.id, job.token or "")
        terms = job.recurrence
        for _ in range(TRIES):
            if terms is None:
                return False
            update = _job_commands.rescheduled(
                at=await self._next(job, own, terms),
                priority=terms.priority,
                error=None if error is None else error[:MAX_TEXT],
            )
            if await self._store.jobs.update_one({**held, "definition": terms.definition}, update):
                return True
            found = await self._store.jobs.find_one(held)
            terms = None if found is None else recurrence_of(found)
        return False

    async def _next(self, job: Job, own: Definition, terms: Recurrence) -> float:
        assert own.schedule is not None
        now = await self._store.now()
        schedule = own.schedule
        if terms.schedule != as_stored(schedule):  # a zone is read from a file
            schedule = await to_thread.run_sync(from_stored, dict(terms.schedule), schedule)
        return _tick(
            schedule,
            cast("Misfire", terms.misfire),
            tick=now if job.scheduled_at is None else job.scheduled_at.timestamp(),
            now=now,
            name=own.name,
        )

    async def remove(self, name: str) -> bool:
        return await self._store.jobs.delete_one({"_id": key_of(name), "kind": "recurring"})


def _terms(definition: Definition) -> dict[str, Any]:
    """Return the fields of the record that its definition decides about."""
    assert definition.schedule is not None
    terms: dict[str, Any] = {
        "schedule": as_stored(definition.schedule),
        "misfire": definition.misfire,
        "base_priority": definition.priority,
    }
    return {**terms, "definition": _fingerprint(terms)}


def _fingerprint(terms: Mapping[str, Any]) -> str:
    return json.dumps(terms, sort_keys=True)


def _tick(schedule: Schedule, misfire: Misfire, *, tick: float, now: float, name: str) -> float:
    try:
        return next_tick(schedule, misfire, tick=tick, now=now)
    except ScheduleError as error:
        logger.error(
            "recurring job %r runs again in %g s, since its schedule is broken: %s",
            *(name, WITHOUT_TICK, error),
        )
        return now + WITHOUT_TICK
