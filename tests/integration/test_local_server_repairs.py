"""What the launcher repairs in SecantusDB, seen from outside.

The server's code is never imported here: all is said over the wire, and the unrepaired server is
the judge of what a query returns.
"""

import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from bson import Regex
from pymongo import ASCENDING, DESCENDING, MongoClient, ReturnDocument
from pymongo.collection import Collection
from pymongo.database import Database

from fairlane.testing import LocalServer
from fairlane.testing._programs import secantus

Document = dict[str, Any]
Client = MongoClient[Document]
Things = Collection[Document]

EVERY_PRIORITY = {"$in": [0, 1, 2, 3, 4]}
CLAIM_INDEX = [("partition", ASCENDING), ("priority", DESCENDING), ("available_at", ASCENDING)]
CLAIMERS = 16


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    server = LocalServer(secantus(plain=False, sync_on_commit=False))
    with server, MongoClient[Document](server.url) as client:
        yield client


@pytest.fixture(scope="module")
def plain_client() -> Iterator[Client]:
    server = LocalServer(secantus(plain=True, sync_on_commit=False))
    with server, MongoClient[Document](server.url) as client:
        yield client


@pytest.fixture
def things(client: Client) -> Things:
    return client[f"db_{uuid4().hex[:8]}"].things


@pytest.fixture
def locks(things: Things) -> Things:
    """200 locks over all priorities, none claimed, indexed as Fairlane does it."""
    things.create_index(CLAIM_INDEX)
    things.insert_many(lock(number, 200) for number in range(200))
    return things


def lock(number: int, of: int) -> Document:
    return {
        "_id": f"group-{number}",
        "partition": 0,
        "priority": number % 5,
        "available_at": float(number * 7919 % of),
        "token": None,
    }


def claim(locks: Things, token: str, *, due: float = 1e6) -> Document | None:
    return locks.find_one_and_update(
        {"partition": 0, "priority": EVERY_PRIORITY, "available_at": {"$lte": due}},
        {"$set": {"token": token, "available_at": 2e6}},
        sort=[("available_at", ASCENDING)],
        return_document=ReturnDocument.BEFORE,
    )


# The time


NOW_FILTERS: dict[str, Document] = {
    "stored date first": {"$expr": {"$lte": ["$due", "$$NOW"]}},
    "now first": {"$expr": {"$gte": ["$$NOW", "$due"]}},
    "after arithmetic": {"$expr": {"$lte": ["$due", {"$add": ["$$NOW", 1_000]}]}},
    "as a difference": {"$expr": {"$lte": [{"$subtract": ["$due", "$$NOW"]}, 0]}},
}


@pytest.fixture
def due_and_not_due(things: Things) -> Things:
    now = datetime.now(UTC)
    things.insert_one({"_id": "due", "due": now - timedelta(hours=1)})
    things.insert_one({"_id": "not due", "due": now + timedelta(hours=1)})
    return things


@pytest.mark.parametrize("query", NOW_FILTERS.values(), ids=NOW_FILTERS)
def test_now_is_compared_with_stored_dates(due_and_not_due: Things, query: Document) -> None:
    found = [
        [thing["_id"] for thing in due_and_not_due.find(query)],
        [thing["_id"] for thing in due_and_not_due.aggregate([{"$match": query}])],
    ]

    assert found == [["due"], ["due"]]


def test_now_is_compared_in_a_claim(due_and_not_due: Things) -> None:
    query = {"$expr": {"$lte": ["$due", "$$NOW"]}}
    claims = [
        due_and_not_due.find_one_and_update(
            {**query, "token": None}, {"$set": {"token": "t"}}, sort=[("due", DESCENDING)]
        )
        for _ in range(2)
    ]

    assert [found and found["_id"] for found in claims] == ["due", None]


def test_now_is_compared_in_an_update_pipeline(due_and_not_due: Things) -> None:
    due_and_not_due.update_many({}, [{"$set": {"is_due": {"$lte": ["$due", "$$NOW"]}}}])

    assert {t["_id"]: t["is_due"] for t in due_and_not_due.find()} == {
        "due": True,
        "not due": False,
    }


def test_now_is_stored_as_the_present(things: Things) -> None:
    things.update_one({"_id": 1}, [{"$set": {"at": "$$NOW"}}], upsert=True)

    stored = things.find_one({})

    assert stored is not None
    assert abs(stored["at"] - datetime.now(UTC).replace(tzinfo=None)) < timedelta(seconds=5)


# Claims


def test_claims_come_in_order_over_all_priorities(locks: Things) -> None:
    times = [found["available_at"] for _ in range(200) if (found := claim(locks, uuid4().hex))]

    assert times == sorted(float(number) for number in range(200))


