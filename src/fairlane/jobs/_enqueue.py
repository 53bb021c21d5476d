"""Enqueue: store new jobs, and tell of each what became of it."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from pymongo.errors import DuplicateKeyError, PyMongoError

from fairlane.driver import Document
from fairlane.errors import Duplicate
from fairlane.jobs import _job_commands
from fairlane.jobs._drafts import Draft, OnDuplicate
from fairlane.jobs._store import JobStore
from fairlane.jobs.model import Enqueued, EnqueuedMany
from fairlane.shield import finish

__all__ = ("Enqueuer",)

TRIES = 5

AT_ONCE = 500
"""Keys that are looked up by one command, which holds them all."""

Result = Enqueued | Exception


class Enqueuer:
    def __init__(self, store: JobStore) -> None:
        self._store = store

    async def enqueue(self, draft: Draft, on_duplicate: OnDuplicate) -> Enqueued:
        document = self._document(draft, await self._store.now())
        (result,) = await finish(self._add([document], on_duplicate))
        if isinstance(result, Exception):
            raise result
        return result

    async def enqueue_many(
        self, drafts: Sequence[Draft | Exception], on_duplicate: OnDuplicate
    ) -> EnqueuedMany:
        """Store the good ones of these; errors are told by their index."""
        now = await self._store.now()
        good = [draft for draft in drafts if isinstance(draft, Draft)]
        documents = [self._document(draft, now) for draft in good]
        added = iter(await finish(self._add(documents, on_duplicate)))
        return _summary([each if isinstance(each, Exception) else next(added) for each in drafts])

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

    async def _add(self, documents: Sequence[Document], on_duplicate: OnDuplicate) -> list[Result]:
        """Insert all together, then do as told with the jobs in whose way those refused are.

        Race: such a job ends between the refused insert and the look at it: its key is free, so the
        insert is tried again. An error, by then, is only that of what is left: what became of the
        others must be told.
        """
        results: dict[str, Result] = {}
        left = list(documents)
        try:
            for _ in range(TRIES):
                if not left:
                    break
                refused = await self._insert(left, results)
                left = await self._meet(refused, on_duplicate, results)
        except PyMongoError as error:
            results |= {each["_id"]: error for each in documents if each["_id"] not in results}
        for each in left:
            results.setdefault(each["_id"], Duplicate(f"the job of {_key(each)} comes and goes"))
        return [results[each["_id"]] for each in documents]

    async def _insert(
        self, documents: Sequence[Document], results: dict[str, Result]
    ) -> list[Document]:
        """Insert in one command; return those refused because something of theirs is taken."""
        ready = [self._store.storable(each) for each in documents]
        failed = await self._store.jobs.insert_each(ready)
        refused = []
        for place, document in enumerate(documents):
            error = failed.get(place)
            if isinstance(error, DuplicateKeyError):
                refused.append(document)
            else:
                results[document["_id"]] = error or Enqueued(id=document["_id"], created=True)
        return refused

    async def _meet(
        self,
        refused: Sequence[Document],
        on_duplicate: OnDuplicate,
        results: dict[str, Result],
    ) -> list[Document]:
        """Do as told with each job that is there; return those refused by one that has gone.

        An id that is taken is the job's own: a repeat of a lost reply. Then the job was created,
        whatever has become of it since.
        """
        if not refused:
            return []
        own, rivals = await self._taken(refused)
        met = [each for each in refused if each["_id"] not in own and _key(each) in rivals]
        results |= {key: Enqueued(id=key, created=True) for key in own}
        replaced = await self._replace(met, rivals) if on_duplicate == "replace" else set()
        for document in met:
            there = rivals[_key(document)]
            results[document["_id"]] = (
                Duplicate(f"a job of {_key(document)} has not ended yet: {there}")
                if on_duplicate == "raise"
                else Enqueued(id=there, created=False, replaced=document["_id"] in replaced)
            )
        return [each for each in refused if each["_id"] not in results]

    async def _taken(self, refused: Sequence[Document]) -> tuple[set[str], dict[str, str]]:
        """Return the ids that are taken, and by which job each key is."""
        own = {each["_id"] for each in refused if "unique_key" not in each}
        keyed = [each for each in refused if "unique_key" in each]
        if not keyed:  # nothing but their ids can be taken
            return own, {}
        found: list[Document] = []
        for at in range(0, len(keyed), AT_ONCE):
            found += await self._in_the_way(keyed[at : at + AT_ONCE])
        own |= {job["_id"] for job in found} & {each["_id"] for each in keyed}
        return own, {_key(job): job["_id"] for job in found if "unique_key" in job}

    async def _in_the_way(self, keyed: Sequence[Document]) -> list[Document]:
        match, fields = _job_commands.in_the_way(keyed), {"type": 1, "unique_key": 1}
        return await self._store.jobs.find(match, sort=[("_id", 1)], limit=0, fields=fields)

    async def _replace(self, met: Sequence[Document], rivals: Mapping[str, str]) -> set[str]:
        """Give waiting jobs what was to be enqueued; return the ids of what was taken over."""
        now = await self._store.now()
        changes = [
            (
                _job_commands.cancellable(rivals[_key(each)], now=now),
                _job_commands.replaced(self._store.storable(each)),
            )
            for each in met
        ]
        told = await self._store.driver.update_and_tell(self._store.jobs, changes)
        return {each["_id"] for each, is_replaced in zip(met, told, strict=True) if is_replaced}


def _key(job: Mapping[str, Any]) -> str:
    return f"type {job['type']!r} with unique_key={job.get('unique_key')!r}"


def _summary(results: Sequence[Result]) -> EnqueuedMany:
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
