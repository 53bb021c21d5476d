"""Reading the first documents of a query in index order, as MongoDB does.

The server collects every match, decodes it and sorts: a claim costs as much as the backlog is long,
index or not. Here a query with a limit walks an index whose fields are the query's equalities
followed by its sort, and stops at the limit. An `$in` before the sort is exploded into one walk for
each of its values; the walks are merged by their keys, and only what the merge yields is read and
decoded. What fits no index takes the server's own way.

This is our model of MongoDB's planner: fast enough to test with, and no proof of MongoDB's cost.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import bson
from secantus import storage
from secantus.paths import get_path

from fairlane.testing._secantus import walks
from fairlane.testing._secantus.plans import ID_INDEX, Document, Index, Plan, pins, plan_walks


def read_in_index_order() -> None:
    """Answer `find_matching` with a limit by walking an index, if there is one with that order."""
    find_matching = storage.Storage.find_matching

    def find(self: Any, db: str, coll: str, filter: Any = None, **options: Any) -> Any:
        rows = None
        if options.get("limit", 0) > 0 and _is_plain(db, coll, options):
            rows = _first(self, db, coll, filter or {}, options)
        if rows is None:
            return find_matching(self, db, coll, filter, **options)
        return _projected(self, db, coll, filter or {}, rows, options)

    storage.Storage.find_matching = find


def _projected(
    store: Any, db: str, coll: str, query: Document, rows: list[Document], options: Document
) -> list[Document]:
    projection, sort = options.get("projection"), options.get("sort")
    if not projection:
        return rows
    metas = store._projection_metas(
        db, coll, rows, projection, query, sort, options.get("hint"), None
    )
    projected: list[Document] = storage.apply_projection_batch(
        rows, projection, query, metas=metas, has_sort=bool(sort)
    )
    return projected


def _is_plain(db: str, coll: str, options: Document) -> bool:
    special = ("collation", "min_bound", "max_bound")
    is_special = any(options.get(name) is not None for name in special)
    return not is_special and db != "local" and not coll.startswith("system.")


def _first(store: Any, db: str, coll: str, query: Document, options: Document) -> Any:
    """Return the first documents of the query, or None where no walk has them in order."""
    skip = options.get("skip", 0)
    count = skip + options["limit"]
    sort = dict(options.get("sort") or {})
    with store._lock:
        store._refresh_read_snapshot()
        matches = walks.Matching(store, db, coll, query, options.get("let"))
        if not (query or sort or options.get("hint")):
            return list(itertools.islice(matches.of_collection(), count))[skip:]
        indexes = list(_indexes(store, db, coll, query, options.get("hint")))
        plan = plan_walks(indexes, query, sort)
        if plan is None:
            return None
        found = list(itertools.islice(matches.of_walks(plan, count), count))
    if _has_inexact_order(plan, sort, found):
        return None
    return found[skip:]


def _indexes(store: Any, db: str, coll: str, query: Document, hint: Any) -> Iterator[Index]:
    """Yield the indexes that hold every document the query may match, one entry for each."""
    hinted = None if hint is None else store._resolve_hint(db, coll, hint)
    if hinted in (None, ID_INDEX.name) and not store._is_timeseries(db, coll):
        yield ID_INDEX
    for name, spec, options in list(store._iter_indexes(db, coll)):
        partial = options.get("partialFilterExpression")
        unusable = (
            hinted not in (None, name)
            or options.get("multikey")
            or options.get("collation")
            or any(direction not in (1, -1) for direction in spec.values())
            or (options.get("sparse") and not storage._sparse_index_usable(spec, query))
            or (partial and not _implies(store, query, partial))
        )
        if not unusable:
            yield Index(name=name, fields=tuple((f, int(d)) for f, d in spec.items()))


def _implies(store: Any, query: Document, partial: Document) -> bool:
    """Say whether every match is in the partial index, as MongoDB's planner sees it.

    An `$in` implies what each of its values implies, and any value but null that the field exists.
    """
    ranged = {field: clause for field, clause in partial.items() if clause != {"$exists": True}}
    if not partial.keys() - ranged.keys() <= pins(query):
        return False
    choices = {
        field: query[field]["$in"]
        for field in ranged
        if isinstance(query.get(field), Mapping) and list(query[field]) == ["$in"]
    }
    return all(
        store._query_implies_partial({**query, **dict(zip(choices, values, strict=True))}, ranged)
        for values in itertools.product(*choices.values())
    )


def _has_inexact_order(plan: Plan, sort: Document, found: Sequence[Document]) -> bool:
    """Say whether the walk may have misplaced some of these.

    Descending keys are inverted byte by byte, which does not turn round a string and its own
    prefix, nor a pattern with options and without. Keys of `_id` order documents by their size.
    """
    inverted = {field for field, direction in plan.index.fields if direction == -1} & set(sort)
    kinds = (str, bytes, bson.Regex)
    if any(isinstance(get_path(row, field), kinds) for row in found for field in inverted):
        return True
    by_id = plan.index == ID_INDEX and bool(sort)
    return by_id and any(isinstance(row["_id"], dict | list) for row in found)
