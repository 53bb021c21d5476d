"""A client of any supported driver, and what its server can do."""

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from itertools import groupby
from typing import Any, TypeVar

from pymongo import errors as driver_errors
from pymongo.errors import DuplicateKeyError
from pymongo.operations import UpdateOne
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from fairlane.driver._bson import BSON, MOCK_BSON, Document
from fairlane.driver._cancelling import guarded
from fairlane.driver._codes import API_STRICT, COMMAND_NOT_FOUND, IMMUTABLE_FIELD
from fairlane.driver._collection import Change, Collection, Sort, as_single
from fairlane.driver._copying import copying
from fairlane.driver._hope import Hope
from fairlane.driver._kinds import kind_of
from fairlane.driver._watching import UNHURRIED, OpenStream, Stream
from fairlane.driver._writes import Refusal, Settled, Unit, Write, in_phases, refusal_of
from fairlane.errors import ConfigurationError

__all__ = ("Driver",)

T = TypeVar("T")

CROSS_COLLECTION_BULK_WIRE_VERSION = 25  # MongoDB 8.0
UNION_WIRE_VERSION = 9  # MongoDB 4.4
LOOKUP_WIRE_VERSION = 13  # MongoDB 5.0: $lookup by a field and with a pipeline


class Driver:
    """An injected client, whichever of the supported drivers it is from."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.kind = kind_of(client)
        self.has_cross_collection_bulk: bool = False
        self.has_union: bool = False
        self.has_lookup: bool = False
        self.wire_version: int = 0
        self.is_known: bool = False
        self._hope = Hope(client)
        self.on_disconnect: Callable[[], None] = lambda: None
        # mongomock gives a database for every unknown attribute
        wanted = WriteConcern() if self.kind == "mongomock" else client.write_concern
        self._write_concern: WriteConcern = _at_least_majority(wanted)

    @property
    def keeps_bytes(self) -> bool:
        """Whether documents can be written as the bytes that they were encoded to."""
        return self.kind != "mongomock"

    def watching(self, db_name: str) -> OpenStream | None:
        """Return what makes a stream of this database's changes; None if there is no way to."""
        opens = copying(self.client, self.kind, **UNHURRIED)
        return None if opens is None else lambda: Stream(opens(), db_name)

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
            self.is_known = True
            return None
        reply = await (self._hello() if self.is_known else self.first(self._hello()))
        self.is_known = True
        self.wire_version = wire_version = int(reply.get("maxWireVersion", 0))
        self.has_cross_collection_bulk = (
            wire_version >= CROSS_COLLECTION_BULK_WIRE_VERSION
            # PyMongo writes into the reply, which a client of raw documents does not allow.
            and issubclass(self.client.codec_options.document_class, MutableMapping)
        )
        self.has_union = wire_version >= UNION_WIRE_VERSION
        self.has_lookup = wire_version >= LOOKUP_WIRE_VERSION
        return float(reply["localTime"].timestamp())

    def first(self, call: Awaitable[T]) -> Awaitable[T]:
        """Return a call to a server of which nothing is known yet.

        It fails at once with `ConfigurationError` where the driver would look on in vain.
        """
        return self._hope.answer(call)

    async def has_atomic_sorted_updates(self) -> bool:
        """Ask whether the server is none of those that update without judging the filter again.

        SecantusDB chooses the first document and then updates it by its `_id` alone (0.7.0b3).
        """
        admin = self.client.get_database("admin")
        try:
            build = await self._guarded(admin.command("buildInfo", codec_options=BSON))
        except driver_errors.OperationFailure as error:
            if error.code != API_STRICT:
                raise
            return False  # a client of the strict API may not ask, and the other way is right, too
        return "secantusVersion" not in build

    async def _hello(self) -> Document:
        admin = self.client.get_database("admin")
        try:  # a command decodes as it is told itself, whatever its database says
            reply: Document = await self._guarded(admin.command("hello", codec_options=BSON))
        except driver_errors.OperationFailure as error:
            if error.code != COMMAND_NOT_FOUND:  # before MongoDB 4.4.2
                raise
            reply = await self._guarded(admin.command("isMaster", codec_options=BSON))
        return reply

    def _guarded(self, call: Awaitable[T]) -> Awaitable[T]:
        return guarded(self.kind, call)

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
        refusal = await self.write_until_refused(writes)
        if refusal is not None:
            raise refusal.error

    async def write_until_refused(self, writes: Sequence[Write]) -> Refusal | None:
        """Apply the writes in order, and tell of the one that the server refuses, if it does so.

        All before it were applied, and none behind it. Raises what concerns no single write.
        """
        reached = 0
        while self.has_cross_collection_bulk and reached + 1 < len(writes):
            models = [write.model() for write in writes[reached:]]
            try:
                applied = await self._write_together(models)
            except driver_errors.OperationFailure as error:
                return refusal_of(error, before=reached)
            if not applied:
                break
            reached += applied
        for _, run in groupby(writes[reached:], key=lambda write: (type(write), write.collection)):
            batch: list[Any] = list(run)
            try:
                await batch[0].apply(batch)
            except driver_errors.OperationFailure as error:
                return refusal_of(error, before=reached)
            reached += len(batch)
        return None

    async def settle(self, units: Sequence[Unit]) -> list[Settled]:
        """Apply the update of each unit, and what follows it if that matched.

        One command, where the server can. What comes behind a unit that it stops at is done in
        steps, a few commands more however many do not match.
        """
        settled: list[Settled] = []
        if self.has_cross_collection_bulk and units:
            settled = await self._settle_together(units)
        return settled + await self._settle_in_steps(units[len(settled) :])

    async def _settle_together(self, units: Sequence[Unit]) -> list[Settled]:
        """Settle all in one command, or up to the first unit that the server stops at."""
        writes = [unit.writes() for unit in units]
        refusal = await self.write_until_refused([write for unit in writes for write in unit])
        if refusal is None:
            return [Settled(True)] * len(units)
        place, settled = refusal.place, 0
        while place >= len(writes[settled]):
            place -= len(writes[settled])
            settled += 1
        is_missed = place == 0 and refusal.error.code == IMMUTABLE_FIELD
        stopped = Settled(is_held=place > 0, trouble=None if is_missed else refusal.error)
        return [*[Settled(True)] * settled, stopped]

    async def _settle_in_steps(self, units: Sequence[Unit]) -> list[Settled]:
        """Settle first, then do the rest for all: a few commands on any server."""
        if not units:
            return []
        told = await self.update_and_tell(units[0].collection, [unit.change for unit in units])
        held = [unit for unit, is_held in zip(units, told, strict=True) if is_held]
        trouble: driver_errors.PyMongoError | None = None
        try:
            await self.write_in_order(in_phases(held))
        except driver_errors.PyMongoError as error:  # the settlements are decided
            trouble = error
        return [Settled(is_held, trouble if is_held else None) for is_held in told]

    async def update_and_tell(
        self, collection: Collection, changes: Sequence[Change]
    ) -> list[bool]:
        """Apply single updates by `_id`, in any order; tell of each whether it matched.

        One command, whatever the server; see `Collection.update_and_tell` for older ones.
        """
        if self.has_cross_collection_bulk and len(changes) > 1:
            models = [
                UpdateOne(match, update, namespace=collection.namespace)
                for match, update in changes
            ]
            try:
                done = await self._bulk(models, ordered=False, verbose_results=True)
            except driver_errors.ClientBulkWriteException as error:  # it shows all the writes
                raise as_single(error) from None
            if done is not None:
                told = done.update_results
                return [bool(told[number].matched_count) for number in range(len(models))]
        return await collection.update_and_tell(changes)

    async def _write_together(self, models: Sequence[Any]) -> int:
        """Apply the models in order; return how many were applied.

        Stops short where the server is too old, and at an upsert that met another one.
        """
        try:
            done = await self._bulk(models)
        except driver_errors.ClientBulkWriteException as error:
            if (error.details or {}).get("writeConcernErrors"):  # of all that was applied
                raise
            return _applied_before(error, models)
        return 0 if done is None else len(models)

    async def _bulk(self, models: Sequence[Any], **options: Any) -> Any:
        """Send the models in one command and return its result; None if the server is too old."""
        try:
            return await self._guarded(
                self.client.bulk_write(models, write_concern=self._write_concern, **options)
            )
        except driver_errors.InvalidOperation:  # an older server became primary
            self.has_cross_collection_bulk = False
            return None
        except driver_errors.AutoReconnect:
            self.on_disconnect()
            raise
        except driver_errors.ClientBulkWriteException as error:
            if isinstance(error.error, driver_errors.AutoReconnect):
                self.on_disconnect()
            if error.error is not None:
                raise error.error from error
            raise


def _applied_before(error: driver_errors.ClientBulkWriteException, models: Sequence[Any]) -> int:
    single = as_single(error)
    index = int((single.details or {}).get("idx", 0))
    if isinstance(models[index], UpdateOne) and isinstance(single, DuplicateKeyError):
        return index
    raise single from None


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
