"""Walking the server's tables: index entries in key order, then the documents they point to."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import bson
from secantus import deadline, storage

from fairlane.testing._secantus.plans import ID_INDEX, Document, Plan


@dataclass(frozen=True, slots=True)
class Matching:
    """The documents of a collection that match a query."""

    store: Any
    db: str
    coll: str
    query: Document
    let: Any

    def of_collection(self) -> Iterator[Document]:
        """Yield matches in the order of their insertion."""
        for _recordid, _key, blob in self.store._scan_docs(self.db, self.coll):
            yield from self._if_match(blob)

    def of_walk(self, plan: Plan, prefix: bytes) -> Iterator[Document]:
        """Yield matches in index order."""
        documents = self.store._cursor_optional(storage._doc_table_for(self.db, self.coll))
        if documents is None:  # nothing was ever stored
            return
        for recordid in _walk(_table(self.store, self.db, self.coll, plan), plan, prefix):
            documents.reset()
            documents.set_key(self.db, self.coll, recordid)
            if documents.search() == 0:
                yield from self._if_match(
                    storage._unframe_doc_value(bytes(documents.get_value()))[1]
                )

    def _if_match(self, blob: bytes) -> Iterator[Document]:
        deadline.check()  # of maxTimeMS
        document = bson.decode(blob)
        if storage.matches(document, self.query, vars=self.let, collation=None):
            yield document


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of index entries: where this index lies in it and how its rows are read."""

    cursor: Any
    place: tuple[str, ...]
    escape: Callable[[bytes], bytes]
    read: Callable[[Any, bytes], tuple[bytes, int | None]]

    def seek(self, key: bytes) -> bool:
        """Go to the first entry at or after `key`."""
        self.cursor.set_key(*self.place, key)
        side = self.cursor.search_near()
        return bool(side != storage.wt.WT_NOTFOUND and (side >= 0 or self.cursor.next() == 0))

    def seek_last(self, stem: bytes) -> bool:
        """Go to the last entry that starts with `stem` or comes before it."""
        beyond = stem.rstrip(b"\xff")
        if beyond:
            self.cursor.set_key(*self.place, beyond[:-1] + bytes([beyond[-1] + 1]))
        else:
            self.cursor.set_key(*self.place[:-1], self.place[-1] + "\x01", b"")
        side = self.cursor.search_near()
        return bool(side != storage.wt.WT_NOTFOUND and (side < 0 or self.cursor.prev() == 0))

    def entry(self) -> tuple[bytes, int | None] | None:
        """Return the escaped key and the record id here, or None outside of this index."""
        *place, key = self.cursor.get_key()
        if tuple(place) != self.place:
            return None
        return self.read(self.cursor, bytes(key))


def _table(store: Any, db: str, coll: str, plan: Plan) -> _Table:
    if plan.index == ID_INDEX:
        return _Table(store._cursor(storage._NAT_SEQ_TABLE), (db, coll), bytes, _read_id)
    cursor = store._cursor(storage._IDX_ENTRIES_TABLE)
    return _Table(cursor, (db, coll, plan.index.name), storage._escape_kb, _read_packed)


def _read_id(cursor: Any, key: bytes) -> tuple[bytes, int | None]:
    return key, int(cursor.get_value())


def _read_packed(cursor: Any, packed: bytes) -> tuple[bytes, int | None]:
    key, recordid = storage._unpack_entry(packed)
    return key, recordid


def _walk(table: _Table, plan: Plan, prefix: bytes) -> Iterator[int]:
    """Yield record ids in index order, from one bound of the plan to the other."""
    first, last = table.escape(prefix + plan.low), table.escape(prefix + plan.high)
    step = table.cursor.prev if plan.is_backward else table.cursor.next
    if not (table.seek_last(last) if plan.is_backward else table.seek(first)):
        return
    while (entry := table.entry()) is not None:
        key, recordid = entry
        if key < first if plan.is_backward else key > last and not key.startswith(last):
            return
        if recordid is not None:
            yield recordid
        if step() != 0:
            return
