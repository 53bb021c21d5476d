"""No query walks what it does not want: the plan of each is part of the contract.

The queries are those that the transport sends, as the driver reports them. That an index fits is
checked against the indexes that there are, on every server; what a server makes of it only MongoDB
can tell (`real_mongod`).
"""

import math
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

from fairlane import AsyncMongoTransport
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
Document = dict[str, Any]
Keys = list[tuple[str, int]]
Query = tuple[str, Document, Keys]
"""Collection, filter and sort."""

RANGES = {"$gt", "$gte", "$lt", "$lte", "$nin", "$ne", "$exists"}
ADDED = {"lsid", "txnNumber", "$db", "$clusterTime", "$readPreference", "writeConcern"}
FEW = [{"dead.seq"}, {"rising"}, {"partition"}]
"""Fields whose queries find next to nothing, if anything: sorting that costs nothing."""
MOST_RANGES = 200
"""So many ranges of an index MongoDB merges in order (`internalQueryMaxScansToExplode`)."""


class Recorder(CommandListener):
    """Keeps the commands that a client sends to the test's database, or in its favour."""

    def __init__(self) -> None:
        self.commands: list[Document] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.database_name != "admin" or event.command_name == "bulkWrite":
            self.commands.append(dict(event.command))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Of no interest."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Of no interest."""

    def take(self) -> list[Document]:
        commands, self.commands = self.commands, []
        return commands


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture(params=["find_one_and_update", "update_one"])
def transport(
    request: pytest.FixtureRequest,
    connect: Callable[..., Any],
    db_name: str,
    clock: ManualClock,
    recorder: Recorder,
) -> Transport:
    client = connect("pymongo", event_listeners=[recorder])
    return AsyncMongoTransport(client, db_name, clock=clock, strategy=request.param, partitions=2)


def queries(command: Document) -> list[Query]:
    """Return the queries inside a command."""
    name = next(iter(command))
    return KINDS[name](command) if name in KINDS else []


def of_single(command: Document) -> list[Query]:
    match = command.get("filter") or command.get("query") or {}
    return [(next(iter(command.values())), match, list(command.get("sort", {}).items()))]


def of_writes(command: Document) -> list[Query]:
    collection = next(iter(command.values()))
    writes = command.get("updates") or command["deletes"]
    return [(collection, each["q"], list(each.get("sort", {}).items())) for each in writes]


def of_aggregate(command: Document) -> list[Query]:
    found = [(command["aggregate"], *of_pipeline(command["pipeline"]))]
    for stage in command["pipeline"]:
        if "$lookup" in stage:
            join = stage["$lookup"]
            _, sort = of_pipeline(join.get("pipeline", []))
            found.append((join["from"], {join["foreignField"]: 1}, sort))
        if "$unionWith" in stage:
            beside = stage["$unionWith"]
            found.append((beside["coll"], *of_pipeline(beside["pipeline"])))
    return found


def of_pipeline(pipeline: list[Document]) -> tuple[Document, Keys]:
    stages = {name: operand for stage in pipeline for name, operand in stage.items()}
    return stages.get("$match", {}), list(stages.get("$sort", {}).items())


def of_bulk(command: Document) -> list[Query]:
    collections = [each["ns"].partition(".")[2] for each in command["nsInfo"]]
    return [
        (collections[each.get("update", each.get("delete"))], each["filter"], [])
        for each in command["ops"]
        if "filter" in each
    ]


KINDS: dict[str, Callable[[Document], list[Query]]] = {
    "find": of_single,
    "findAndModify": of_single,
    "update": of_writes,
    "delete": of_writes,
    "aggregate": of_aggregate,
    "bulkWrite": of_bulk,
}


def is_range(value: Any) -> bool:
    return isinstance(value, dict) and bool(RANGES & value.keys())


