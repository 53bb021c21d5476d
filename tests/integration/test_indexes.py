"""Creating indexes at the start of a program, whatever is there already."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, ConfigurationError, Lease

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Claim = Callable[..., Awaitable[Lease[Any]]]
FailCommand = Callable[..., Awaitable[None]]

UNAUTHORIZED = 13
PROCESSES = 10

OPTIONS = {"unique", "sparse", "partialFilterExpression"}
WANTED = {
    "fairlane_messages": [
        {"key": {"group_id": 1, "_id": 1}},
        {
            "key": {"message_id": 1},
            "unique": True,
            "partialFilterExpression": {"message_id": {"$gte": ""}},
        },
    ],
    "fairlane_locks": [
        {"key": {"dead.seq": 1}, "partialFilterExpression": {"dead.seq": {"$exists": True}}},
        {"key": {"partition": 1, "priority": -1, "available_at": 1}},
    ],
    "fairlane_dead": [
        {"key": {"group_id": 1, "_id": 1}},
        {"key": {"rising": 1}, "partialFilterExpression": {"rising": {"$exists": True}}},
    ],
}


@pytest.fixture
def way() -> dict[str, Any]:
    """Named, as the indexes of a transport are; sorted updates have one of their own."""
    return {"strategy": "find_one_and_update"}


async def indexes(database: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the definitions of all indexes but those on `_id`, without names, in order of keys."""
    found = {}
    for collection in WANTED:
        information = await database[collection].index_information()
        found[collection] = [
            {
                "key": dict(index["key"]),
                **{option: index[option] for option in OPTIONS & set(index)},
            }
            for _, index in sorted(information.items())
            if index["key"] != [("_id", 1)]
        ]
    return found


async def test_first_use_makes_the_indexes_of_the_design(
    transport: Transport, database: Any
) -> None:
    await transport.publish("g", 1)
    assert await indexes(database) == WANTED


async def test_indexes_are_made_once_and_again_without_harm(
    transport: Transport, database: Any
) -> None:
    await transport.ensure_indexes()
    before = await indexes(database)
    await transport.ensure_indexes()
    assert await indexes(database) == before


async def test_concurrent_starts_make_the_indexes_once(
    make_transport: MakeTransport, database: Any
) -> None:
    await asyncio.gather(*(make_transport().ensure_indexes() for _ in range(20)))
    assert {name: len(found) for name, found in (await indexes(database)).items()} == {
        name: len(wanted) for name, wanted in WANTED.items()
    }


START = """
import asyncio, sys
from fairlane import AsyncMongoTransport

async def main(url, db_name, driver):
    options = {"driver": driver, "strategy": "find_one_and_update"}
    async with AsyncMongoTransport.from_url(url, db_name, **options) as transport:
        print(await transport.publish("g", 1))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
async def starters(
    fairlane_url: str, db_name: str, driver: str, database: Any
) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """Ten programs that start at the same time on an empty database."""
    programs = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", START, fairlane_url, db_name, driver),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        for _ in range(PROCESSES)
    ]
    yield programs
    for program in programs:
        if program.returncode is None:
            program.kill()
            await program.wait()


@pytest.mark.slow
async def test_ten_processes_that_start_together_all_work(
    starters: list[asyncio.subprocess.Process], database: Any
) -> None:
    ends = await asyncio.gather(*(program.communicate() for program in starters))
    assert [err for _, err in ends] == [b""] * PROCESSES
    assert sorted(int(out) for out, _ in ends) == list(range(1, PROCESSES + 1))
    assert len((await indexes(database))["fairlane_locks"]) == 2


@pytest.mark.parametrize(
    ("collection", "keys", "options"),
    [
        ("locks", [("available_at", 1)], {"name": "partition_1_priority_-1_available_at_1"}),
        ("locks", [("partition", 1), ("priority", -1), ("available_at", 1)], {"name": "mine"}),
        ("locks", [("partition", 1), ("priority", -1), ("available_at", 1)], {"unique": True}),
        ("messages", [("message_id", 1)], {}),
        ("messages", [("message_id", 1)], {"unique": True, "sparse": True}),
        ("dead", [("rising", 1)], {}),
    ],
    ids=["same name", "same keys", "unique", "not unique", "sparse", "not sparse"],
)
async def test_conflict_is_an_error_that_shows_both_definitions(
    transport: Transport, database: Any, collection: str, keys: Any, options: dict[str, Any]
) -> None:
    name = await database[f"fairlane_{collection}"].create_index(keys, **options)
    with pytest.raises(ConfigurationError, match=f"'fairlane_{collection}'") as raised:
        await transport.publish("g", 1)
    text = str(raised.value)
    needed, _, found = text.partition(", there is ")
    assert "Fairlane needs" in needed
    assert repr(name) in found
    assert repr(dict(keys)) in found


async def test_conflict_is_found_before_anything_is_published(
    transport: Transport, database: Any
) -> None:
    await database["fairlane_messages"].create_index([("message_id", 1)])
    with pytest.raises(ConfigurationError):
        await transport.publish("g", 1)
    assert await database["fairlane_messages"].count_documents({}) == 0


async def test_other_indexes_are_left_alone(transport: Transport, database: Any) -> None:
    await database["fairlane_messages"].create_index([("event.kind", 1)])
    await transport.publish("g", 1)
    assert "event.kind_1" in await database["fairlane_messages"].index_information()


async def test_ensure_indexes_false_makes_none(
    make_transport: MakeTransport, database: Any
) -> None:
    transport = make_transport(ensure_indexes=False)
    await transport.publish("g", 1)
    lease = await transport.claim("w")
    assert lease is not None
    assert await transport.ack(lease)
    assert await indexes(database) == {name: [] for name in WANTED}


async def test_ensure_indexes_false_does_not_look_at_conflicts(
    make_transport: MakeTransport, database: Any
) -> None:
    await database["fairlane_messages"].create_index([("message_id", 1)])
    assert await make_transport(ensure_indexes=False).publish("g", 1) == 1


async def test_explicit_ensure_indexes_works_for_those_who_switched_it_off(
    make_transport: MakeTransport, database: Any
) -> None:
    await make_transport(ensure_indexes=False).ensure_indexes()
    assert len((await indexes(database))["fairlane_locks"]) == 2


async def test_user_without_the_right_is_told_what_to_do(
    transport: Transport, fail_command: FailCommand
) -> None:
    await fail_command("createIndexes", errorCode=UNAUTHORIZED)
    with pytest.raises(ConfigurationError, match="ensure_indexes=False"):
        await transport.publish("g", 1)


@pytest.mark.real_mongod
async def test_claim_among_many_locks_merges_index_ranges(
    transport: Transport, database: Any
) -> None:
    """Only MongoDB explains what MongoDB does."""
    await transport.publish_many([(f"g{n}", n, n % 5) for n in range(200)])
    explained = await database.command(
        "explain",
        {
            "findAndModify": "fairlane_locks",
            "query": {
                "partition": 0,
                "priority": {"$in": [0, 1, 2, 3, 4]},
                "available_at": {"$lte": 2_000_000.0},
            },
            "sort": {"available_at": 1},
            "update": {"$set": {"token": "x"}},
        },
        verbosity="executionStats",
    )
    plan = str(explained["queryPlanner"]["winningPlan"])
    assert "SORT_MERGE" in plan
    assert "COLLSCAN" not in plan
    assert explained["executionStats"]["totalKeysExamined"] <= 10
