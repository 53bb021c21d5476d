"""A hook around every driver call of one transport.

What the server applies document by document (an insert of many, a bulk, a delete of many) is sent
one document at a time, so that the moments between the documents are points as well.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pymongo.errors import AutoReconnect, ClientBulkWriteException, OperationFailure
from pymongo.operations import DeleteOne, InsertOne, UpdateOne

from fairlane import AsyncJobQueue, AsyncMongoTransport
from property.memory import BulkResult

__all__ = ("Call", "Conduct", "Step", "Wire")

PARTS = ("messages", "locks", "counters", "dead")
VERBS = {InsertOne: "insert", DeleteOne: "delete_one"}


@dataclass(frozen=True, slots=True)
class Step:
    """One driver call: what it does, and to which collection."""

    collection: str
    verb: str

    def __str__(self) -> str:
        return f"{self.collection}.{self.verb}"


Call = Callable[[], Awaitable[Any]]
Conduct = Callable[[Step, Call], Awaitable[Any]]
"""Makes a driver call and returns its result, or makes something else of it."""


async def straight(_: Step, call: Call) -> Any:
    return await call()


class Wire:
    """Between a product and its driver; `conduct` decides what becomes of each call."""

    def __init__(
        self,
        product: AsyncMongoTransport[Any] | AsyncJobQueue,
        conduct: Conduct = straight,
        parts: Sequence[str] = PARTS,
    ) -> None:
        self.conduct = conduct
        store: Any = product._store
        for part in parts:
            setattr(store, part, WiredCollection(getattr(store, part), self, part))
        store.driver.client = WiredClient(store.driver.client, self)

    async def send(self, collection: str, verb: str, call: Call) -> Any:
        return await self.conduct(Step(collection, verb), call)


class WiredCollection:
    def __init__(self, inner: Any, wire: Wire, part: str) -> None:
        self._inner = inner
        self._wire = wire
        self._part = part
        self.name = inner.name
        self.namespace = inner.namespace

    def undecoded(self) -> "WiredCollection":
        return WiredCollection(self._inner.undecoded(), self._wire, self._part)

    def __getattr__(self, verb: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._inner, verb)

        async def send(*args: Any, **options: Any) -> Any:
            return await self._send(verb, partial(method, *args, **options))

        return send

    async def each(self, match: Any, **options: Any) -> AsyncIterator[Any]:
        """Read all in one step, as a cursor's first batch does."""

        async def read() -> list[Any]:
            return [document async for document in self._inner.each(match, **options)]

        for document in await self._send("each", read):
            yield document

    async def insert(self, documents: Sequence[Any]) -> None:
        for document in documents:
            await self._send("insert", partial(self._inner.insert, [document]))

    async def insert_each(self, documents: Sequence[Any]) -> dict[int, Any]:
        failed: dict[int, Any] = {}
        for place, document in enumerate(documents):
            one = await self._send("insert", partial(self._inner.insert_each, [document]))
            failed |= dict.fromkeys([place] * len(one), one.get(0))
        return failed

    async def upsert(self, writes: Sequence[Any]) -> None:
        for write in writes:
            await self._send("upsert", partial(self._inner.upsert, [write]))

    async def update_each(self, changes: Sequence[Any]) -> int:
        return sum(await self.update_and_tell(changes))

    async def update_and_tell(self, changes: Sequence[Any]) -> list[bool]:
        return [
            await self._send("update_one", partial(self._inner.update_one, match, update))
            for match, update in changes
        ]

    async def delete_each(self, matches: Sequence[Any]) -> None:
        for match in matches:
            await self._send("delete_one", partial(self._inner.delete_one, match))

    async def delete_many(self, match: Any) -> int:
        if set(match) != {"_id"}:
            deleted: int = await self._send("delete_many", partial(self._inner.delete_many, match))
            return deleted
        one_by_one = [
            await self._send("delete_one", partial(self._inner.delete_one, {"_id": each}))
            for each in match["_id"]["$in"]
        ]
        return sum(one_by_one)

    async def _send(self, verb: str, call: Call) -> Any:
        return await self._wire.send(self._part, verb, call)


class WiredClient:
    def __init__(self, inner: Any, wire: Wire) -> None:
        self._inner = inner
        self._wire = wire

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def bulk_write(self, models: Sequence[Any], **options: Any) -> "BulkResult":
        result = BulkResult()
        for index, model in enumerate(models):
            part = model._namespace.rpartition("_")[2]
            call = partial(self._inner.bulk_write, [model], **options)
            try:
                one = await self._wire.send(part, _verb(model), call)
            except AutoReconnect as error:  # the driver wraps it, so the wire does
                known = AutoReconnect(f"within a command: {error}") if index else error
                raise ClientBulkWriteException({"error": known}, False) from error
            except ClientBulkWriteException as error:
                for failed in (error.details or {}).get("writeErrors", ()):
                    failed["idx"] = index
                raise
            except OperationFailure as error:  # of one write, by the server
                failed = {"idx": index, "code": error.code, "errmsg": str(error)}
                raise ClientBulkWriteException({"writeErrors": [failed]}, False) from error
            if options.get("verbose_results"):
                result.update_results[index] = one.update_results[0]
        return result


def _verb(model: Any) -> str:
    if isinstance(model, UpdateOne):
        return "upsert" if model._upsert else "update_one"
    return VERBS[type(model)]