def fits(index: Keys, match: Document, sort: Keys) -> bool:
    """Say whether an index finds the matches without walking others, in their order.

    Fields compared for equality come first, then the sort, then a range.
    """
    equal = {field for field, value in match.items() if not is_range(value)}
    length = 0
    while length < len(index) and index[length][0] in equal:
        length += 1
    if index[:length] == [("_id", 1)]:
        return True
    rest = index[length:]
    is_bounded = length > 0 or (bool(rest) and rest[0][0] in match)
    wanted = [] if FEW.count(set(match) - {"_id"}) else [key for key in sort if key[0] not in equal]
    is_merged = not wanted or ranges(match, index[:length]) <= MOST_RANGES
    return is_bounded and is_merged and rest[: len(wanted)] == wanted


def ranges(match: Document, prefix: Keys) -> int:
    """Return how many ranges of the index have the values of these fields."""
    several = [match[field]["$in"] for field, _ in prefix if isinstance(match[field], dict)]
    return math.prod(map(len, several))


def implies(match: Document, partial: Document) -> bool:
    """Say whether MongoDB sees that all matches are in an index with this partial filter.

    It knows comparisons and `$exists`; that a string has the type of a string it does not see.
    """
    for field, clause in partial.items():
        value = match.get(field)
        if value == clause:
            continue
        is_plain = value is not None and not isinstance(value, dict)
        is_string = isinstance(value, str) and clause == {"$gte": ""}
        if not (is_string or (is_plain and clause == {"$exists": True})):
            return False
    return True


async def indexes(database: Any) -> dict[str, list[tuple[Keys, Document]]]:
    """Return keys and partial filter of every index, by collection."""
    return {
        name: [
            (list(index["key"]), dict(index.get("partialFilterExpression", {})))
            for index in (await database[name].index_information()).values()
        ]
        for name in await database.list_collection_names()
    }


async def live(transport: Transport, clock: ManualClock) -> None:
    """Do everything that is done again and again."""
    await transport.publish("g", 1, 2, message_id="m")
    await transport.publish("g", 1, 2, message_id="m")
    await transport.publish_many([(f"g{n}", n) for n in range(3)])
    for verb in ("ack", "nack", "release", "extend"):
        lease = await transport.claim("w", min_priority=0, order="fair")
        assert lease is not None
        await getattr(transport, verb)(lease)
    lease = await transport.claim("w", order="priority")
    assert lease is not None
    await transport.dead_letter(lease, "why")
    await transport.claim("w", min_priority=3)
    clock.advance(60)
    await transport.repair()
    await transport.reconcile()
    await transport.redrive(group_id="g")
    await transport.peek("g2")
    assert [letter async for letter in transport.dead_letters("g")] == []


async def live_in_batches(transport: Transport, clock: ManualClock) -> None:
    await transport.publish_many([(f"b{n}", n, n % 5) for n in range(10)])
    leases = await transport.claim_many("w", 4, order="priority")
    assert await transport.nack_many(leases) == [True] * 4
    leases = await transport.claim_many("w", 20, min_priority=1)
    clock.advance(6)  # long leases look again before they remove their locks
    assert await transport.ack_many(leases) == [True] * len(leases)


async def test_every_query_that_comes_again_and_again_has_its_index(
    transport: Transport, clock: ManualClock, recorder: Recorder, database: Any
) -> None:
    await transport.claim("w")
    recorder.take()
    await live(transport, clock)
    await live_in_batches(transport, clock)
    there = await indexes(database)
    asked = [query for command in recorder.take() for query in queries(command)]
    assert len(asked) > 80
    unserved = [
        (collection, match, sort)
        for collection, match, sort in asked
        if not any(
            fits(index, match, sort) and implies(match, partial)
            for index, partial in there.get(collection, [])
        )
    ]
    assert unserved == []


