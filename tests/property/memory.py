"""A small, exact document store in memory, for transports and job queues.

Each verb on one document is atomic, as on a server. Documents are kept as BSON, so what is read is
a copy with the server's types. What each verb reads and writes is noted (`footprint`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import bson
import pymongo
from pymongo.errors import ClientBulkWriteException, OperationFailure
from pymongo.operations import DeleteOne, InsertOne
from pymongo.results import UpdateResult

from fairlane import AsyncJobQueue, AsyncMongoTransport
from fairlane.driver import BSON, Document
from property.footprint import Footprint
from property.memory_collection import MemoryCollection, Watcher, encoded

__all__ = ("BulkResult", "MemoryDatabase")


class MemoryDatabase:
    """The collections of one prefix, and what stands in for the client."""

    def __init__(self) -> None:
        self.footprint = Footprint()
        self.watcher: Watcher = lambda *_: None
        self._collections: dict[str, MemoryCollection] = {}
        self._unconnected: Any = pymongo.AsyncMongoClient("mongodb://127.0.0.1:1", connect=False)

    def collection(self, name: str) -> "MemoryCollection":
        return self._collections.setdefault(name, MemoryCollection(name, self))

    def transport(self, **options: Any) -> AsyncMongoTransport[Any]:
        """Return a transport that keeps its documents here."""
        transport: AsyncMongoTransport[Any] = AsyncMongoTransport(self._unconnected, **options)
        self._keep(transport, "messages", "locks", "counters", "dead")
        return transport

    def queue(self, **options: Any) -> AsyncJobQueue:
        """Return a job queue that keeps its documents here."""
        queue = AsyncJobQueue(self._unconnected, **options)
        self._keep(queue, "jobs", "counters", "history")
        return queue

    def _keep(self, product: Any, *parts: str) -> None:
        store: Any = product._store
        for part in parts:
            setattr(store, part, self.collection(f"fairlane_{part}"))
        store.driver.client = self
        store.driver.server_time = _no_server_time
        store._ensure_indexes = False
        store._monotonic = lambda: 0.0  # the settings never age: reading them again is no step

    def contents(self) -> object:
        """Return all documents in a form that can be compared."""
        collections = sorted(self._collections.items())
        return tuple((name, tuple(sorted(each.documents.values()))) for name, each in collections)

    def clear(self) -> None:
        """Delete all documents but the settings."""
        for collection in self._collections.values():
            for key in collection.documents.keys() - {"settings", "settings:jobs"}:
                del collection.documents[key]

    def divide(self, partitions: int) -> None:
        """Store the number of partitions as if it had never been another one."""
        settings = {"_id": "settings", "partitions": partitions}
        self.collection("fairlane_counters").documents["settings"] = encoded(settings)

    def locks(self) -> list[Document]:
        """Return all locks, which is no step and touches nothing."""
        return self.every("locks")

    def every(self, part: str) -> list[Document]:
        """Return all documents of a collection, which is no step and touches nothing."""
        documents = self.collection(f"fairlane_{part}").documents
        return [bson.decode(data, BSON) for data in documents.values()]

    async def bulk_write(self, models: Sequence[Any], **_: Any) -> "BulkResult":
        """Apply the models in order, as the client's cross-collection command does."""
        result = BulkResult()
        for index, model in enumerate(models):
            try:
                matched = await self._apply(model)
            except OperationFailure as error:
                failed = {"idx": index, "code": error.code, "errmsg": str(error)}
                raise ClientBulkWriteException({"writeErrors": [failed]}, False) from error
            result.update_results[index] = UpdateResult({"n": int(matched)}, acknowledged=True)
        return result

    async def _apply(self, model: Any) -> bool:
        collection = self.collection(model._namespace.partition(".")[2])
        if isinstance(model, InsertOne):
            await collection.insert([model._doc])
        elif isinstance(model, DeleteOne):
            return await collection.delete_one(dict(model._filter))
        elif model._upsert:
            await collection.upsert([(model._filter, model._doc)])
        else:
            return await collection.update_one(model._filter, model._doc)
        return True


@dataclass(slots=True)
class BulkResult:
    """As much of the client's result as is looked at."""

    update_results: dict[int, UpdateResult] = field(default_factory=dict)


async def _no_server_time() -> None:
    return None
