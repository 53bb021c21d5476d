"""Writes that can be sent together, in order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pymongo.errors import DuplicateKeyError, OperationFailure, PyMongoError
from pymongo.operations import DeleteOne, InsertOne, UpdateOne

from fairlane.driver._bson import Document
from fairlane.driver._codes import IMMUTABLE_FIELD
from fairlane.driver._collection import NEVER, Change, Collection

__all__ = (
    "Delete",
    "Insert",
    "Match",
    "Refusal",
    "Settled",
    "Unit",
    "Upsert",
    "Write",
    "in_phases",
    "refusal_of",
)


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


@dataclass(frozen=True, slots=True)
class Match:
    """Update the document with this `_id`; refused, with all that follows, if it does not match.

    It would insert a document with another `_id` than its filter says, which no server does.
    """

    collection: Collection
    match: Document
    update: Document

    def model(self) -> UpdateOne:
        update = {**self.update, **NEVER}
        return UpdateOne(self.match, update, upsert=True, namespace=self.collection.namespace)

    @staticmethod
    async def apply(run: "Sequence[Match]") -> None:
        for index, write in enumerate(run):
            if not await write.collection.update_one(write.match, write.update):
                raise OperationFailure("no match", IMMUTABLE_FIELD, {"index": index})


Write = Insert | Upsert | Delete | Match


@dataclass(frozen=True, slots=True)
class Unit:
    """An update, and what follows in phases if it matches; units do not depend on each other.

    All of them are of one collection, and have the same number of phases.
    """

    collection: Collection
    change: Change
    phases: Sequence[Sequence[Write]]

    def writes(self) -> list[Write]:
        return [Match(self.collection, *self.change), *in_phases([self])]


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a unit.

    Attributes:
        is_held: whether its update matched.
        trouble: why that could not be told, or, if it matched, what kept the rest from being done.
    """

    is_held: bool
    trouble: PyMongoError | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The first of several writes that the server refused."""

    place: int
    error: OperationFailure


def in_phases(units: Sequence[Unit]) -> list[Write]:
    """Return what follows the updates, the first phase of all units first."""
    return [
        write
        for phase in zip(*(unit.phases for unit in units), strict=True)
        for part in phase
        for write in part
    ]


def refusal_of(error: OperationFailure, *, before: int = 0) -> Refusal:
    """Return which write the server refused; raise what concerns more than one.

    `before`: so many writes were sent before those of which the error counts.
    """
    details = error.details or {}
    place = details.get("idx", details.get("index"))
    if place is None and not isinstance(error, DuplicateKeyError):
        raise error
    return Refusal(before + int(place or 0), error)  # fakes do not say which, of one