async def test_looks_of_a_batch_into_many_partitions_have_their_index(
    connect: Callable[..., Any], db_name: str, recorder: Recorder, database: Any
) -> None:
    client = connect("pymongo", event_listeners=[recorder])
    transport: Transport = AsyncMongoTransport(client, db_name, partitions=100)
    await transport.stats()
    recorder.take()
    assert await transport.claim_many("w", 64) == []
    asked = [query for command in recorder.take() for query in queries(command)]
    there = (await indexes(database))["fairlane_locks"]
    assert len(asked) == 5
    for _, match, sort in asked:
        assert any(fits(index, match, sort) for index, _ in there)


CLAIM: Document = {"partition": 0, "priority": {"$in": [1, 2]}, "available_at": {"$lte": 1.0}}
FITS: dict[str, tuple[Keys, Document, Keys, bool]] = {
    # name: index, filter, sort, whether it fits
    "claim": (
        [("partition", 1), ("priority", -1), ("available_at", 1)],
        CLAIM,
        [("available_at", 1)],
        True,
    ),
    "claim in 40 partitions": (
        [("partition", 1), ("priority", -1), ("available_at", 1)],
        {**CLAIM, "partition": {"$in": [*range(40)]}, "priority": {"$in": [*range(5)]}},
        [("available_at", 1)],
        True,
    ),
    "claim in too many partitions": (
        [("partition", 1), ("priority", -1), ("available_at", 1)],
        {**CLAIM, "partition": {"$in": [*range(41)]}, "priority": {"$in": [*range(5)]}},
        [("available_at", 1)],
        False,
    ),
    "many partitions in no order": (
        [("partition", 1), ("priority", -1), ("available_at", 1)],
        {**CLAIM, "partition": {"$in": [*range(500)]}},
        [],
        True,
    ),
    "range before the sort": (
        [("partition", 1), ("available_at", 1), ("priority", -1)],
        {**CLAIM, "priority": {"$gte": 1}},
        [("priority", -1)],
        False,
    ),
    "floor as a range": (
        [("partition", 1), ("priority", -1), ("available_at", 1)],
        {**CLAIM, "priority": {"$gte": 1}},
        [("available_at", 1)],
        False,
    ),
    "no index on the first field": ([("token", 1)], CLAIM, [("available_at", 1)], False),
    "one document": ([("_id", 1)], {"_id": "g", "token": "t"}, [], True),
    "all documents": ([("_id", 1)], {"token": "t"}, [("_id", 1)], False),
    "head": ([("group_id", 1), ("_id", 1)], {"group_id": "g"}, [("_id", 1)], True),
    "head without the second field": ([("group_id", 1)], {"group_id": "g"}, [("_id", 1)], False),
    "nothing to go by": ([("group_id", 1)], {}, [], False),
}


@pytest.mark.parametrize(("index", "match", "sort", "answer"), FITS.values(), ids=FITS.keys())
def test_judgement_of_an_index(index: Keys, match: Document, sort: Keys, answer: bool) -> None:
    assert fits(index, match, sort) == answer


IMPLIED: dict[str, tuple[Document, Document, bool]] = {
    # name: filter, partial filter, whether MongoDB sees it
    "the same": ({"a": {"$exists": True}}, {"a": {"$exists": True}}, True),
    "a value, where it exists": ({"a": True}, {"a": {"$exists": True}}, True),
    "null, where it exists": ({"a": None}, {"a": {"$exists": True}}, False),
    "a string among strings": ({"a": ""}, {"a": {"$gte": ""}}, True),
    "a number among strings": ({"a": 1}, {"a": {"$gte": ""}}, False),
    "a string by its type": ({"a": "x"}, {"a": {"$type": "string"}}, False),
    "another field": ({"b": "x"}, {"a": {"$gte": ""}}, False),
    "no partial filter": ({"b": "x"}, {}, True),
}


@pytest.mark.parametrize(("match", "partial", "answer"), IMPLIED.values(), ids=IMPLIED.keys())
def test_judgement_of_a_partial_filter(match: Document, partial: Document, answer: bool) -> None:
    assert implies(match, partial) == answer


# What a real server makes of it

MANY = 10_000
PARKED = 5_000
CONSTANT = 12
"""Keys that may be examined beyond the limit: the ends of the index ranges that are merged."""


