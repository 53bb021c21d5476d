"""Writes that can be sent together, in order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymongo.operations import DeleteOne, InsertOne, UpdateOne

from fairlane.driver._bson import Document
from fairlane.driver._collection import Collection

__all__ = ("Delete", "Insert", "Upsert", "Write")


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
        await run[0].collection.delete_each([write.match for write in run])


Write = Insert | Upsert | Delete
