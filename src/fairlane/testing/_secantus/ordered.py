"""Reading the first documents of a sorted query in index order, as MongoDB does.

The server collects every match, decodes it and sorts: a claim costs as much as the backlog is long,
index or not. Here `filter + sort + limit` walks an index whose fields are the filter's equalities
followed by the sort, and stops at the limit. An `$in` before the sort is exploded into one walk for
each of its values, and the results are merged. What fits no index takes the server's own way.

This is our model of MongoDB's planner: fast enough to test with, and no proof of MongoDB's cost.
"""

import datetime
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import bson
from secantus import storage

Document = dict[str, Any]

MAX_WALKS = 200  # as MongoDB bounds the explosion of $in
RANGE = ("$gt", "$gte", "$lt", "$lte")
FORWARD_OF_BACKWARD = {"$gt": "$lt", "$gte": "$lte", "$lt": "$gt", "$lte": "$gte"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    name: str
    fields: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Walk `index` once for each of `prefixes`, between `low` and `high`, which may be empty.

    All are key bytes before escaping; a bound is a stretch of bytes that the key of the first
    sorted field starts with or lies beyond.
    """

    index: Index
    prefixes: tuple[bytes, ...]
    low: bytes
    high: bytes
    is_backward: bool


def read_in_index_order() -> None:
    """Answer `find_matching` with a limit through an index that has the order, if there is one."""
    find_matching = storage.Storage.find_matching

    def find(self: Any, db: str, coll: str, filter: Any = None, **options: Any) -> Any:
        rows = (
            _first(self, db, coll, filter or {}, options) if _is_plain(db, coll, options) else None
        )
        if rows is None:
            return find_matching(self, db, coll, filter, **options)
        if options.get("projection"):
            return storage.apply_projection_batch(
                rows, options["projection"], filter, metas=None, has_sort=True
            )
        return rows

    storage.Storage.find_matching = find


def _is_plain(db: str, coll: str, options: Document) -> bool:
    wants_first = options.get("limit", 0) > 0 and bool(options.get("sort"))
    is_special = any(
        options.get(name) is not None for name in ("collation", "min_bound", "max_bound")
    )
    return wants_first and not is_special and db != "local" and not coll.startswith("system.")


def _first(store: Any, db: str, coll: str, query: Document, options: Document) -> Any:
    """Return the documents, or None where no index has the order."""
    count = options["limit"] + options.get("skip", 0)
    sort = dict(options["sort"])
    with store._lock:
        store._refresh_read_snapshot()
        plan = plan_walks(_indexes(store, db, coll, query, options.get("hint")), query, sort)
        if plan is None:
            return None
        found: list[Document] = []
        for prefix in plan.prefixes:
            matching = _matching(store, db, coll, plan, prefix, query, options.get("let"))
            found += itertools.islice(matching, count)
    if _has_inexact_order(plan, sort, found):
        return None
    if len(plan.prefixes) > 1:
        found = storage.sort_docs(found, sort, collation=None)
    return found[options.get("skip", 0) : count]


def _indexes(store: Any, db: str, coll: str, query: Document, hint: Any) -> Iterator[Index]:
    """Yield the indexes that hold every document the query may match, one entry for each."""
    hinted = None if hint is None else store._resolve_hint(db, coll, hint)
    for name, spec, options in list(store._iter_indexes(db, coll)):
        partial = options.get("partialFilterExpression")
        unusable = (
            hinted not in (None, name)
            or options.get("multikey")
            or options.get("collation")
            or any(direction not in (1, -1) for direction in spec.values())
            or (options.get("sparse") and not storage._sparse_index_usable(spec, query))
            or (partial and not store._query_implies_partial(query, partial))
        )
        if not unusable:
            yield Index(name=name, fields=tuple((f, int(d)) for f, d in spec.items()))


def plan_walks(indexes: Iterator[Index], query: Document, sort: Document) -> Plan | None:
    """Choose the index with the longest prefix of pinned fields before the sort."""
    if any(f.startswith("$") or d not in (1, -1) for f, d in sort.items()):
        return None
    pinned = _pinned(query)
    constant = {field for field, values in pinned.items() if len(values) == 1}
    wanted = [(field, direction) for field, direction in sort.items() if field not in constant]
    best: tuple[int, Index] | None = None
    for index in indexes:
        for length in range(len(index.fields) + 1):
            if length and index.fields[length - 1][0] not in pinned:
                break
            if _has_order(index.fields[length:], wanted) and (best is None or length > best[0]):
                best = length, index
    return None if best is None else _plan(best[1], best[0], pinned, query, wanted)


def _has_order(fields: Sequence[tuple[str, int]], wanted: Sequence[tuple[str, int]]) -> bool:
    turns = {direction * own for (_, own), (_, direction) in zip(fields, wanted, strict=False)}
    names = [field for field, _ in fields[: len(wanted)]]
    return names == [field for field, _ in wanted] and len(turns) <= 1


def _plan(
    index: Index,
    length: int,
    pinned: Mapping[str, Sequence[Any]],
    query: Document,
    wanted: Sequence[tuple[str, int]],
) -> Plan | None:
    choices = [
        [storage.encode_value_directed(value, direction) for value in pinned[field]]
        for field, direction in index.fields[:length]
    ]
    if math.prod(map(len, choices)) > MAX_WALKS:
        return None
    rest = index.fields[length:]
    end = storage.COMPOUND_SEP if length and rest else b""
    low, high = _bounds(query.get(rest[0][0]), rest[0][1]) if rest else (b"", b"")
    return Plan(
        index=index,
        prefixes=tuple(
            storage.COMPOUND_SEP.join(parts) + end for parts in itertools.product(*choices)
        ),
        low=low,
        high=high,
        is_backward=bool(wanted) and wanted[0][1] != rest[0][1],
    )


def _pinned(query: Document) -> dict[str, list[Any]]:
    """Return the values that each field is compared with for equality."""
    pinned: dict[str, list[Any]] = {}
    for field, clause in query.items():
        values = [clause]
        if isinstance(clause, Mapping) and list(clause) == ["$eq"]:
            values = [clause["$eq"]]
        elif isinstance(clause, Mapping) and list(clause) == ["$in"]:
            values = list(clause["$in"])
        if not field.startswith("$") and values and all(map(_is_point, values)):
            pinned[field] = list({storage.encode_value_directed(v, 1): v for v in values}.values())
    return pinned


def _is_point(value: object) -> bool:
    """Null also means missing, and a container or a pattern is not one key."""
    return isinstance(value, str | int | float | bytes | datetime.datetime | bson.ObjectId)


def _bounds(clause: Any, direction: int) -> tuple[bytes, bytes]:
    """Return the lowest and the highest key of the range, each cut to its type where open."""
    if not isinstance(clause, Mapping):
        return b"", b""
    bounds = {op: value for op, value in clause.items() if op in RANGE and _is_orderly(value)}
    low = high = b""
    for op, value in bounds.items():
        key = storage.encode_value_directed(value, direction)
        is_upper = op in ("$lt", "$lte")
        if is_upper == (direction == 1):
            high = min(high, key) if high else key
        else:
            low = max(low, key)
    # A comparison matches its own type only: the first byte names the type.
    return low or high[:1], high or low[:1]


def _is_orderly(value: object) -> bool:
    if isinstance(value, float):
        return not math.isnan(value)
    return isinstance(value, str | int | datetime.datetime | bson.ObjectId) and not isinstance(
        value, bson.Code
    )


def _matching(
    store: Any, db: str, coll: str, plan: Plan, prefix: bytes, query: Document, let: Any
) -> Iterator[Document]:
    documents = store._cursor_optional(storage._doc_table_for(db, coll))
    if documents is None:  # nothing was ever stored
        return
    for recordid in _walk(store, db, coll, plan, prefix):
        documents.reset()
        documents.set_key(db, coll, recordid)
        if documents.search() != 0:
            continue
        document = bson.decode(storage._unframe_doc_value(bytes(documents.get_value()))[1])
        if storage.matches(document, query, vars=let, collation=None):
            yield document


def _walk(store: Any, db: str, coll: str, plan: Plan, prefix: bytes) -> Iterator[int]:
    """Yield record ids in index order, from one bound of the walk to the other."""
    escape = storage._escape_kb
    first, last = escape(prefix + plan.low), escape(prefix + plan.high)
    cursor = store._cursor(storage._IDX_ENTRIES_TABLE)
    name = plan.index.name
    step = cursor.prev if plan.is_backward else cursor.next
    if plan.is_backward:
        found = _seek_before(cursor, db, coll, name, last)
    else:
        found = _seek(cursor, db, coll, name, first)
    if not found:
        return
    while True:
        *place, packed = cursor.get_key()
        key, recordid = storage._unpack_entry(bytes(packed))
        if place != [db, coll, name] or _is_past(key, first, last, plan.is_backward):
            return
        if recordid is not None:
            yield recordid
        if step() != 0:
            return


def _seek(cursor: Any, db: str, coll: str, name: str, key: bytes) -> bool:
    """Go to the first entry at or after `key`."""
    cursor.set_key(db, coll, name, key)
    side = cursor.search_near()
    return bool(side != storage.wt.WT_NOTFOUND and (side >= 0 or cursor.next() == 0))


def _seek_before(cursor: Any, db: str, coll: str, name: str, stem: bytes) -> bool:
    """Go to the last entry that starts with `stem` or comes before it."""
    beyond = stem.rstrip(b"\xff")
    if beyond:
        cursor.set_key(db, coll, name, beyond[:-1] + bytes([beyond[-1] + 1]))
    else:
        cursor.set_key(db, coll, name + "\x01", b"")
    side = cursor.search_near()
    return bool(side != storage.wt.WT_NOTFOUND and (side < 0 or cursor.prev() == 0))


def _is_past(key: bytes, first: bytes, last: bytes, is_backward: bool) -> bool:
    if is_backward:
        return key < first
    return key > last and not key.startswith(last)


def _has_inexact_order(plan: Plan, sort: Document, found: Sequence[Document]) -> bool:
    """Say whether a descending index may have misplaced these.

    Its keys are inverted byte by byte, and that does not turn round a string and its own prefix.
    """
    inverted = {field for field, direction in plan.index.fields if direction == -1} & set(sort)
    return any(isinstance(row.get(field), str | bytes) for row in found for field in inverted)
