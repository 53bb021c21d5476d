"""What a step of a schedule touches: two steps that do not meet may change places."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ("Footprint",)

Place = tuple[str, str, Any]
"""A collection, a field and its value: all documents that have it. The field "*" means all."""

FIELDS = ("_id", "group_id")


@dataclass(slots=True)
class Footprint:
    """The documents and the notes that were read and written.

    A read by a whole `_id` or `group_id` touches the documents that have it, whether they exist or
    not; any other read touches the collection.
    """

    reads: set[Place] = field(default_factory=set)
    writes: set[Place] = field(default_factory=set)
    is_fault: bool = False
    is_seen_by_all: bool = False

    @property
    def is_write(self) -> bool:
        """Whether a document was written."""
        return any(name == "_id" for _, name, _ in self.writes)

    def read(self, collection: str, match: Mapping[str, Any]) -> None:
        for name in FIELDS:
            value = match.get(name)
            if isinstance(value, dict) and set(value) == {"$in"}:
                self.reads.update((collection, name, each) for each in value["$in"])
                return
            if isinstance(value, str | int):
                self.reads.add((collection, name, value))
                return
        self.reads.add((collection, "*", None))

    def write(self, collection: str, document: Mapping[str, Any]) -> None:
        self.writes.add((collection, "*", None))
        self.writes.update(
            (collection, name, document[name]) for name in FIELDS if name in document
        )

    def add(self, other: "Footprint") -> None:
        self.reads |= other.reads
        self.writes |= other.writes

    def meets(self, other: "Footprint") -> bool:
        """Whether it may matter which of the two comes first.

        Where one fault is the last that is allowed, it takes the place of any other.
        """
        return (
            self.is_seen_by_all
            or other.is_seen_by_all
            or (self.is_fault and other.is_fault)
            or not self.writes.isdisjoint(other.reads)
            or not self.reads.isdisjoint(other.writes)
            or self._overwrites(other)
        )

    def _overwrites(self, other: "Footprint") -> bool:
        return any(name == "_id" for _, name, _ in self.writes & other.writes)
