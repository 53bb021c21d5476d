"""The driver adapter: the one place that knows Motor and PyMongo's `AsyncMongoClient` differ.

Everything else sees a `Driver` and its `Collection`s: a handful of typed verbs, the same on both
(and on mongomock-motor, for users' unit tests).
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from itertools import groupby
from typing import Any, Literal, TypeVar
from urllib.parse import unquote, urlsplit

import pymongo
from bson.binary import UuidRepresentation
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.raw_bson import RawBSONDocument
from pymongo import errors as driver_errors
from pymongo.errors import DuplicateKeyError
from pymongo.operations import DeleteOne, IndexModel, InsertOne, UpdateOne
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from fairlane.errors import ConfigurationError, ServerUnreachable

__all__ = (
    "Collection",
    "Delete",
    "Document",
    "Driver",
    "Insert",
    "Upsert",
    "UpsertOne",
    "close",
    "connect",
)

Document = dict[str, Any]
Kind = Literal["motor", "pymongo", "mongomock"]
Sort = Sequence[tuple[str, int]]
UpsertOne = tuple[Document, Document]
T = TypeVar("T")

BSON: CodecOptions[Document] = CodecOptions(
    tz_aware=True,
    tzinfo=UTC,
    uuid_representation=UuidRepresentation.STANDARD,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
)
RAW_BSON: CodecOptions[RawBSONDocument] = CodecOptions(
    document_class=RawBSONDocument,
    tz_aware=True,
    tzinfo=UTC,
    uuid_representation=UuidRepresentation.UNSPECIFIED,  # so that a broken UUID passes as bytes
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
)
MOCK_BSON: CodecOptions[Document] = CodecOptions(tz_aware=True)

CROSS_COLLECTION_BULK_WIRE_VERSION = 25  # MongoDB 8.0
UNION_WIRE_VERSION = 9  # MongoDB 4.4
COMMAND_NOT_FOUND = 59
AUTHENTICATION_FAILED = 18
UPSERT_TRIES = 5
DUPLICATE_KEY = 11000


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
            return await call
        except driver_errors.AutoReconnect:
            self._on_disconnect()
            raise

    async def find_one(self, match: Document, fields: Document | None = None) -> Document | None:
        found: Document | None = await self._run(self._raw.find_one(match, fields))
        return found

    async def find(
        self, match: Document, *, sort: Sort, limit: int, fields: Document | None = None
    ) -> list[Document]:
        cursor = self._raw.find(match, fields).sort(list(sort)).limit(limit)
        found: list[Document] = await self._run(cursor.to_list(None))
        return found

    async def each(
        self, match: Document, *, sort: Sort, fields: Document | None = None
    ) -> AsyncGenerator[Document, None]:
        cursor = self._raw.find(match, fields).sort(list(sort))
        try:
            async for document in cursor:
                yield document
        except driver_errors.AutoReconnect:
            self._on_disconnect()
            raise
        finally:
            await cursor.close()

    async def aggregate(self, pipeline: Sequence[Document]) -> list[Document]:
        cursor = self._raw.aggregate(list(pipeline))
        if self._kind == "pymongo":
            cursor = await self._run(cursor)
        found: list[Document] = await self._run(cursor.to_list(None))
        return found

    async def count(self, match: Document) -> int:
        number: int = await self._run(self._raw.count_documents(match))
        return number

    async def find_one_and_update(
        self, match: Document, update: Document, *, sort: Sort | None = None, upsert: bool = False
    ) -> Document | None:
        """Update one document and return it as it is afterwards."""
        change = self._raw.find_one_and_update(
            match,
            update,
            sort=None if sort is None else list(sort),
            upsert=upsert,
            return_document=pymongo.ReturnDocument.AFTER,
        )
        found: Document | None = await self._run(change)
        return found

    async def update_one(self, match: Document, update: Document) -> bool:
        """Return whether a document matched."""
        result = await self._run(self._raw.update_one(match, update))
        return bool(result.matched_count)

    async def update_many(self, match: Document, update: Document | list[Document]) -> int:
        """Return how many documents matched."""
        result = await self._run(self._raw.update_many(match, update))
        return int(result.matched_count)

    async def upsert(self, writes: Sequence[UpsertOne]) -> None:
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

    async def _upsert(self, writes: Sequence[UpsertOne]) -> None:
        if len(writes) == 1 or self._kind == "mongomock":  # mongomock refuses UpdateOne in bulks
            for match, update in writes:
                await self._run(self._raw.update_one(match, update, upsert=True))
            return
        models = [UpdateOne(match, update, upsert=True) for match, update in writes]
        try:
            await self._run(self._raw.bulk_write(models, ordered=True))
        except driver_errors.BulkWriteError as error:
            raise _as_single(error) from None

    async def insert(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Insert documents in order. Raises `DuplicateKeyError` for a taken key."""
        if len(documents) == 1:
            await self._run(self._raw.insert_one(documents[0]))
            return
        try:
            await self._run(self._raw.insert_many(documents, ordered=True))
        except driver_errors.BulkWriteError as error:
            raise _as_single(error) from None

    async def delete_one(self, match: Document) -> bool:
        result = await self._run(self._raw.delete_one(match))
        return bool(result.deleted_count)

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

    async def drop(self) -> None:
        await self._run(self._raw.drop())


