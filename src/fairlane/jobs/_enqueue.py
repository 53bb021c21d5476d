"""Enqueue: store new jobs, and tell of each what became of it."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from pymongo.errors import DuplicateKeyError, PyMongoError

from fairlane import checks
from fairlane.checks import Seconds
from fairlane.driver import Document
from fairlane.errors import ConfigurationError, Duplicate, FairlaneError
from fairlane.jobs import _job_commands
from fairlane.jobs._store import JobStore
from fairlane.jobs.model import Enqueued, EnqueuedMany
from fairlane.payload import as_bson, stored
from fairlane.shield import finish

__all__ = (
    "Draft",
    "Enqueuer",
    "NewJob",
    "OnDuplicate",
    "checked_on_duplicate",
    "with_defaults",
)

OnDuplicate = Literal["skip", "replace", "raise"]
ON_DUPLICATE = ("skip", "replace", "raise")
TRIES = 5


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be enqueued, with options of its own; see `AsyncJobQueue.enqueue` for each."""

    payload: Any
    type: str | None = None
    priority: int | None = None
    delay: Seconds | None = None
    run_at: datetime | None = None
    max_attempts: int | None = None
    unique_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A checked job that is not stored yet. `due_at` or `delay` is set, or none for now."""

    type: str
    payload: Any
    priority: int
    delay: float
    due_at: float | None
    max_attempts: int
    unique_key: str | None

    @classmethod
    def checked(cls, job: NewJob, *, max_attempts: int) -> "Draft":
        """Return a draft; raises `ConfigurationError` or `PayloadError` for the first bad part."""
        kind = _nonempty("type", job.type)
        key = None if job.unique_key is None else _nonempty("unique_key", job.unique_key)
        if job.delay is not None and job.run_at is not None:
            raise ConfigurationError("give delay or run_at, not both")
        beside = 4 * len(kind.encode()) + len((key or "").encode())
        attempts = max_attempts if job.max_attempts is None else job.max_attempts
        return cls(
            type=kind,
            priority=_priority(0 if job.priority is None else job.priority),
            delay=checks.seconds("delay", 0.0 if job.delay is None else job.delay),
            due_at=None if job.run_at is None else _epoch(job.run_at),
            max_attempts=checks.count("max_attempts", attempts),
            unique_key=key,
            payload=as_bson("payload", job.payload, beside=beside),
        )


class Enqueuer:
    def __init__(self, store: JobStore) -> None:
        self._store = store

    async def enqueue(self, draft: Draft, on_duplicate: OnDuplicate) -> Enqueued:
        document = self._document(draft, await self._store.now())
        return await finish(self._insert(document, on_duplicate))

    async def enqueue_many(
        self,
        drafts: Sequence[Draft | Exception],
        on_duplicate: OnDuplicate,
    ) -> EnqueuedMany:
        """Store the good ones of these; errors are told by their index."""
        now = await self._store.now()
        results: dict[int, Enqueued | Exception] = {
            index: draft for index, draft in enumerate(drafts) if isinstance(draft, Exception)
        }
        documents = {
            index: self._document(draft, now)
            for index, draft in enumerate(drafts)
            if not isinstance(draft, Exception)
        }
        results |= await finish(self._insert_each(documents, on_duplicate))
        return _summary([results[index] for index in range(len(drafts))])

    def _document(self, draft: Draft, now: float) -> Document:
        key = uuid.uuid4().hex
        options: Document = {
            "priority": draft.priority,
            "partition": self._store.partition_of(key),
            "available_at": now + draft.delay if draft.due_at is None else draft.due_at,
            "max_attempts": draft.max_attempts,
        }
        if draft.unique_key is not None:
            options["unique_key"] = draft.unique_key
        return _job_commands.created(
            key=key, type=draft.type, payload=draft.payload, kind="event", now=now, options=options
        )

    async def _insert_each(
        self, documents: dict[int, Document], on_duplicate: OnDuplicate
    ) -> dict[int, Enqueued | Exception]:
        """Insert all in one command; those whose key is taken are gone through one by one."""
        indexes = list(documents)
        ready = [stored(documents[i], as_bytes=self._store.driver.keeps_bytes) for i in indexes]
        failed = await self._store.jobs.insert_each(ready)
        results: dict[int, Enqueued | Exception] = {}
        for place, index in enumerate(indexes):
            error = failed.get(place)
            if error is None:
                results[index] = Enqueued(id=documents[index]["_id"], created=True)
            elif isinstance(error, DuplicateKeyError):
                results[index] = await self._try_insert(documents[index], on_duplicate)
            else:
                results[index] = error
        return results

    async def _try_insert(
        self, document: Document, on_duplicate: OnDuplicate
    ) -> Enqueued | Exception:
        try:
            return await self._insert(document, on_duplicate)
        except (FairlaneError, PyMongoError) as error:  # what became of the others must be told
            return error

    async def _insert(self, document: Document, on_duplicate: OnDuplicate) -> Enqueued:
        """Insert, or do as told with the job that has the key.

        Race: that job ends between the refused insert and the look at it: its key is free, so the
        insert is tried again. An id that is taken is this job's own: a repeat of a lost reply. Then
        the job was created, whatever has become of it since.
        """
        ready = stored(document, as_bytes=self._store.driver.keeps_bytes)
        for _ in range(TRIES):
            try:
                await self._store.jobs.insert([ready])
                return Enqueued(id=document["_id"], created=True)
            except DuplicateKeyError:
                there = await self._same(document)
            if document["_id"] in there:
                return Enqueued(id=document["_id"], created=True)
            if there:
                return await self._met(there[0], document, on_duplicate)
        raise Duplicate(f"the job with unique_key={document['unique_key']!r} comes and goes")

    async def _same(self, document: Document) -> list[str]:
        """Return the ids of jobs in whose way this one is: itself, and that which has its key."""
        if "unique_key" not in document:  # nothing but its id can be taken
            return [document["_id"]]
        with_key = _job_commands.with_key(document["type"], document["unique_key"])
        match = {"$or": [{"_id": document["_id"]}, with_key]}
        found = await self._store.jobs.find(match, sort=[("_id", 1)], limit=2, fields={"_id": 1})
        return [job["_id"] for job in found]

    async def _met(self, there: str, document: Document, on_duplicate: OnDuplicate) -> Enqueued:
        if on_duplicate == "raise":
            raise Duplicate(
                f"a job of type {document['type']!r} with unique_key={document['unique_key']!r} "
                f"has not ended yet: {there}"
            )
        is_replaced = on_duplicate == "replace" and await self._store.jobs.update_one(
            _job_commands.cancellable(there), _job_commands.replaced(document)
        )
        return Enqueued(id=there, created=False, replaced=is_replaced)


def checked_on_duplicate(value: OnDuplicate) -> OnDuplicate:
    if value not in ON_DUPLICATE:
        raise ConfigurationError(f"on_duplicate must be one of {ON_DUPLICATE}, not {value!r}")
    return value


def with_defaults(item: Any, defaults: NewJob) -> NewJob:
    """Return an item of `enqueue_many` as a job: what it leaves out is as for all of them."""
    if not isinstance(item, NewJob):
        return replace(defaults, payload=item)
    given = {
        name: value
        for name in ("type", "priority", "max_attempts", "unique_key")
        if (value := getattr(item, name)) is not None
    }
    if item.delay is not None or item.run_at is not None:
        given |= {"delay": item.delay, "run_at": item.run_at}
    return replace(defaults, payload=item.payload, **given)


def _summary(results: Sequence[Enqueued | Exception]) -> EnqueuedMany:
    done = [result for result in results if isinstance(result, Enqueued)]
    return EnqueuedMany(
        ids=tuple(result.id if isinstance(result, Enqueued) else None for result in results),
        created=sum(result.created for result in done),
        replaced=sum(result.replaced for result in done),
        skipped=sum(not (result.created or result.replaced) for result in done),
        errors=tuple(
            (index, result) for index, result in enumerate(results) if isinstance(result, Exception)
        ),
    )


def _nonempty(name: str, value: object) -> str:
    if not checks.text(name, value):
        raise ConfigurationError(f"{name} must not be empty")
    return str(value)


def _priority(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise ConfigurationError(f"priority must be an int of 32 bits, not {value!r}")
    return value


def _epoch(value: object) -> float:
    if not isinstance(value, datetime):
        raise ConfigurationError(f"run_at must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise ConfigurationError(
            f"run_at must have a tzinfo: {value!r} is another moment on every machine"
        )
    return value.timestamp()