Explain = Callable[[Document], Awaitable[Document]]


@pytest.fixture
def explain(database: Any) -> Explain:
    """Return what explains a command that the transport has sent."""

    async def explained(command: Document) -> Document:
        plain = {key: value for key, value in command.items() if key not in ADDED}
        found: Document = await database.command("explain", plain, verbosity="executionStats")
        return found

    return explained


@pytest.fixture
async def crowded(transport: Transport, database: Any, clock: ManualClock) -> Transport:
    """10,000 groups, 5,000 of them parked, half of the others below the floor of 2."""
    await transport.stats()
    await crowd(database, clock, partitions=2)
    return transport


@pytest.fixture
async def spread(
    connect: Callable[..., Any],
    database: Any,
    db_name: str,
    clock: ManualClock,
    recorder: Recorder,
) -> Transport:
    """The same groups in 33 partitions: a batch looks into 32 of them together."""
    client = connect("pymongo", event_listeners=[recorder])
    transport: Transport = AsyncMongoTransport(client, db_name, clock=clock, partitions=33)
    await transport.stats()
    await crowd(database, clock, partitions=33)
    return transport


async def crowd(database: Any, clock: ManualClock, *, partitions: int) -> None:
    locks: list[Document] = [
        {
            "_id": f"g{n}",
            "partition": n % partitions,
            "priority": n % 4,
            "available_at": clock() + 600.0 if n < PARKED else float(n),
            "token": None,
            "version": 1,
            "attempts": 0,
            "epoch": n,
            "done": [],
        }
        for n in range(MANY)
    ]
    messages = [{"_id": n, "group_id": f"g{n}", "event": n, "priority": 0} for n in range(MANY)]
    await database["fairlane_locks"].insert_many(locks)
    await database["fairlane_messages"].insert_many(messages)
    await database["fairlane_counters"].update_one({"_id": "seq"}, {"$set": {"n": MANY}}, True)


def stages(plan: Any) -> Iterator[str]:
    """Yield the names of all stages in an explanation, whichever command it explains."""
    if isinstance(plan, dict):
        if isinstance(plan.get("stage"), str):
            yield plan["stage"]
        for name, part in plan.items():
            if name != "rejectedPlans":
                yield from stages(part)
    elif isinstance(plan, list):
        for part in plan:
            yield from stages(part)


def examined(plan: Any) -> int:
    """Return the largest number of keys that any part of the command examined."""
    if isinstance(plan, dict):
        own = int(plan.get("totalKeysExamined", 0))
        return max([own, *(examined(part) for part in plan.values())])
    if isinstance(plan, list):
        return max(map(examined, plan), default=0)
    return 0


def names(plan: Any) -> Iterator[str]:
    """Yield the names of the indexes in use."""
    if isinstance(plan, dict):
        if isinstance(plan.get("indexName"), str):
            yield plan["indexName"]
        for name, part in plan.items():
            if name != "rejectedPlans":
                yield from names(part)
    elif isinstance(plan, list):
        for part in plan:
            yield from names(part)


CLAIMS: list[Document] = [
    {},
    {"min_priority": 2},
    {"min_priority": 4},
    {"order": "priority"},
    {"order": "priority", "min_priority": 2},
]


@pytest.mark.real_mongod
@pytest.mark.slow
@pytest.mark.parametrize("options", CLAIMS, ids=str)
async def test_claim_among_many_examines_a_handful_of_keys(
    crowded: Transport, recorder: Recorder, explain: Explain, options: Document
) -> None:
    recorder.take()
    await crowded.claim("w", **options)
    leasing = [
        command for command in recorder.take() if next(iter(command)) in ("findAndModify", "update")
    ]
    for command in leasing:
        plan = await explain(command)
        found = set(stages(plan))
        assert not SORTS & found
        assert set(names(plan)) == {CLAIM_INDEX}
        assert examined(plan) <= 1 + CONSTANT