def test_a_claim_takes_nothing_that_is_not_due(locks: Things) -> None:
    assert claim(locks, "t", due=-1.0) is None


def claimed_by_many(take: Callable[[str], bool]) -> None:
    """Claim from 16 threads until there is nothing left."""

    def claimer(_number: int) -> None:
        while take(uuid4().hex):
            pass

    with ThreadPoolExecutor(CLAIMERS) as pool:
        list(pool.map(claimer, range(CLAIMERS)))


def test_sixteen_claimers_claim_every_lock_once(locks: Things) -> None:
    claimed: list[str] = []

    def take(token: str) -> bool:
        if (found := claim(locks, token)) is None:
            return False
        claimed.append(found["_id"])
        return True

    claimed_by_many(take)

    assert sorted(claimed) == sorted(f"group-{number}" for number in range(200))


def test_sixteen_sorted_updates_claim_every_lock_once(locks: Things) -> None:
    tokens: list[str] = []

    def take(token: str) -> bool:
        result = locks.update_one(
            {"partition": 0, "available_at": {"$lte": 1e6}},
            {"$set": {"token": token, "available_at": 2e6}},
            sort={"available_at": ASCENDING},
        )
        tokens.extend([token] * result.matched_count)
        return bool(result.matched_count)

    claimed_by_many(take)

    assert len(tokens) == 200
    assert {found["token"] for found in locks.find()} == set(tokens)


def test_a_sorted_update_that_matches_nothing_upserts(things: Things) -> None:
    result = things.update_one(
        {"kind": "a"}, {"$set": {"n": 1}}, sort={"n": ASCENDING}, upsert=True
    )

    assert result.upserted_id is not None
    assert things.count_documents({"kind": "a", "n": 1}) == 1


def test_a_claim_waits_for_a_transaction_without_stopping_it(client: Client, locks: Things) -> None:
    first = locks.find_one({"available_at": 0.0})
    assert first is not None
    with client.start_session() as session:
        session.start_transaction()
        locks.update_one({"_id": first["_id"]}, {"$set": {"available_at": 3e6}}, session=session)
        found: list[Document | None] = []
        claimer = threading.Thread(target=lambda: found.append(claim(locks, "other")))
        claimer.start()

        locks.update_one({"_id": "group-7"}, {"$set": {"n": 1}}, session=session)
        session.commit_transaction()
        claimer.join(20)

    assert found
    assert found[0] is not None
    assert found[0]["available_at"] == 1.0


def test_a_repeated_retryable_write_is_applied_once(client: Client, things: Things) -> None:
    things.insert_one({"_id": 1, "n": 0})
    with client.start_session() as session:
        command = {
            "update": things.name,
            "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}],
            "lsid": session.session_id,
            "txnNumber": 1,
        }
        replies = [things.database.command(command) for _ in range(2)]

    assert [reply["n"] for reply in replies] == [1, 1]
    assert (things.find_one({}) or {})["n"] == 1


@pytest.mark.parametrize("direction", [ASCENDING, DESCENDING])
@pytest.mark.parametrize(("operator", "expected"), [("$lte", [0, 1, 2]), ("$gte", [2, 3, 4])])
def test_a_range_inside_an_index_includes_its_bound(
    things: Things, direction: int, operator: str, expected: list[int]
) -> None:
    things.create_index([("a", ASCENDING), ("b", direction), ("c", ASCENDING)])
    things.insert_many({"a": 1, "b": number, "c": 0} for number in range(5))

    found = things.find({"a": 1, "b": {operator: 2}})

    assert sorted(thing["b"] for thing in found) == expected


# Queries with a limit: the plain server, which scans and sorts, is the judge


def random_value(dice: random.Random) -> Any:
    return dice.choice(
        [
            *(
                dice.randint(-5, 5),
                dice.randint(-500, 500) / 100,
                dice.choice(["", "a", "ab", "b"]),
            ),
            *(None, True, datetime(2026, 1, dice.randint(1, 5), tzinfo=UTC)),
        ]
    )


def random_thing(dice: random.Random, number: int) -> Document:
    fields = {
        "a": dice.randint(0, 3),
        "b": random_value(dice),
        "c": dice.randint(-3, 3) / 2,
        "d": random_value(dice),
    }
    kept = {name: value for name, value in fields.items() if dice.random() < 0.9}
    return {"_id": number if dice.random() < 0.8 else f"id-{number}", **kept}


def random_clause(dice: random.Random) -> Any:
    kind = dice.choice(["value", "$in", "$gt", "$gte", "$lt", "$lte", "between", "$ne", "$exists"])
    match kind:
        case "value":
            return random_value(dice)
        case "$in":
            return {"$in": [random_value(dice) for _ in range(dice.randint(1, 4))]}
        case "between":
            return {"$gte": random_value(dice), "$lt": random_value(dice)}
        case "$exists":
            return {"$exists": dice.random() < 0.5}
    return {kind: random_value(dice)}


