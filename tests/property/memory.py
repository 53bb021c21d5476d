"""A small, exact document store in memory: the verbs of `Collection` that the transport uses.

Each verb on one document is atomic, as on a server. Documents are kept as BSON, so what is read is
a copy with the server's types. An operator that is not known here is an error, never ignored.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import bson
import pymongo
from bson.raw_bson import RawBSONDocument
from pymongo.errors import ClientBulkWriteException, DuplicateKeyError
from pymongo.operations import DeleteOne, InsertOne

from fairlane import AsyncMongoTransport
from fairlane.driver import BSON, RAW_BSON, Document

__all__ = ("MemoryCollection", "MemoryDatabase")

DUPLICATE_KEY = 11000
MISSING = object()

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "$lte": lambda value, wanted: _is_number(value) and value <= wanted,
    "$gt": lambda value, wanted: _is_number(value) and value > wanted,
    "$in": lambda value, wanted: value in wanted,
    "$nin": lambda value, wanted: value not in wanted,
    "$exists": lambda value, wanted: (value is not MISSING) == wanted,
}


class MemoryDatabase:
    """The collections of one transport prefix, and what stands in for the client."""

    def __init__(self) -> None:
        self._collections: dict[str, MemoryCollection] = {}
        self._unconnected: Any = pymongo.AsyncMongoClient("mongodb://127.0.0.1:1", connect=False)

    def collection(self, name: str) -> "MemoryCollection":
        return self._collections.setdefault(name, MemoryCollection(name, self))

    def transport(self, **options: Any) -> AsyncMongoTransport[Any]:
        """Return a transport that keeps its documents here."""
        transport: AsyncMongoTransport[Any] = AsyncMongoTransport(self._unconnected, **options)
        store: Any = transport._store
        for part in ("messages", "locks", "counters", "dead"):
            setattr(store, part, self.collection(f"fairlane_{part}"))
        store.driver.client = self
        store.driver.server_time = _no_server_time
        store._ensure_indexes = False
        return transport

    def clear(self) -> None:
        """Delete all documents but the settings, which ready transports know already."""
        for collection in self._collections.values():
            for key in collection.documents.keys() - {"settings"}:
                del collection.documents[key]

    async def bulk_write(self, models: Sequence[Any], **_: Any) -> None:
        """Apply the models in order, as the client's cross-collection command does."""
        for index, model in enumerate(models):
            collection = self.collection(model._namespace.partition(".")[2])
            try:
                if isinstance(model, InsertOne):
                    await collection.insert([model._doc])
                elif isinstance(model, DeleteOne):
                    await collection.delete_one(dict(model._filter))
                else:
                    await collection.upsert([(model._filter, model._doc)])
            except DuplicateKeyError as error:
                failed = {"idx": index, "code": DUPLICATE_KEY, "errmsg": str(error)}
                raise ClientBulkWriteException({"writeErrors": [failed]}, False) from error


class MemoryCollection:
    def __init__(self, name: str, database: MemoryDatabase) -> None:
        self.name = name
        self.namespace = f"memory.{name}"
        self._database = database
        self.documents: dict[Any, bytes] = {}

    def undecoded(self) -> "Undecoded":
        return Undecoded(self)

    async def find_one(self, match: Document, fields: Document | None = None) -> Document | None:
        found = self._matching(match, limit=1)
        return _projected(found[0], fields) if found else None

    async def find(
        self,
        match: Document,
        *,
        sort: Sequence[tuple[str, int]],
        limit: int = 0,
        fields: Document | None = None,
    ) -> list[Document]:
        found = _sorted(self._matching(match), sort)
        return [_projected(document, fields) for document in found[: limit or None]]

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
        rows = self._matching({})
        for stage in pipeline:
            ((operator, operand),) = stage.items()
            if operator == "$unionWith":
                other = self._database.collection(operand["coll"])
                rows = [*rows, *await other.aggregate(operand["pipeline"])]
            else:
                rows = STAGES[operator](rows, operand)
        return rows

    async def find_one_and_update(
        self,
        match: Document,
        update: Document,
        *,
        sort: Sequence[tuple[str, int]] | None = None,
        upsert: bool = False,
    ) -> Document | None:
        found = _sorted(self._matching(match), sort or ())
        if not found and upsert:
            await self.upsert([(match, update)])
            return await self.find_one({"_id": match["_id"]})
        if not found:
            return None
        return self._decoded(self._put(_updated(found[0], update)))

    async def update_one(self, match: Document, update: Document) -> bool:
        found = self._matching(match, limit=1)
        for document in found:
            self._put(_updated(document, update))
        return bool(found)

    async def update_many(self, match: Document, update: Document | list[Document]) -> int:
        found = self._matching(match)
        for document in found:
            self._put(_updated(document, update))
        return len(found)

    async def upsert(self, writes: Sequence[tuple[Document, Document]]) -> None:
        for match, update in writes:
            if not await self.update_one(match, update):
                self._put(_updated(dict(match), update, is_new=True))

    async def insert(self, documents: Sequence[Mapping[str, Any]]) -> None:
        for document in documents:
            plain = self._decoded(_encoded(document))
            self._refuse_duplicate(plain)
            self._put(plain)

    async def delete_one(self, match: Document) -> bool:
        found = self._matching(match, limit=1)
        for document in found:
            del self.documents[document["_id"]]
        return bool(found)

    async def delete_many(self, match: Document) -> int:
        found = self._matching(match)
        for document in found:
            del self.documents[document["_id"]]
        return len(found)

    def _refuse_duplicate(self, document: Document) -> None:
        """Refuse what the server's unique indexes would refuse."""
        named = document.get("message_id")
        is_taken = document["_id"] in self.documents
        if is_taken or (named is not None and self._matching({"message_id": named}, limit=1)):
            raise DuplicateKeyError(f"E11000 duplicate key in {self.name}", DUPLICATE_KEY)

    def _put(self, document: Document) -> bytes:
        data = _encoded(document)
        self.documents[document["_id"]] = data
        return data

    def _matching(self, match: Document, limit: int | None = None) -> list[Document]:
        wanted = match.get("_id")
        if isinstance(wanted, str | int):
            data = self.documents.get(wanted)
            candidates = [] if data is None else [data]
        else:
            candidates = list(self.documents.values())
        decoded = map(self._decoded, candidates)
        return [document for document in decoded if _is_match(document, match)][:limit]

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

    async def find(
        self, match: Document, *, sort: Sequence[tuple[str, int]], limit: int = 0
    ) -> list[RawBSONDocument]:
        return [_raw(each) for each in await self._collection.find(match, sort=sort, limit=limit)]

    async def each(
        self, match: Document, *, sort: Sequence[tuple[str, int]]
    ) -> AsyncIterator[RawBSONDocument]:
        for document in await self.find(match, sort=sort):
            yield document