@dataclass(frozen=True, slots=True)
class Insert:
    """Insert a document. Raises `DuplicateKeyError` if a key of it is taken."""

    collection: Collection
    document: Mapping[str, Any]

    def model(self) -> InsertOne[Any]:
        return InsertOne(self.document, namespace=self.collection.namespace)

    @staticmethod
    async def apply(run: "Sequence[Insert]") -> None:
        await run[0].collection.insert([write.document for write in run])


@dataclass(frozen=True, slots=True)
class Upsert:
    """Update the document with this `_id`, or make it. May be applied again."""

    collection: Collection
    match: Document
    update: Document

    def model(self) -> UpdateOne:
        return UpdateOne(self.match, self.update, upsert=True, namespace=self.collection.namespace)

    @staticmethod
    async def apply(run: "Sequence[Upsert]") -> None:
        await run[0].collection.upsert([(write.match, write.update) for write in run])


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a document, if it matches."""

    collection: Collection
    match: Document

    def model(self) -> DeleteOne:
        return DeleteOne(self.match, namespace=self.collection.namespace)

    @staticmethod
    async def apply(run: "Sequence[Delete]") -> None:
        for write in run:
            await write.collection.delete_one(write.match)


Write = Insert | Upsert | Delete


class Driver:
    """An injected client, whichever of the supported drivers it is from."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.kind = _kind_of(client)
        self.has_cross_collection_bulk: bool = False
        self.has_union: bool = False
        self.on_disconnect: Callable[[], None] = lambda: None
        # mongomock gives a database for every unknown attribute
        wanted = WriteConcern() if self.kind == "mongomock" else client.write_concern
        self._write_concern: WriteConcern = _at_least_majority(wanted)

    @property
    def keeps_bytes(self) -> bool:
        """Whether documents can be written as the bytes that they were encoded to."""
        return self.kind != "mongomock"

    def collection(self, db_name: str, name: str) -> Collection:
        raw = self.client.get_database(db_name).get_collection(
            name,
            codec_options=BSON if self.keeps_bytes else MOCK_BSON,
            read_preference=ReadPreference.PRIMARY,
            # With a majority read a claim could see the lock of a publish and not yet its message.
            read_concern=ReadConcern("local") if self.keeps_bytes else None,
            write_concern=self._write_concern,
        )
        return Collection(raw, self.kind, lambda: self.on_disconnect())

    async def server_time(self) -> float | None:
        """Ask the primary for its time (epoch seconds) and note what it can do.

        None from an in-process fake, which has no server.
        """
        if self.kind == "mongomock":
            return None
        reply = await self._hello()
        wire_version = reply.get("maxWireVersion", 0)
        self.has_cross_collection_bulk = (
            wire_version >= CROSS_COLLECTION_BULK_WIRE_VERSION
            # PyMongo writes into the reply, which a client of raw documents does not allow.
            and issubclass(self.client.codec_options.document_class, MutableMapping)
        )
        self.has_union = wire_version >= UNION_WIRE_VERSION
        return float(reply["localTime"].timestamp())

    async def _hello(self) -> Document:
        admin = self.client.get_database("admin")
        try:  # a command decodes as it is told itself, whatever its database says
            reply: Document = await admin.command("hello", codec_options=BSON)
        except driver_errors.OperationFailure as error:
            if error.code != COMMAND_NOT_FOUND:  # before MongoDB 4.4.2
                raise
            reply = await admin.command("isMaster", codec_options=BSON)
        return reply

    async def find_and_one(
        self,
        collection: Collection,
        match: Document,
        *,
        sort: Sort,
        limit: int,
        other: Collection,
        other_id: str,
    ) -> tuple[list[Document], Document | None]:
        """Find as `find` does, then read one document elsewhere: one command where possible.

        The `_id`s found must not be strings, by which the other document is told from them.
        """
        if not self.has_union:
            found = await collection.find(match, sort=sort, limit=limit)
            return found, await other.find_one({"_id": other_id})
        beside = {"coll": other.name, "pipeline": [{"$match": {"_id": other_id}}]}
        rows = await collection.aggregate(
            [{"$match": match}, {"$sort": dict(sort)}, {"$limit": limit}, {"$unionWith": beside}]
        )
        if rows and rows[-1]["_id"] == other_id:
            return rows[:-1], rows[-1]
        return rows, None

    async def write_in_order(self, writes: Sequence[Write]) -> None:
        """Apply the writes in order: one command where the server can.

        Raises `DuplicateKeyError` if the key of an insert is taken; nothing after it was applied.
        """
        reached = 0
        if self.has_cross_collection_bulk and len(writes) > 1:
            reached = await self._bulk([write.model() for write in writes])
        for _, run in groupby(writes[reached:], key=lambda write: (type(write), write.collection)):
            batch: list[Any] = list(run)
            await batch[0].apply(batch)

    async def _bulk(self, models: Sequence[Any]) -> int:
        """Apply the models in order; return how many were applied.

        Stops short where the server is too old, and at an upsert that met another one.
        """
        try:
            await self.client.bulk_write(models, write_concern=self._write_concern)
        except driver_errors.InvalidOperation:  # an older server became primary
            self.has_cross_collection_bulk = False
            return 0
        except driver_errors.AutoReconnect:
            self.on_disconnect()
            raise
        except driver_errors.ClientBulkWriteException as error:
            return self._applied_before(error, models)
        return len(models)

    def _applied_before(
        self, error: driver_errors.ClientBulkWriteException, models: Sequence[Any]
    ) -> int:
        if isinstance(error.error, driver_errors.AutoReconnect):
            self.on_disconnect()
        if error.error is not None:
            raise error.error from error
        single = _as_single(error)
        index = int((single.details or {}).get("idx", 0))
        if isinstance(models[index], UpdateOne) and isinstance(single, DuplicateKeyError):
            return index
        raise single from None

    async def close(self) -> None:
        await close(self.client)