def random_query(dice: random.Random) -> Document:
    fields = dice.sample(["a", "b", "c", "d", "_id"], dice.randint(0, 3))
    query = {field: random_clause(dice) for field in fields}
    if dice.random() < 0.5:
        query["a"] = dice.choice([dice.randint(0, 3), {"$in": [0, 1, 2]}])
    return query


def random_sort(dice: random.Random) -> list[tuple[str, int]]:
    fields = dice.sample(["a", "b", "c", "d", "_id"], dice.randint(0, 2))
    return [(field, dice.choice([ASCENDING, DESCENDING])) for field in fields]


INDEXES: list[list[tuple[str, int]]] = [
    [("a", ASCENDING), ("b", DESCENDING), ("c", ASCENDING)],
    [("a", ASCENDING), ("_id", ASCENDING)],
    [("c", DESCENDING)],
    [("d", ASCENDING), ("b", ASCENDING)],
]


@pytest.fixture(scope="module")
def twins(client: Client, plain_client: Client) -> tuple[Things, Things]:
    """The same documents, with indexes on the repaired and without on the plain server."""
    dice = random.Random(1)
    documents = [random_thing(dice, number) for number in range(150)]
    repaired, plain = client.app.twins, plain_client.app.twins
    for keys in INDEXES:
        repaired.create_index(keys)
    repaired.create_index([("b", ASCENDING)], partialFilterExpression={"b": {"$gte": ""}})
    for twin in (repaired, plain):
        twin.insert_many(documents)
    return repaired, plain


@pytest.mark.parametrize("seed", range(5))
def test_queries_with_a_limit_find_what_the_plain_server_finds(
    twins: tuple[Things, Things], seed: int
) -> None:
    dice = random.Random(seed)
    for _ in range(60):
        query, sort = random_query(dice), random_sort(dice)
        skip, limit = dice.choice([0, 0, 3]), dice.randint(1, 12)
        repaired, plain = (
            list(twin.find(query, sort=sort or None, skip=skip, limit=limit)) for twin in twins
        )
        everything = list(twins[1].find(query))

        assert in_order(repaired, sort) == in_order(plain, sort), (query, sort, skip, limit)
        assert all(found in everything for found in repaired), (query, sort)
        assert len({str(found["_id"]) for found in repaired}) == len(repaired)


def in_order(found: list[Document], sort: list[tuple[str, int]]) -> list[Any]:
    """What the sort decides of a result: documents that tie may come in any order."""
    return [[repr(document.get(field)) for field, _ in sort] for document in found]


@pytest.mark.parametrize("kind", [0, {"$in": [0, 1]}], ids=["one walk", "a merge"])
def test_prefixes_come_last_in_a_descending_index(things: Things, kind: Any) -> None:
    things.create_index([("kind", ASCENDING), ("name.last", DESCENDING)])
    names = ["a", "", "ab", Regex("a"), Regex("a", "i")]
    things.insert_many({"kind": 0, "name": {"last": name}} for name in names)

    found = things.find({"kind": kind}, sort=[("name.last", DESCENDING)], limit=5)

    assert [thing["name"]["last"] for thing in found] == [
        *(Regex("a", "i"), Regex("a")),
        *("ab", "a", ""),
    ]


@pytest.mark.parametrize("direction", [ASCENDING, DESCENDING])
def test_a_merge_goes_on_where_the_others_have_ended(things: Things, direction: int) -> None:
    things.create_index(CLAIM_INDEX)
    rare = {0: 1, 1: 2, 2: 3}  # by number, all else has priority 0
    things.insert_many(lock(n, 600) | {"priority": rare.get(n % 50, 0)} for n in range(600))

    found = things.find(
        {"partition": 0, "priority": EVERY_PRIORITY},
        sort=[("available_at", direction)],
        limit=500,
    )

    assert [found_lock["available_at"] for found_lock in found] == [
        float(rank) for rank in range(600)
    ][::direction][:500]


# The cost


def test_a_merge_looks_at_no_document_behind_the_limit(things: Things) -> None:
    """155 walks; whoever looks at a document behind the first 64 divides by zero."""
    things.create_index(CLAIM_INDEX)
    locks = [lock(number, 1_000) | {"partition": number % 31} for number in range(1_000)]
    things.insert_many(one | {"divisor": int(one["available_at"] < 64)} for one in locks)

    found = things.find(
        {
            "partition": {"$in": list(range(31))},
            "priority": EVERY_PRIORITY,
            "$expr": {"$divide": [1, "$divisor"]},
        },
        sort=[("available_at", ASCENDING)],
        limit=64,
    )

    assert [found_lock["available_at"] for found_lock in found] == [float(n) for n in range(64)]


