"""The verbs of a collection, the same on every driver."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import pymongo
from pymongo import errors as driver_errors
from pymongo.errors import BulkWriteError, DuplicateKeyError
from pymongo.operations import DeleteOne, IndexModel, UpdateOne

from fairlane.driver._bson import BSON, RAW_BSON, Document
from fairlane.driver._cancelling import guarded
from fairlane.driver._codes import DUPLICATE_KEY, IMMUTABLE_FIELD
from fairlane.driver._explaining import Cost, cost_of
from fairlane.driver._kinds import Kind

__all__ = ("NEVER", "Change", "Collection", "Sort", "as_single")

Sort = Sequence[tuple[str, int]]
Change = tuple[Document, Document]
"""Filter and update of one document."""
T = TypeVar("T")

UPSERT_TRIES = 5

NEVER: Document = {"$setOnInsert": {"_id": None}}
"""Of an upsert by `_id` that must not insert."""

ONE_REPLY = 1_000_000
"""Documents that may come in one reply, if they fit; left to itself a server sends 101 at first."""


class Collection:
    """A collection with pinned concerns: majority writes, local primary reads, exact BSON."""

    def __init__(self, raw: Any, kind: Kind, on_disconnect: Callable[[], None]) -> None:
        self._raw = raw
        self._kind = kind
        self._on_disconnect = on_disconnect

    @property
    def name(self) -> str:
        return str(self._raw.name)

    @property
    def namespace(self) -> str:
        return f"{self._raw.database.name}.{self._raw.name}"

    def undecoded(self) -> "Collection":
        """Return the same collection, whose documents come and go without being decoded."""
        if self._kind == "mongomock":
            return self
        raw = self._raw.with_options(codec_options=RAW_BSON)
        return Collection(raw, self._kind, self._on_disconnect)

    async def _run(self, call: Awaitable[T]) -> T:
        try:
            return await guarded(self._kind, call)
        except driver_errors.AutoReconnect:
            self._on_disconnect()
            raise

    async def find_one(self, match: Document, fields: Document | None = None) -> Document | None:
        found: Document | None = await self._run(self._raw.find_one(match, fields))
        return found

    async def find(
        self,
        match: Document,
        *,
        sort: Sort,
        limit: int,
        fields: Document | None = None,
        hint: Sort | None = None,
    ) -> list[Document]:
        cursor = self._raw.find(match, fields).sort(list(sort)).limit(limit).batch_size(ONE_REPLY)
        if hint is not None:
            cursor = cursor.hint(list(hint))
        found: list[Document] = await self._run(cursor.to_list(None))
        return found

    async def each(
        self, match: Document, *, sort: Sort, fields: Document | None = None
    ) -> AsyncGenerator[Document, None]:
        cursor = self._raw.find(match, fields).sort(list(sort))
        documents = aiter(cursor)
        try:
            while (document := await self._run(anext(documents, None))) is not None:
                yield document
        finally:
            await guarded(self._kind, cursor.close())

    async def aggregate(self, pipeline: Sequence[Document]) -> list[Document]:
        cursor = self._raw.aggregate(list(pipeline), batchSize=ONE_REPLY)
        if self._kind == "pymongo":
            cursor = await self._run(cursor)
        found: list[Document] = await self._run(cursor.to_list(None))
        return found

    async def count(self, match: Document) -> int:
        number: int = await self._run(self._raw.count_documents(match))
        return number

    async def find_one_and_update(
        self,
        match: Document,
        update: Document,
        *,
        sort: Sort | None = None,
        hint: Sort | None = None,
        upsert: bool = False,
    ) -> Document | None:
        """Update one document and return it as it is afterwards; `hint` names an index's keys."""
        change = self._raw.find_one_and_update(
            match,
            update,
            sort=None if sort is None else list(sort),
            hint=None if hint is None else list(hint),
            upsert=upsert,
            return_document=pymongo.ReturnDocument.AFTER,
        )
        found: Document | None = await self._run(change)
        return found

    async def update_one(
        self, match: Document, update: Document, *, sort: Sort = (), hint: Sort | None = None
    ) -> bool:
        """Return whether a document matched; with `sort` the first one is updated (MongoDB 8.0)."""
        options: Document = {"sort": dict(sort)} if sort else {}
        if hint is not None:
            options["hint"] = list(hint)
        result = await self._run(self._raw.update_one(match, update, **options))
        return bool(result.matched_count)

    async def update_each(self, changes: Sequence[Change]) -> int:
        """Apply single updates in any order and return how many matched."""
        if self._is_sent_singly(changes):
            return sum([await self.update_one(match, update) for match, update in changes])
        models = [UpdateOne(match, update) for match, update in changes]
        try:
            result = await self._bulk(models, ordered=False)
        except BulkWriteError as error:
            raise as_single(error) from None
        return int(result.matched_count)

    async def update_and_tell(self, changes: Sequence[Change]) -> list[bool]:
        """Apply single updates by `_id`, in any order, and tell of each whether it matched.

        The reply of a bulk counts matches and names errors. So a miss is made one: it would insert
        a document with another `_id` than its filter says, which the server refuses.
        """
        if self._is_sent_singly(changes):
            return [await self.update_one(match, update) for match, update in changes]
        models = [UpdateOne(match, {**update, **NEVER}, upsert=True) for match, update in changes]
        try:
            await self._bulk(models, ordered=False)
        except BulkWriteError as error:
            missed = _missed(error)
            return [number not in missed for number in range(len(changes))]
        return [True] * len(changes)

    async def upsert(self, writes: Sequence[Change]) -> None:
        """Apply upserts by `_id`, in order.

        Of two that insert at once one is told "duplicate key": the document is there then, so the
        repeat updates it. Updates before the failed one are applied again: they must allow that.
        """
        for _ in range(UPSERT_TRIES - 1):
            try:
                return await self._upsert(writes)
            except DuplicateKeyError:
                continue
        return await self._upsert(writes)

    async def _upsert(self, writes: Sequence[Change]) -> None:
        if self._is_sent_singly(writes):
            for match, update in writes:
                await self._run(self._raw.update_one(match, update, upsert=True))
            return
        models = [UpdateOne(match, update, upsert=True) for match, update in writes]
        try:
            await self._bulk(models, ordered=True)
        except BulkWriteError as error:
            raise as_single(error) from None

    async def _bulk(self, models: Sequence[Any], *, ordered: bool) -> Any:
        return await self._run(self._raw.bulk_write(models, ordered=ordered))

    def _is_sent_singly(self, writes: Sequence[Any]) -> bool:
        return len(writes) < 2 or self._kind == "mongomock"  # which refuses UpdateOne in bulks

    async def insert(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Insert documents in order. Raises `DuplicateKeyError` for a taken key."""
        if len(documents) == 1:
            await self._run(self._raw.insert_one(documents[0]))
            return
        try:
            await self._run(self._raw.insert_many(documents, ordered=True))
        except BulkWriteError as error:
            raise as_single(error) from None

    async def insert_each(
        self, documents: Sequence[Mapping[str, Any]]
    ) -> dict[int, driver_errors.OperationFailure]:
        """Insert documents in any order; return the errors of those that failed, by their place."""
        if not documents:
            return {}
        try:
            await self._run(self._raw.insert_many(documents, ordered=False))
        except BulkWriteError as error:
            failed = error.details.get("writeErrors", [])
            if not failed or error.details.get("writeConcernErrors"):
                raise as_single(error) from None
            return {each["index"]: _as_error(each) for each in failed}
        return {}

    async def delete_one(self, match: Document) -> bool:
        result = await self._run(self._raw.delete_one(match))
        return bool(result.deleted_count)

    async def delete_each(self, matches: Sequence[Document]) -> None:
        """Delete the first match of each filter, in order."""
        if self._is_sent_singly(matches):
            for match in matches:
                await self.delete_one(match)
            return
        try:
            await self._bulk([DeleteOne(match) for match in matches], ordered=True)
        except BulkWriteError as error:
            raise as_single(error) from None

    async def delete_many(self, match: Document) -> int:
        result = await self._run(self._raw.delete_many(match))
        return int(result.deleted_count)

    async def create_index(self, model: IndexModel) -> None:
        if self._kind == "mongomock":  # its create_indexes forgets partial filters
            options = dict(model.document)
            keys = list(options.pop("key").items())
            await self._raw.create_index(keys, **options)
            return
        await self._run(self._raw.create_indexes([model]))

    async def indexes(self) -> list[Document]:
        cursor = self._raw.list_indexes()
        if self._kind == "pymongo":
            cursor = await self._run(cursor)
        found: list[Document] = await self._run(cursor.to_list(None))
        return found

    async def explain(
        self, match: Document, *, sort: Sort, hint: Sort, max_time: float
    ) -> Cost | None:
        """Tell what a find of the first match costs by the index with the keys of `hint`.

        The server runs it, for `max_time` seconds at most. None from an in-process fake, which has
        no plans, and from a server that does not count. Raises `OperationFailure` if the find
        fails: there is no such index (code 2), or the time is up (code 50).
        """
        if self._kind == "mongomock":
            return None
        find = {
            "find": self.name,
            "filter": match,
            "sort": dict(sort),
            "hint": dict(hint),
            "limit": 1,
        }
        call = self._raw.database.command(
            "explain",
            find,
            verbosity="executionStats",
            maxTimeMS=max(1, round(max_time * 1_000)),  # inside of the find MongoDB ignores it
            codec_options=BSON,
        )
        return cost_of(await self._run(call))

    async def drop(self) -> None:
        await self._run(self._raw.drop())


def _missed(error: BulkWriteError) -> set[int]:
    """Return which updates of a bulk were to insert what cannot be; raise if one failed else."""
    failed = error.details["writeErrors"]
    others = [each for each in failed if each["code"] != IMMUTABLE_FIELD]
    if others or error.details.get("writeConcernErrors"):
        # Without the misses: they are none of the caller's business, and might come first.
        raise as_single(BulkWriteError({**error.details, "writeErrors": others})) from None
    return {each["index"] for each in failed}


def as_single(error: driver_errors.OperationFailure) -> driver_errors.OperationFailure:
    """Return the first error of a bulk as the error of a single write."""
    failed = (error.details or {}).get("writeErrors")
    if not failed:
        return error
    return _as_error(failed[0])


def _as_error(failed: Document) -> driver_errors.OperationFailure:
    # Without the operation: errors are logged, and it holds the payload.
    details = {key: value for key, value in failed.items() if key != "op"}
    code = details["code"]
    kind = DuplicateKeyError if code == DUPLICATE_KEY else driver_errors.OperationFailure
    return kind(details.get("errmsg", "refused by the server"), code, details)