async def connect(url: str, *, driver: str, connect_timeout: float, options: Document) -> Any:
    """Open a client, after seeing that a server answers within `connect_timeout` seconds.

    A client of its own asks for that: the limit is not meant for later failovers.

    Raises `ConfigurationError` (bad URL, options, driver or credentials) or `ServerUnreachable`.
    """
    limit = {"serverSelectionTimeoutMS": max(1, round(connect_timeout * 1000))}
    client = _open(url, driver, {**options, **limit})
    try:
        Driver(client)  # refuses what no transport can use
        await client.get_database("admin").command("ping")
    except driver_errors.OperationFailure as error:
        if error.code != AUTHENTICATION_FAILED:
            raise
        raise ConfigurationError(
            f"the server at {_address(url)} refused the credentials of {urlsplit(url).username!r}"
        ) from None
    except driver_errors.ConfigurationError as error:  # of a name that has to be looked up
        raise _unusable(url, error) from None
    except driver_errors.ConnectionFailure as error:
        problem = re.sub(r" ?\(configured timeouts.*|, Timeout: .*", "", _masked(str(error), url))
        raise ServerUnreachable(
            f"no server at {_address(url)} within {connect_timeout:g} s: {problem}"
        ) from None
    finally:
        await close(client)
    return _open(url, driver, options)