def test_a_sorted_update_that_finds_nothing_looks_at_no_document(things: Things) -> None:
    """Whoever looks at one divides by zero."""
    things.create_index(CLAIM_INDEX)
    things.insert_many(lock(number, 50) | {"divisor": 0} for number in range(50))

    result = things.update_one(
        {
            "partition": 0,
            "priority": EVERY_PRIORITY,
            "available_at": {"$lte": -1.0},
            "$expr": {"$divide": [1, "$divisor"]},
        },
        {"$set": {"token": "t"}},
        sort={"available_at": 1},
    )

    assert result.matched_count == 0


@pytest.mark.parametrize("partial", [{"partition": {"$exists": True}}, {"partition": {"$gte": 0}}])
@pytest.mark.parametrize("partition", [0, {"$in": [0, 1]}])
def test_a_partial_index_is_walked_where_every_match_is_in_it(
    things: Things, partial: Document, partition: object
) -> None:
    """Whoever looks at a document behind the first one divides by zero."""
    things.create_index(CLAIM_INDEX, partialFilterExpression=partial)
    locks = [lock(number, 20) for number in range(20)]
    things.insert_many(one | {"divisor": int(one["available_at"] < 1)} for one in locks)

    found = things.find(
        {"partition": partition, "priority": EVERY_PRIORITY, "$expr": {"$divide": [1, "$divisor"]}},
        sort=[("available_at", ASCENDING)],
        limit=1,
    )

    assert [each["available_at"] for each in found] == [0.0]


@pytest.mark.parametrize("partition", [None, {"$in": [None, 0]}, {"$lte": 5}])
def test_a_partial_index_is_not_walked_where_a_match_may_be_elsewhere(
    things: Things, partition: object
) -> None:
    things.create_index(CLAIM_INDEX, partialFilterExpression={"partition": {"$gte": 0}})
    things.insert_many([{"_id": 1, "available_at": 1.0}, {"_id": 2, "partition": -1}])
    found = things.find({"partition": partition}, sort=[("available_at", 1)], limit=9)
    assert len(list(found)) == 1


def thing(number: int) -> Document:
    return {"_id": number, "group_id": f"group-{number % 10}", "event": {"n": number}}


OPERATIONS: dict[str, Callable[[Database[Document], int], object]] = {
    "claim": lambda db, n: claim(db.locks, f"token-{n}"),
    "claim with nothing due": lambda db, n: claim(db.locks, "none", due=-1.0),
    "head read": lambda db, n: list(
        db.messages.find({"group_id": f"group-{n % 10}"}, sort=[("_id", 1)], limit=2)
    ),
    "page by _id": lambda db, n: list(
        db.messages.find({"_id": {"$gt": n}}, sort=[("_id", 1)], limit=10)
    ),
    "conditional update": lambda db, n: db.locks.update_one(
        {"_id": f"group-{n}", "token": None}, {"$set": {"n": n}}
    ),
    "conditional delete": lambda db, n: db.locks.delete_one(
        {"_id": f"group-{n}", "token": "nobody", "version": 1}
    ),
    "delete of many": lambda db, n: db.messages.delete_many({"_id": {"$in": [n]}}),
    "find by a partial index": lambda db, n: db.locks.find_one({"token": f"token-{n}"}),
}
FEW, MANY, TRIES = 300, 3_000, 25


@pytest.fixture(scope="module")
def few_and_many(client: Client) -> tuple[Database[Document], Database[Document]]:
    for name, size in (("few", FEW), ("many", MANY)):
        database = client[name]
        database.locks.create_index(CLAIM_INDEX)
        database.locks.create_index(
            "token", unique=True, partialFilterExpression={"token": {"$gte": ""}}
        )
        database.messages.create_index([("group_id", ASCENDING), ("_id", ASCENDING)])
        database.locks.insert_many(lock(number, size) for number in range(size))
        database.messages.insert_many(thing(number) for number in range(size))
    return client.few, client.many


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_cost_does_not_grow_with_the_backlog(
    few_and_many: tuple[Database[Document], Database[Document]], operation: str
) -> None:
    seconds: tuple[list[float], list[float]] = ([], [])
    for number in range(TRIES):  # by turns: a busy machine slows both
        for database, taken in zip(few_and_many, seconds, strict=True):
            start = time.perf_counter()
            OPERATIONS[operation](database, number)
            taken.append(time.perf_counter() - start)

    few, many = map(statistics.median, seconds)
    assert many < 4 * few  # linear would be 10 times