CLAIM_INDEX = "partition_1_priority_-1_available_at_1"
SORTS = {"SORT", "SORT_DEFAULT", "SORT_SIMPLE", "COLLSCAN"}
BATCH = 64


def looks(commands: list[Document]) -> list[Document]:
    """Return those of the commands that look for candidates of a batch."""
    return [
        command
        for command in commands
        if command.get("find") == "fairlane_locks" and "partition" in command["filter"]
    ]


@pytest.mark.real_mongod
@pytest.mark.slow
@pytest.mark.parametrize("options", CLAIMS, ids=str)
async def test_look_of_a_batch_examines_little_more_keys_than_it_finds(
    crowded: Transport, recorder: Recorder, explain: Explain, options: Document
) -> None:
    recorder.take()
    await crowded.claim_many("w", BATCH, **options)
    found = looks(recorder.take())
    assert found
    for command in found:
        plan = await explain(command)
        assert not SORTS & set(stages(plan))
        assert set(names(plan)) == {CLAIM_INDEX}
        assert examined(plan) <= command["limit"] + CONSTANT


@pytest.mark.real_mongod
@pytest.mark.slow
@pytest.mark.parametrize("options", CLAIMS, ids=str)
async def test_look_into_32_partitions_examines_one_key_more_for_each_range(
    spread: Transport, recorder: Recorder, explain: Explain, options: Document
) -> None:
    """At most 160 ranges are merged: so many keys are compared before the first is taken."""
    recorder.take()
    await spread.claim_many("w", 400, **options)
    _, others = looks(recorder.take())
    plan = await explain(others)
    assert not SORTS & set(stages(plan))
    assert set(names(plan)) == {CLAIM_INDEX}
    merged = ranges(others["filter"], [("partition", 1), ("priority", -1)])
    assert 32 <= merged <= MOST_RANGES
    assert examined(plan) <= others["limit"] + merged + CONSTANT


@pytest.mark.real_mongod
@pytest.mark.slow
async def test_leases_of_a_batch_are_read_back_by_their_ids(
    crowded: Transport, recorder: Recorder, explain: Explain
) -> None:
    recorder.take()
    await crowded.claim_many("w", BATCH)
    (reading,) = [command for command in recorder.take() if "aggregate" in command]
    plan = await explain(reading)
    assert "COLLSCAN" not in set(stages(plan))
    assert CLAIM_INDEX not in set(names(plan))
    assert examined(plan) <= 3 * BATCH + CONSTANT


@pytest.mark.real_mongod
@pytest.mark.slow
async def test_lease_of_a_sorted_update_is_read_back_by_its_token(
    crowded: Transport, recorder: Recorder, explain: Explain
) -> None:
    if crowded.strategy != "update_one":
        pytest.skip("the other strategy returns what it leased")
    recorder.take()
    await crowded.claim("w")
    (reading,) = [command for command in recorder.take() if "aggregate" in command]
    plan = await explain(reading)
    assert "token_1" in set(names(plan))
    assert "COLLSCAN" not in set(stages(plan))


@pytest.mark.real_mongod
@pytest.mark.slow
async def test_front_of_a_group_is_read_by_its_index(
    crowded: Transport, recorder: Recorder, explain: Explain
) -> None:
    recorder.take()
    await crowded.claim("w")
    reading = [
        command for command in recorder.take() if next(iter(command)) in ("find", "aggregate")
    ]
    assert reading
    for command in reading:
        plan = await explain(command)
        assert "COLLSCAN" not in set(stages(plan))
        assert examined(plan) <= 3 + CONSTANT


@pytest.mark.real_mongod
@pytest.mark.slow
async def test_earlier_publish_is_found_by_its_message_id(
    crowded: Transport, recorder: Recorder, explain: Explain
) -> None:
    await crowded.publish("g1", 1, message_id="m")
    recorder.take()
    await crowded.publish("g1", 1, message_id="m")
    (looking,) = [command for command in recorder.take() if "find" in command]
    plan = await explain(looking)
    assert set(names(plan)) == {"message_id_1"}
    assert examined(plan) <= 1 + CONSTANT


