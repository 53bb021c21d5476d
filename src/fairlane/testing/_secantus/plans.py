"""Choosing an index for a query with a limit: a pure decision, nothing is read here."""

import datetime
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import bson
from secantus.sortkey import COMPOUND_SEP, encode_id_key, encode_value_directed

Document = dict[str, Any]
Fields = Sequence[tuple[str, int]]

MAX_WALKS = 200  # as MongoDB bounds the explosion of $in
RANGE = ("$gt", "$gte", "$lt", "$lte")


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    name: str
    fields: tuple[tuple[str, int], ...]


ID_INDEX = Index(name="_id_", fields=(("_id", 1),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Walk `index` once for each of `prefixes`, between `low` and `high` (empty: no bound).

    A bound is the key of the field after the prefix, or the beginning of it. Where a sort is asked
    for, it orders by what follows the prefix; else the walks come one after the other.
    """

    index: Index
    prefixes: tuple[bytes, ...]
    low: bytes
    high: bytes
    is_sorted: bool
    is_backward: bool


def plan_walks(indexes: Sequence[Index], query: Document, sort: Document) -> Plan | None:
    """Choose the index with the longest prefix of pinned fields before the sort.

    None means that the server's own way is right or better: an index of which a pinned field is
    the first finds few documents, and sorting those is cheaper than a walk through everything.
    """
    pinned = _pinned(query)
    if "_id" in pinned or any(f.startswith("$") or d not in (1, -1) for f, d in sort.items()):
        return None
    constant = {field for field, values in pinned.items() if len(values) == 1}
    wanted = [(field, direction) for field, direction in sort.items() if field not in constant]
    choices = [
        (length, any(_bounds(query, index.fields[length:])), -number)
        for number, index in enumerate(indexes)
        for length in _prefix_lengths(index, pinned)
        if _has_order(index.fields[length:], wanted)
    ]
    length, is_bounded, number = max(choices, default=(0, False, 0))
    if length == 0 and (_leads(indexes, pinned) or not (is_bounded or (wanted and choices))):
        return None
    return _plan(indexes[-number], length, pinned, query, wanted)


def _prefix_lengths(index: Index, pinned: Mapping[str, Sequence[Any]]) -> range:
    names = [field for field, _ in index.fields]
    return range(len(list(itertools.takewhile(pinned.__contains__, names))) + 1)


def _leads(indexes: Sequence[Index], pinned: Mapping[str, Sequence[Any]]) -> bool:
    return any(index.fields[0][0] in pinned for index in indexes)


def _has_order(fields: Fields, wanted: Fields) -> bool:
    turns = {direction * own for (_, own), (_, direction) in zip(fields, wanted, strict=False)}
    names = [field for field, _ in fields[: len(wanted)]]
    return names == [field for field, _ in wanted] and len(turns) <= 1


def _plan(
    index: Index,
    length: int,
    pinned: Mapping[str, Sequence[Any]],
    query: Document,
    wanted: Fields,
) -> Plan | None:
    choices = [
        [encode_value_directed(value, direction) for value in pinned[field]]
        for field, direction in index.fields[:length]
    ]
    if math.prod(map(len, choices)) > MAX_WALKS:
        return None
    rest = index.fields[length:]
    end = COMPOUND_SEP if length and rest else b""
    low, high = _bounds(query, rest)
    return Plan(
        index=index,
        prefixes=tuple(COMPOUND_SEP.join(parts) + end for parts in itertools.product(*choices)),
        low=low,
        high=high,
        is_sorted=bool(wanted),
        is_backward=bool(wanted) and wanted[0][1] != rest[0][1],
    )


def pins(query: Document) -> set[str]:
    """Return the fields that must have one of some values, none of which is null."""
    return set(_pinned(query))


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
            pinned[field] = list({encode_value_directed(v, 1): v for v in values}.values())
    return pinned


def _is_point(value: object) -> bool:
    """Null also means missing; a container or a pattern is not one key."""
    kinds = str | int | float | bytes | datetime.datetime | bson.ObjectId
    return isinstance(value, kinds) and not isinstance(value, bson.Regex)


def _bounds(query: Document, rest: Fields) -> tuple[bytes, bytes]:
    """Return the lowest and the highest key of the first field's range; empty if it has none."""
    if not rest or not isinstance(clause := query.get(rest[0][0]), Mapping):
        return b"", b""
    field, direction = rest[0]
    low = high = b""
    for op, value in clause.items():
        if op not in RANGE or not _is_orderly(value, direction):
            continue
        key = encode_id_key(value) if field == "_id" else encode_value_directed(value, direction)
        if (op in ("$lt", "$lte")) == (direction == 1):
            high = min(high, key) if high else key
        else:
            low = max(low, key)
    # A comparison matches its own type only, and the first byte names the type.
    return low or high[:1], high or low[:1]


def _is_orderly(value: object, direction: int) -> bool:
    """Say whether every key on the right side of the value's key is that of a match.

    Descending keys are inverted byte by byte, which does not turn round a string and its prefix.
    """
    if isinstance(value, float):
        return not math.isnan(value)
    if isinstance(value, str):
        return direction == 1 and not isinstance(value, bson.Code)
    return isinstance(value, int | datetime.datetime | bson.ObjectId)
