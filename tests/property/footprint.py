"""What a step of a schedule touches: two steps that do not meet may change places."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from property.operators import is_match

__all__ = ("Footprint",)

Place = tuple[str, str, Any]
"""Something that is no document: it is there, whether anybody has been there or not."""

Versions = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
"""A document before and after a write; None where there is none."""


@dataclass(slots=True)
class Footprint:
    """The documents and the notes that were read and written.

    A read is known by its filter. A write matters to it if the filter matches the document before
    it or after it; else the read finds the same, whichever of the two comes first.
    """

    reads: set[Place] = field(default_factory=set)
    writes: set[Place] = field(default_factory=set)
    searches: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    changes: dict[tuple[str, Any], list[Versions]] = field(default_factory=dict)
    is_fault: bool = False
    is_seen_by_all: bool = False

    @property
    def is_write(self) -> bool:
        """Whether a document was written."""
        return bool(self.changes)

    def search(self, collection: str, match: Mapping[str, Any]) -> None:
        self.searches.append((collection, match))

    def change(self, collection: str, key: object, versions: Versions) -> None:
        self.changes.setdefault((collection, key), []).append(versions)

    def add_notes(self, notes: "Footprint") -> None:
        self.reads |= notes.reads
        self.writes |= notes.writes

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
            or not self.changes.keys().isdisjoint(other.changes)
            or self._finds(other)
            or other._finds(self)
        )

    def _finds(self, other: "Footprint") -> bool:
        return any(
            _is_found(version, match)
            for (name, _), changes in other.changes.items()
            for collection, match in self.searches
            if collection == name
            for versions in changes
            for version in versions
        )


def _is_found(version: Mapping[str, Any] | None, match: Mapping[str, Any]) -> bool:
    return version is not None and is_match(dict(version), dict(match))
