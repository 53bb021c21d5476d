"""The repairs, one function each; every docstring says what is wrong without it."""

import dataclasses
import datetime
import threading
from collections.abc import Callable, Mapping
from typing import Any

import bson
from secantus import aggregate, commands, expressions, storage, transactions

from fairlane.testing._secantus import ordered

Document = dict[str, Any]
Handler = Callable[[Document, Any], Document]


def apply_all() -> None:
    bind_now_as_stored_dates_are()
    look_up_id_beside_other_clauses()
    claim_one_after_another()
    keep_equal_documents_in_ranges()
    prune_retryable_records_in_order()
    ordered.read_in_index_order()


def bind_now_as_stored_dates_are() -> None:
    """Bind `$$NOW` without a time zone and in whole milliseconds.

    The server binds it with a time zone and reads documents without one. Every comparison of the
    two is wrong, silently: `{$lte: ["$due", "$$NOW"]}` matches what is due in an hour.
    """

    def now() -> datetime.datetime:
        instant = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        return instant.replace(microsecond=instant.microsecond // 1000 * 1000)

    def resolve_let(let: Any) -> Document:
        constants: Document = {"NOW": now()}
        if not isinstance(let, dict):
            return constants
        return constants | {
            name: expressions.evaluate(value, {}, vars=dict(constants))
            for name, value in let.items()
        }

    run = aggregate.apply_pipeline

    def apply_pipeline(docs: Any, pipeline: Any, ctx: Any = None, **options: Any) -> Any:
        context = ctx or aggregate.PipelineContext()
        context.vars.setdefault("NOW", now())
        return run(docs, pipeline, context, **options)

    commands._resolve_let_vars = resolve_let
    aggregate.apply_pipeline = commands.apply_pipeline = apply_pipeline


def look_up_id_beside_other_clauses() -> None:
    """Find `{_id: x, token: t}` through `_id`.

    The server does so only if `_id` is the whole filter and scans the collection otherwise, which
    makes every conditional write, and the write half of every findAndModify, linear.
    """
    route = storage.Storage._try_index_id_keys

    def try_index_id_keys(
        self: Any, db: str, coll: str, filter: Document, *, collation: Any = None
    ) -> Any:
        if len(filter) > 1 and "_id" in filter and not self._is_timeseries(db, coll):
            keys = storage._id_point_lookup_keys(filter["_id"])
            if keys is not None:
                found = (self._doc_recordid(db, coll, key) for key in keys)
                return [recordid for recordid in found if recordid is not None]
        return route(self, db, coll, filter, collation=collation)

    storage.Storage._try_index_id_keys = try_index_id_keys


def claim_one_after_another() -> None:
    """Let findAndModify and sorted updates of one collection queue, and make the latter atomic.

    Claimers all pick the same first document; the losers start again, and with 64 of them next to
    nothing gets done. A sorted update picks its document and then writes by `_id` alone, so that
    two of them claim the same one.

    The queue is our own lock: the collection's lock would be held while waiting for an open
    transaction, which may need it to go on.
    """
    queues = _Queues()
    find_and_modify = queues.behind(commands._find_and_modify, "findAndModify", _always)
    update = queues.behind(_reasserting(commands._update), "update", _is_sorted_update)
    for table in [value for value in vars(commands).values() if isinstance(value, dict)]:
        for name, handler in table.items():
            if handler is commands._find_and_modify:
                table[name] = find_and_modify
            elif handler is commands._update:
                table[name] = update
    commands._find_and_modify, commands._update = find_and_modify, update


class _Queues:
    """One lock for each collection."""

    def __init__(self) -> None:
        self._locks: dict[tuple[str, str], threading.Lock] = {}

    def behind(self, handler: Handler, field: str, applies: Callable[[Document], bool]) -> Handler:
        def queued(doc: Document, ctx: Any) -> Document:
            in_transaction = getattr(ctx.storage._tls, "user_txn", None) is not None
            if in_transaction or not isinstance(doc.get(field), str) or not applies(doc):
                return handler(doc, ctx)
            with self._locks.setdefault((ctx.db_name, doc[field]), threading.Lock()):
                return handler(doc, ctx)

        return queued


def _always(doc: Document) -> bool:
    return True


def _is_sorted_update(doc: Document) -> bool:
    statements = doc.get("updates") or ()
    return any(isinstance(statement, Mapping) and statement.get("sort") for statement in statements)


def _reasserting(update: Handler) -> Handler:
    def update_sorted(doc: Document, ctx: Any) -> Document:
        if _is_sorted_update(doc):
            let = commands._resolve_let_vars(doc.get("let"))
            ctx = dataclasses.replace(ctx, storage=_ReassertingStorage(ctx.storage, let))
        return update(doc, ctx)

    return update_sorted


class _ReassertingStorage:
    """Storage for a sorted update: the write repeats the filter that chose its document."""

    def __init__(self, inner: Any, let: Document) -> None:
        self._inner = inner
        self._let = let
        self._choice: tuple[tuple[Any, ...], Document] | None = None
        self._is_missed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def find_matching(self, *args: Any, **options: Any) -> Any:
        found = self._inner.find_matching(*args, **{"let": self._let, **options})
        if options.get("sort"):
            self._choice = (args, options) if found else None
            self._is_missed = not found
        return found

    def update_matching(
        self, db: str, coll: str, filter: Document, update: Any, **options: Any
    ) -> Any:
        while self._choice is not None:
            args, find_options = self._choice
            wanted = args[2]
            guarded = {**filter, "$and": [wanted]} if wanted else filter
            result = self._inner.update_matching(
                db, coll, guarded, update, **options | {"upsert": False}
            )
            if result["matched"]:
                self._choice = None
                return result
            found = self.find_matching(*args, **find_options)
            filter = {"_id": found[0]["_id"]} if found else wanted
        if self._is_missed and not options.get("upsert"):
            self._is_missed = False
            filter = {"_id": bson.ObjectId()}  # nobody's: the index has said that nothing matches
        return self._inner.update_matching(db, coll, filter, update, **options)


def keep_equal_documents_in_ranges() -> None:
    """Do not read `{partition: 0, priority: {$gte: 2}}` from an index that goes on after priority.

    The server compares the bound with longer keys and loses the documents with priority 2.
    """
    pick = storage.Storage._pick_compound_range_index

    def pick_index(
        self: Any, db: str, coll: str, filter: Document, *, collation: Any = None
    ) -> Any:
        picked = pick(self, db, coll, filter, collation=collation)
        if picked is None:
            return None
        clause = filter[list(picked[1])[len(filter) - 1]]
        is_inclusive = "$lte" in clause or "$gte" in clause
        return None if is_inclusive and len(picked[1]) > len(filter) else picked

    storage.Storage._pick_compound_range_index = pick_index


def prune_retryable_records_in_order() -> None:
    """Drop old records of retryable writes from the front.

    The server looks at all records, up to 10,000, twice in every write. They are kept in the order
    of their arrival, so the old ones stand in front.
    """

    def prune(self: Any) -> None:
        records = self._retryable
        oldest_kept = self._time() - transactions._RETRYABLE_RECORD_LIFETIME_SECONDS
        while records:
            key = next(iter(records))
            is_excess = len(records) > transactions._RETRYABLE_RECORD_MAX
            if not is_excess and records[key][1] >= oldest_kept:
                return
            del records[key]

    transactions.TransactionRegistry._prune_retryable_locked = prune
