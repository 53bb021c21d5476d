"""One collection of the document store in memory: the verbs of `Collection` that are used."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Protocol

import bson
from bson.raw_bson import RawBSONDocument
from pymongo.errors import DuplicateKeyError, OperationFailure

from fairlane.driver import BSON, RAW_BSON, Change, Document
from property.footprint import Footprint
from property.operators import STAGES, in_order, is_match, projected, updated

__all__ = ("DUPLICATE_KEY", "MemoryCollection", "Watcher", "encoded")

DUPLICATE_KEY = 11000
IMMUTABLE_FIELD = 66
UNIQUE = (("message_id",), ("type", "unique_key"))
"""What no two documents of a collection have in common, where they have the last field."""

Watcher = Callable[[str, Document | None, Document], None]
"""Is told of each document that is written: its collection, and how it was and is."""


class Home(Protocol):
    """The database of a collection."""

    footprint: Footprint
    watcher: Watcher

    def collection(self, name: str) -> "MemoryCollection": ...


class MemoryCollection:
    def __init__(self, name: str, database: Home) -> None:
        self.name = name
        self.namespace = f"memory.{name}"
        self._database = database
        self.documents: dict[Any, bytes] = {}

    def undecoded(self) -> "Undecoded":
        return Undecoded(self)

    async def find_one(self, match: Document, fields: Document | None = None) -> Document | None:
        found = self._matching(match, limit=1)
        return projected(found[0], fields) if found else None

    async def find(
        self,
        match: Document,
        *,
        sort: Sequence[tuple[str, int]],
        limit: int = 0,
        fields: Document | None = None,
        hint: Sequence[tuple[str, int]] | None = None,
    ) -> list[Document]:
        found = in_order(self._matching(match), sort)
        return [projected(document, fields) for document in found[: limit or None]]

    async def each(
        self,
        match: Document,
        *,
        sort: Sequence[tuple[str, int]],
        fields: Document | None = None,
    ) -> AsyncIterator[Document]:
        for document in await self.find(match, sort=sort, fields=fields):
            yield document

    async def count(self, match: Document) -> int:
        return len(self._matching(match))

    async def aggregate(self, pipeline: Sequence[Document]) -> list[Document]:
        is_chosen = bool(pipeline) and "$match" in pipeline[0]
        rows = self._matching(pipeline[0]["$match"] if is_chosen else {})
        for stage in pipeline[is_chosen:]:
            ((operator, operand),) = stage.items()
            if operator == "$unionWith":
                other = self._database.collection(operand["coll"])
                rows = [*rows, *await other.aggregate(operand["pipeline"])]
            elif operator == "$lookup":
                rows = [await self._joined(row, **operand) for row in rows]
            else:
                rows = STAGES[operator](rows, operand)
        return rows

    async def _joined(self, row: Document, **operand: Any) -> Document:
        match = {operand["foreignField"]: row.get(operand["localField"])}
        pipeline = [{"$match": match}, *operand.get("pipeline", ())]
        found = await self._database.collection(operand["from"]).aggregate(pipeline)
        return {**row, operand["as"]: found}

    async def find_one_and_update(
        self,
        match: Document,
        update: Document,
        *,
        sort: Sequence[tuple[str, int]] | None = None,
        hint: object = None,
        upsert: bool = False,
    ) -> Document | None:
        found = in_order(self._matching(match), sort or ())
        if not found and upsert:
            await self.upsert([(match, update)])
            return await self.find_one({"_id": match["_id"]})
        if not found:
            return None
        return self._decoded(self._changed(found[0], update))

    async def update_one(self, match: Document, update: Document) -> bool:
        found = self._matching(match, limit=1)
        for document in found:
            self._changed(document, update)
        return bool(found)

    async def update_each(self, changes: Sequence[Change]) -> int:
        return sum(await self.update_and_tell(changes))

    async def update_and_tell(self, changes: Sequence[Change]) -> list[bool]:
        return [await self.update_one(match, update) for match, update in changes]

    async def update_many(self, match: Document, update: Document | list[Document]) -> int:
        found = self._matching(match)
        for document in found:
            self._put(updated(document, update))
        return len(found)

    async def upsert(self, writes: Sequence[Change]) -> None:
        for match, update in writes:
            if not await self.update_one(match, update):
                if "_id" in update.get("$setOnInsert", ()):
                    raise OperationFailure("the `_id` would be another one", IMMUTABLE_FIELD)
                self._put(updated(dict(match), update, is_new=True))

    async def insert(self, documents: Sequence[Mapping[str, Any]]) -> None:
        for index, document in enumerate(documents):
            plain = self._decoded(encoded(document))
            self._refuse_duplicate(plain, index)
            self._put(plain)

    async def insert_each(
        self, documents: Sequence[Mapping[str, Any]]
    ) -> dict[int, DuplicateKeyError]:
        failed = {}
        for place, document in enumerate(documents):
            try:
                await self.insert([document])
            except DuplicateKeyError as error:
                failed[place] = error
        return failed

    async def delete_one(self, match: Document) -> bool:
        found = self._matching(match, limit=1)
        self._delete(found)
        return bool(found)

    async def delete_each(self, matches: Sequence[Document]) -> None:
        for match in matches:
            await self.delete_one(match)

    async def delete_many(self, match: Document) -> int:
        found = self._matching(match)
        self._delete(found)
        return len(found)

    def _refuse_duplicate(self, document: Document, index: int = 0) -> None:
        """Refuse what the server's unique indexes would refuse."""
        taken = self._matching({"_id": document["_id"]}, limit=1)
        for *others, last in UNIQUE:
            if not taken and document.get(last) is not None:
                names = (*others, last)
                taken = self._matching({name: document[name] for name in names}, limit=1)
        if taken:
            message = f"E11000 duplicate key in {self.name}"
            raise DuplicateKeyError(message, DUPLICATE_KEY, {"index": index})

    def _changed(self, document: Document, update: Document | list[Document]) -> bytes:
        after = updated(document, update)
        if any(document.get(name) != after.get(name) for *_, name in UNIQUE):
            keys = {name: value for name, value in after.items() if name != "_id"}
            self._refuse_duplicate({"_id": None, **keys})
        return self._put(after)

    def _put(self, document: Document) -> bytes:
        key, data = document["_id"], encoded(document)
        before = self.documents.get(key)
        old = None if before is None else self._decoded(before)
        self.documents[key] = data
        self._database.footprint.change(self.name, key, (old, document))
        self._database.watcher(self.name, old, document)
        return data

    def _delete(self, documents: list[Document]) -> None:
        for document in documents:
            del self.documents[document["_id"]]
            self._database.footprint.change(self.name, document["_id"], (document, None))

    def _matching(self, match: Document, limit: int | None = None) -> list[Document]:
        self._database.footprint.search(self.name, match)
        decoded = map(self._decoded, self._candidates(match.get("_id")))
        return [document for document in decoded if is_match(document, match)][:limit]

    def _candidates(self, wanted: Any) -> list[bytes]:
        """Return the documents that may match, in an order that does not depend on the history."""
        if isinstance(wanted, str | int):
            data = self.documents.get(wanted)
            return [] if data is None else [data]
        return [self.documents[key] for key in sorted(self.documents)]

    @staticmethod
    def _decoded(data: bytes) -> Document:
        return bson.decode(data, BSON)


class Undecoded:
    """A collection whose documents are read as bytes."""

    def __init__(self, collection: MemoryCollection) -> None:
        self.name = collection.name
        self.namespace = collection.namespace
        self._collection = collection

    async def find_one(self, match: Document) -> RawBSONDocument | None:
        found = await self._collection.find_one(match)
        return None if found is None else _raw(found)

    async def find_one_and_update(
        self, match: Document, update: Document, **options: Any
    ) -> RawBSONDocument | None:
        found = await self._collection.find_one_and_update(match, update, **options)
        return None if found is None else _raw(found)

    async def find(
        self, match: Document, *, sort: Sequence[tuple[str, int]], limit: int = 0
    ) -> list[RawBSONDocument]:
        return [_raw(each) for each in await self._collection.find(match, sort=sort, limit=limit)]

    async def each(
        self, match: Document, *, sort: Sequence[tuple[str, int]]
    ) -> AsyncIterator[RawBSONDocument]:
        for document in await self.find(match, sort=sort):
            yield document


def _raw(document: Document) -> RawBSONDocument:
    return RawBSONDocument(encoded(document), RAW_BSON)


def encoded(document: Mapping[str, Any]) -> bytes:
    return bson.encode(document, codec_options=BSON)
