"""Walking the server's tables: index entries in key order, then the documents they point to."""

import heapq
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import bson
from secantus import deadline, storage

from fairlane.testing._secantus.plans import ID_INDEX, Document, Plan

# Entries: as many may be read in vain, and the place of a walk is looked up so seldom.
LONGEST_CHUNK = 128


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

    def of_walks(self, plan: Plan, count: int) -> Iterator[Document]:
        """Yield matches in the order of the plan, as of one instant.

        `count` is how many are wanted: so much is read ahead, and no document is.
        """
        documents = self.store._cursor_optional(storage._doc_table_for(self.db, self.coll))
        if documents is None:  # nothing was ever stored
            return
        _pin_snapshot(self.store)
        walks = _walks(_table(self.store, self.db, self.coll, plan), plan)
        share = math.ceil(count / len(walks))
        for _key, recordid in _merged([walk.entries(share) for walk in walks], plan):
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


def _pin_snapshot(store: Any) -> None:
    """Let all walks see the same instant, which the session keeps while a cursor has a place.

    Else a document that another client moves could be found before and after, or not at all.
    """
    store._cursor(storage._COLL_TABLE).next()


class _Entry(NamedTuple):
    row: bytes
    key: bytes
    recordid: int | None


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of index entries: where this index lies in it and how its rows are read."""

    cursor: Any
    place: tuple[str, ...]
    escape: Callable[[bytes], bytes]
    read: Callable[[Any, bytes], tuple[bytes, int | None]]

    def find(self, row: bytes) -> bool:
        """Go to the entry in exactly this row."""
        self.cursor.set_key(*self.place, row)
        return bool(self.cursor.search() == 0)

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

    def entry(self) -> _Entry | None:
        """Return the entry here, its key escaped, or None outside of this index."""
        *place, row = self.cursor.get_key()
        if tuple(place) != self.place:
            return None
        row = bytes(row)
        return _Entry(row, *self.read(self.cursor, row))


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


@dataclass(frozen=True, slots=True)
class _Walk:
    """The entries from one bound of the plan to the other, behind one of its prefixes."""

    table: _Table
    prefix: bytes
    first: bytes
    last: bytes
    is_backward: bool

    def entries(self, share: int) -> Iterator[tuple[bytes, int]]:
        """Yield the keys without their prefix, and the record ids, in index order.

        `share` is how many will be asked for, as far as one can tell.
        """
        for chunk in self._chunks(share):
            for _row, key, recordid in chunk:
                if recordid is not None:
                    yield key[len(self.prefix) :], recordid

    def _chunks(self, share: int) -> Iterator[list[_Entry]]:
        """Read on from the last row each time: other walks have moved the cursor."""
        sizes = _chunk_sizes(share)
        is_inside = self._begin()
        while is_inside:
            size = next(sizes)
            chunk = list(itertools.islice(self._from_here(), size))
            yield chunk
            is_inside = len(chunk) == size and self._go_on(chunk[-1].row)

    def _from_here(self) -> Iterator[_Entry]:
        while (entry := self.table.entry()) is not None and not self._is_past(entry.key):
            yield entry
            if not self._step():
                return

    def _begin(self) -> bool:
        if self.is_backward:
            return self.table.seek_last(self.last)
        return self.table.seek(self.first)

    def _go_on(self, row: bytes) -> bool:
        """Go to the entry behind this row, which the pinned snapshot still has."""
        return self.table.find(row) and self._step()

    def _step(self) -> bool:
        step = self.table.cursor.prev if self.is_backward else self.table.cursor.next
        return bool(step() == 0)

    def _is_past(self, key: bytes) -> bool:
        if self.is_backward:
            return key < self.first
        return key > self.last and not key.startswith(self.last)


def _walks(table: _Table, plan: Plan) -> list[_Walk]:
    return [
        _Walk(
            table=table,
            prefix=table.escape(prefix),
            first=table.escape(prefix + plan.low),
            last=table.escape(prefix + plan.high),
            is_backward=plan.is_backward,
        )
        for prefix in plan.prefixes
    ]


def _chunk_sizes(share: int) -> Iterator[int]:
    """Yield the share, then 1, 2, 4 and so on: who needs more may need one more or thousands."""
    yield min(share, LONGEST_CHUNK)
    size = 1
    while True:
        yield size
        size = min(2 * size, LONGEST_CHUNK)


def _merged(
    walks: Sequence[Iterator[tuple[bytes, int]]], plan: Plan
) -> Iterator[tuple[bytes, int]]:
    """Put the walks' entries in the order of the sort: that of the keys behind the prefixes."""
    if not plan.is_sorted:
        return itertools.chain.from_iterable(walks)
    return heapq.merge(*walks, key=itemgetter(0), reverse=plan.is_backward)