async def close(client: Any) -> None:
    if _kind_of(client) == "motor":  # it says good-bye to the server, in the calling thread
        await asyncio.to_thread(client.close)
        return
    closing = client.close()
    if closing is not None:
        await closing


def _open(url: str, driver: str, options: Document) -> Any:
    if not isinstance(url, str):
        raise ConfigurationError(
            f"url must be a str like 'mongodb://localhost:27017', not {type(url).__name__}"
        )
    try:
        return _client_class(driver)(url, **options)
    except (driver_errors.PyMongoError, ValueError, TypeError) as error:
        if isinstance(error, ConfigurationError):
            raise
        raise _unusable(url, error) from None


def _unusable(url: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(
        f"cannot use the url of {_address(url)}, or an option: {_masked(str(error), url)}"
    )


def _client_class(driver: str) -> Any:
    if driver == "motor":
        from motor.motor_asyncio import AsyncIOMotorClient

        return AsyncIOMotorClient
    if driver == "pymongo":
        return pymongo.AsyncMongoClient
    raise ConfigurationError(f"driver must be 'motor' or 'pymongo', not {driver!r}")


def _kind_of(client: Any) -> Kind:
    kind = type(client)  # not isinstance: the fake claims to be Motor's
    bases = {f"{base.__module__}.{base.__name__}" for base in kind.__mro__}
    if "mongomock_motor.AsyncMongoMockClient" in bases:
        return "mongomock"
    if "motor.core.AgnosticClient" in bases:
        return "motor"
    if issubclass(kind, pymongo.AsyncMongoClient):
        return "pymongo"
    if issubclass(kind, pymongo.MongoClient):
        raise ConfigurationError(
            "client is a blocking MongoClient; the async transport needs an AsyncIOMotorClient or "
            "an AsyncMongoClient (MongoTransport is the blocking transport, built from a URL)"
        )
    raise ConfigurationError(
        f"client must be an AsyncIOMotorClient or an AsyncMongoClient, not {kind.__qualname__}"
    )


def _at_least_majority(wanted: WriteConcern) -> WriteConcern:
    """Return the caller's write concern, raised to a majority where it counts servers.

    A number cannot be compared with a majority, so numbers become "majority"; named ones stay.
    """
    if not wanted.acknowledged:
        raise ConfigurationError(
            "client has write concern w=0; a lease needs acknowledged writes (leave w out)"
        )
    concern = dict(wanted.document)
    if not isinstance(concern.get("w"), str):
        concern["w"] = "majority"
    return WriteConcern(**concern)


def _as_single(error: driver_errors.OperationFailure) -> driver_errors.OperationFailure:
    """Return the first error of an ordered bulk as the error of a single write."""
    failed = (error.details or {}).get("writeErrors")
    if not failed:
        return error
    # Without the operation: errors are logged, and it holds the payload.
    first = {key: value for key, value in failed[0].items() if key != "op"}
    kind = DuplicateKeyError if first["code"] == DUPLICATE_KEY else driver_errors.OperationFailure
    return kind(first.get("errmsg", str(error)), first["code"], first)


def _address(url: str) -> str:
    """Return scheme and hosts of a URL, which may be a wrong one: never a part of a password."""
    head, separator, rest = url.rpartition("://")
    authority, _, query = rest.replace("?", "/").partition("/")
    if "@" in query:  # a password with a slash, or an option with an @: it cannot be told
        authority = "..."
    return f"{head if separator else 'mongodb'}://{authority.rpartition('@')[2]}"


def _masked(message: str, url: str) -> str:
    """Return a driver's message, without any part of what stands before the hosts."""
    secret = url.rpartition("@")[0].rpartition("://")[2].partition(":")[2]
    for part in {secret, unquote(secret), *re.split("[/@:]", secret)} - {""}:
        message = message.replace(part, "***")
    return message