@pytest.mark.real_mongod
@pytest.mark.slow
async def test_reconciler_that_has_nothing_to_do_examines_a_key_per_partition(
    crowded: Transport, recorder: Recorder, explain: Explain
) -> None:
    recorder.take()
    assert await crowded.reconcile() == 0
    scans = [
        command
        for command in recorder.take()
        if command.get("find") == "fairlane_locks" and "partition" in command["filter"]
    ]
    assert scans
    for command in scans:
        plan = await explain(command)
        assert "COLLSCAN" not in set(stages(plan))
        assert examined(plan) <= 2 + CONSTANT


def single_writes(command: Document) -> Iterator[Document]:
    """Yield the updates and deletions of a command, one each: no other can be explained."""
    kind = next(iter(command))
    if kind == "bulkWrite":
        for (collection, match, _), each in zip(of_bulk(command), filtered(command), strict=True):
            yield single_write(collection, {"q": match, "u": each.get("updateMods")})
    for each in command.get("updates") or command.get("deletes") or ():
        yield single_write(command[kind], {"q": each["q"], "u": each.get("u")})


def filtered(command: Document) -> list[Document]:
    return [each for each in command["ops"] if "filter" in each]


def single_write(collection: str, write: Document) -> Document:
    if write["u"] is None:
        return {"delete": collection, "deletes": [{"q": write["q"], "limit": 1}]}
    return {"update": collection, "updates": [write]}


@pytest.mark.real_mongod
@pytest.mark.slow
@pytest.mark.parametrize("number", [1, BATCH])
async def test_settlements_and_their_clean_up_find_everything_by_its_id(
    crowded: Transport, recorder: Recorder, explain: Explain, number: int
) -> None:
    """Locks, messages and floors."""
    for verb in ("nack_many", "ack_many"):
        leases = await crowded.claim_many("w", number)
        recorder.take()
        assert all(await getattr(crowded, verb)(leases))
        writes = [write for command in recorder.take() for write in single_writes(command)]
        assert len(writes) == number * (1 if verb == "nack_many" else 4)
        for write in writes[:: max(1, len(writes) // 8)]:
            plan = await explain(write)
            assert not {"COLLSCAN", CLAIM_INDEX} & {*stages(plan), *names(plan)}
            assert examined(plan) <= 1 + CONSTANT


@pytest.mark.real_mongod
@pytest.mark.slow
async def test_repair_reads_messages_by_their_number_and_notes_by_their_index(
    crowded: Transport, recorder: Recorder, explain: Explain, clock: ManualClock
) -> None:
    """Behind its mark, up to a page of them; nobody's death is noted, no letter rises."""
    clock.advance(3_600)
    recorder.take()
    await crowded.repair()
    finds = [command for command in recorder.take() if "find" in command]
    pages = [command for command in finds if command["find"] == "fairlane_messages"]
    notes = [command for command in finds if {"dead.seq", "rising"} & command["filter"].keys()]
    assert pages
    assert len(notes) == 2
    for command in pages:
        plan = await explain(command)
        assert not SORTS & set(stages(plan))
        assert examined(plan) <= command["limit"] + CONSTANT
    for command in notes:
        plan = await explain(command)
        assert "COLLSCAN" not in set(stages(plan))
        assert examined(plan) <= CONSTANT


@pytest.mark.real_mongod
@pytest.mark.slow
async def test_settlements_find_their_lock_by_its_id(
    crowded: Transport, recorder: Recorder, explain: Explain
) -> None:
    for verb in ("extend", "nack", "ack"):
        lease = await crowded.claim("w")
        assert lease is not None
        recorder.take()
        await getattr(crowded, verb)(lease)
        for command in recorder.take():
            if next(iter(command)) == "update":
                plan = await explain(command)
                assert examined(plan) <= 1 + CONSTANT
                assert "COLLSCAN" not in set(stages(plan))