async def _no_server_time() -> None:
    return None


def _raw(document: Document) -> RawBSONDocument:
    return RawBSONDocument(_encoded(document), RAW_BSON)


def _encoded(document: Mapping[str, Any]) -> bytes:
    return bson.encode(document, codec_options=BSON)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(document: Any, path: str) -> Any:
    for step in path.split("."):
        if isinstance(document, dict):
            document = document.get(step, MISSING)
        elif isinstance(document, list) and step.isdigit():
            document = document[int(step)] if int(step) < len(document) else MISSING
        else:
            return MISSING
    return document


def _is_match(document: Document, match: Document) -> bool:
    return all(_holds(_value(document, path), wanted) for path, wanted in match.items())


def _holds(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        return all(OPERATORS[name](value, operand) for name, operand in wanted.items())
    if wanted is None:
        return value is None or value is MISSING
    return bool(value == wanted)


def _sorted(documents: list[Document], sort: Sequence[tuple[str, int]]) -> list[Document]:
    for path, direction in reversed(sort):
        documents = sorted(
            documents, key=lambda document: _value(document, path), reverse=direction < 0
        )
    return documents


def _projected(document: Document, fields: Document | None) -> Document:
    if fields is None:
        return document
    return {key: value for key, value in document.items() if key == "_id" or key in fields}


def _updated(
    document: Document, update: Document | list[Document], *, is_new: bool = False
) -> Document:
    if isinstance(update, list):
        return _piped(document, update)
    changed = dict(document)
    for operator, changes in update.items():
        if operator == "$setOnInsert" and not is_new:
            continue
        for key, operand in changes.items():
            _change(changed, operator, key, operand)
    return changed


def _change(document: Document, operator: str, key: str, operand: Any) -> None:
    if operator in ("$set", "$setOnInsert"):
        document[key] = operand
    elif operator == "$inc":
        document[key] = document.get(key, 0) + operand
    elif operator == "$max":
        document[key] = max(document.get(key, operand), operand)
    elif operator == "$unset":
        document.pop(key, None)
    else:
        raise NotImplementedError(operator)


def _grouped(rows: list[Document], operand: Document) -> list[Document]:
    groups: dict[Any, list[Document]] = {}
    for row in rows:
        key = _evaluated(row, operand["_id"])
        groups.setdefault(bson.encode({"_id": key}), []).append(row)
    return [
        {name: _gathered(members, expression) for name, expression in operand.items()}
        for members in groups.values()
    ]


def _gathered(members: list[Document], expression: Any) -> Any:
    if isinstance(expression, dict) and "$sum" in expression:
        return sum(_evaluated(member, expression["$sum"]) for member in members)
    if isinstance(expression, dict) and "$first" in expression:
        expression = expression["$first"]
    return _evaluated(members[0], expression)


def _piped(document: Document, stages: list[Document]) -> Document:
    changed = dict(document)
    for stage in stages:
        ((operator, changes),) = stage.items()
        if operator != "$set":
            raise NotImplementedError(operator)
        changed.update({key: _evaluated(document, value) for key, value in changes.items()})
    return changed


def _evaluated(document: Document, expression: Any) -> Any:
    if isinstance(expression, str) and expression.startswith("$"):
        value = _value(document, expression[1:])
        return None if value is MISSING else value
    if not isinstance(expression, dict):
        return expression
    if not any(name.startswith("$") for name in expression):
        return {name: _evaluated(document, part) for name, part in expression.items()}
    ((operator, operands),) = expression.items()
    return EXPRESSIONS[operator](*(_evaluated(document, operand) for operand in operands))


EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "$ifNull": lambda value, default: default if value is None else value,
    "$cond": lambda condition, one, other: one if condition else other,
    "$lte": lambda one, other: one <= other,
    "$ne": lambda one, other: one != other,
}

STAGES: dict[str, Callable[[list[Document], Any], list[Document]]] = {
    "$match": lambda rows, match: [row for row in rows if _is_match(row, match)],
    "$sort": lambda rows, sort: _sorted(rows, list(sort.items())),
    "$limit": lambda rows, limit: rows[:limit],
    "$group": _grouped,
    "$project": lambda rows, fields: [
        {"_id": row["_id"]}
        | {name: _evaluated(row, expression) for name, expression in fields.items()}
        for row in rows
    ],
}
