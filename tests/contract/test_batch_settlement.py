"""Many leases settled at once: each on its own, in as many commands as one (statement 62)."""

import os
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from contract.batches import Commands, Open, cancel, groups_of
from fairlane import AsyncMongoTransport, ConfigurationError, Lease
from fairlane.driver import Collection, Driver
from fairlane.testing import ManualClock, local_server

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Snapshot = Callable[[], Awaitable[dict[str, list[Any]]]]
Settle = Callable[[Transport, Any], Awaitable[list[bool]]]

SETTLEMENTS: dict[str, Settle] = {
    "ack_many": lambda transport, leases: transport.ack_many(leases),
    "nack_many": lambda transport, leases: transport.nack_many(leases),
    "nack_many later": lambda transport, leases: transport.nack_many(leases, 60, error="why"),
}
VISIBILITY = 30
TYPE_MISMATCH = 14


@pytest.fixture
def way() -> dict[str, Any]:
    return {"partitions": 3}


@pytest.fixture
async def transport(open_on: Open) -> Transport:
    return await open_on()


@pytest.fixture(params=SETTLEMENTS)
def settle(request: pytest.FixtureRequest) -> Settle:
    return SETTLEMENTS[request.param]


async def leased(transport: Transport, *groups: str, messages: int = 1) -> dict[str, Lease[Any]]:
    await transport.publish_many([(group, n) for n in range(messages) for group in groups])
    leases = await transport.claim_many("w", 100, VISIBILITY)
    assert sorted(groups_of(leases)) == sorted(groups)
    return {lease.group_id: lease for lease in leases}


async def test_every_lease_has_its_own_result_in_the_order_of_the_list(
    transport: Transport, clock: ManualClock, settle: Settle
) -> None:
    """Statements 16, 19 and 62."""
    lost = (await leased(transport, "lost"))["lost"]
    clock.advance(VISIBILITY)
    assert groups_of(await transport.claim_many("other", 2, 600)) == ["lost"]
    held = await leased(transport, "a", "b", "c", "settled", "drained", messages=2)
    assert await transport.nack(held["settled"], 600)
    assert all(await transport.ack_many([held["drained"]]))
    (second,) = await transport.claim_many("w", 2, VISIBILITY)
    assert all(await transport.ack_many([second]))
    await transport.publish("drained", "its next life")
    order = [held["a"], lost, held["settled"], held["b"], held["b"], second, held["c"]]
    assert await settle(transport, order) == [True, False, False, True, False, False, True]


async def test_only_held_leases_are_settled(
    transport: Transport, clock: ManualClock, settle: Settle, database: Any
) -> None:
    """Statements 14, 15 and 62."""
    stale = await leased(transport, "a", "b")
    clock.advance(VISIBILITY)
    fresh = {lease.group_id: lease for lease in await transport.claim_many("new", 2, VISIBILITY)}
    assert await transport.nack(fresh["b"], 600)
    before = await database["fairlane_locks"].find().sort("_id", 1).to_list(None)
    assert await settle(transport, list(stale.values())) == [False, False]
    assert await database["fairlane_locks"].find().sort("_id", 1).to_list(None) == before
    assert (await transport.stats()).messages == 2


async def test_messages_of_lost_leases_stay_when_others_are_acked(
    transport: Transport, clock: ManualClock
) -> None:
    stale = await leased(transport, "lost")
    clock.advance(VISIBILITY)
    await transport.claim_many("new", 2, 600)
    held = await leased(transport, "held")
    assert await transport.ack_many([*stale.values(), *held.values()]) == [False, True]
    assert len(await transport.peek("lost")) == 1
    assert await transport.peek("held") == []


async def test_acked_batch_removes_drained_groups_and_keeps_the_others(
    transport: Transport, snapshot: Snapshot
) -> None:
    """Statement 10."""
    await transport.publish_many([("long", "first"), ("short", "only"), ("long", "second")])
    leases = await transport.claim_many("w", 10)
    assert await transport.ack_many(leases) == [True, True]
    left = await snapshot()
    assert [lock["_id"] for lock in left["fairlane_locks"]] == ["long"]
    assert [message["event"] for message in left["fairlane_messages"]] == ["second"]
    assert groups_of(await transport.claim_many("w", 10)) == ["long"]


async def test_nacked_batch_comes_back_after_its_delay_with_its_attempts(
    transport: Transport, clock: ManualClock, database: Any
) -> None:
    """Statement 12."""
    held = await leased(transport, "a", "b", messages=2)
    assert await transport.nack_many(held.values(), 60, error="e" * 5_000) == [True, True]
    clock.advance(59.9)
    assert await transport.claim_many("w", 10) == []
    locks = await database["fairlane_locks"].find().to_list(None)
    assert {lock["last_error"] for lock in locks} == {"e" * 4_000}
    clock.advance(0.1)
    leases = await transport.claim_many("w", 10)
    assert {(lease.event, lease.attempt) for lease in leases} == {(0, 2)}


async def test_no_leases_are_settled_by_no_command(
    transport: Transport, settle: Settle, command_log: Any
) -> None:
    assert await settle(transport, []) == []
    assert command_log.take() == []


async def test_leases_may_come_from_a_generator(transport: Transport, settle: Settle) -> None:
    held = await leased(transport, "a", "b")
    assert await settle(transport, (lease for lease in held.values())) == [True, True]


async def test_what_is_no_lease_is_named_by_its_place_and_nothing_is_settled(
    transport: Transport, settle: Settle, snapshot: Snapshot
) -> None:
    leases = list((await leased(transport, "a", "b")).values())
    before = await snapshot()
    with pytest.raises(ConfigurationError, match=r"leases\[2\]"):
        await settle(transport, [*leases, "no lease"])
    assert await snapshot() == before


async def test_single_lease_is_not_several(transport: Transport, settle: Settle) -> None:
    held = await leased(transport, "a")
    for value in (held["a"], None, 7):
        with pytest.raises(ConfigurationError, match="leases"):
            await settle(transport, value)
    assert await settle(transport, held.values()) == [True]


async def test_message_that_a_dying_publisher_stored_keeps_its_group_when_long_leases_are_acked(
    transport: Transport, clock: ManualClock, database: Any
) -> None:
    """Statement 35: it did not count up the version, and `repair()` passed by during the lease."""
    held = await leased(transport, "a", "b")
    message = {"_id": 1_000, "group_id": "a", "event": "late", "published_at": clock()}
    await database["fairlane_messages"].insert_one(message)
    clock.advance(6)
    assert await transport.ack_many(held.values()) == [True, True]
    assert await database["fairlane_locks"].distinct("_id") == ["a"]
    assert [lease.event for lease in await transport.claim_many("w", 10)] == ["late"]


async def test_acked_batch_that_is_cancelled_at_any_command_is_finished(
    transport: Transport, clock: ManualClock, commands: Commands
) -> None:
    """Statement 62: long leases have the most commands."""
    for point in count():
        held = await leased(transport, "a", "b", "c")
        clock.advance(6)
        ack = await commands.disturb(transport.ack_many(held.values()), point, cancel)
        assert ack.cancelled() == commands.has_struck
        stats = await transport.stats()
        assert (stats.groups, stats.messages) == (0, 0)
        if not commands.has_struck:
            break
    assert point >= 4, "look again; settle and clean up"


async def test_nacked_batch_that_is_cancelled_at_its_command_is_finished(
    transport: Transport, clock: ManualClock, commands: Commands
) -> None:
    for point in count():
        clock.advance(600)
        held = await leased(transport, f"g{point}")
        nack = await commands.disturb(transport.nack_many(held.values(), 6_000), point, cancel)
        assert nack.cancelled() == commands.has_struck
        assert (await transport.stats()).parked == point + 1
        if not commands.has_struck:
            break
    assert point == 2, "one command"


# What a bulk of updates tells


@pytest.fixture(scope="module")
def plain_url() -> Iterator[str]:
    if os.environ.get("FAIRLANE_TEST_URL"):
        pytest.skip("FAIRLANE_TEST_URL names the one server to test")
    with local_server(plain=True) as server:
        yield server.url


@pytest.fixture(params=["fairlane_url", "plain_url"])
def client(request: pytest.FixtureRequest, connect: Any, driver: str, command_log: Any) -> Any:
    """On the repaired local server and on the plain one; of others there is one only."""
    url = request.getfixturevalue(request.param)
    return connect(driver, url, event_listeners=[command_log])


@pytest.fixture
async def adapter(client: Any, server: str, command_log: Any) -> Driver:
    adapter = Driver(client)
    await adapter.server_time()
    if server == "old":
        adapter.has_cross_collection_bulk = False
    return adapter


@pytest.fixture
async def numbers(adapter: Driver, db_name: str, command_log: Any) -> Collection:
    """Five documents with the numbers 0 to 4 as `_id` and `n`."""
    collection = adapter.collection(db_name, "numbers")
    await collection.insert([{"_id": n, "n": n} for n in range(5)])
    command_log.take()
    return collection


COUNTED_UP = {"$inc": {"n": 10}}
EXPECTED = [({"_id": n, "n": n % 7}, COUNTED_UP) for n in (4, 9, 0, 7, 7, 2)]
"""Misses are 9, of which there is no document, and 7: another `n`, which is no document either."""
EXPECTED_HITS = [True, False, True, False, False, True]


async def test_bulk_of_updates_tells_of_each_whether_it_matched(
    adapter: Driver, numbers: Collection, command_log: Any, server: str
) -> None:
    assert await adapter.update_and_tell(numbers, EXPECTED) == EXPECTED_HITS
    assert command_log.take() in (["bulkWrite"], ["update"])
    found = await numbers.find({}, sort=[("_id", 1)], limit=0)
    assert [row["n"] for row in found] == [10, 1, 12, 3, 14]


async def test_update_that_misses_leaves_no_document_behind(
    adapter: Driver, numbers: Collection
) -> None:
    """Neither under the impossible id, nor under the one that was asked for."""
    await adapter.update_and_tell(numbers, EXPECTED)
    assert await numbers.count({}) == 5
    assert await numbers.find_one({"_id": None}) is None


async def test_document_that_changed_is_a_miss(adapter: Driver, numbers: Collection) -> None:
    changes = [({"_id": n, "n": 3}, COUNTED_UP) for n in range(5)]
    assert await adapter.update_and_tell(numbers, changes) == [False, False, False, True, False]
    assert await adapter.update_and_tell(numbers, changes) == [False] * 5
    assert await numbers.find_one({"_id": 3}) == {"_id": 3, "n": 13}


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_few_updates_tell_as_many_do(
    adapter: Driver, numbers: Collection, number: int
) -> None:
    changes = [({"_id": n, "n": 0}, COUNTED_UP) for n in range(number)]
    assert await adapter.update_and_tell(numbers, changes) == [True, False][:number]


async def test_update_that_fails_is_no_miss(adapter: Driver, numbers: Collection) -> None:
    """It is raised as the error of a single write, without what was to be written."""
    await numbers.update_one({"_id": 1}, {"$set": {"n": "text"}})
    noted = {**COUNTED_UP, "$set": {"last_error": "secret"}}
    changes = [({"_id": n}, noted) for n in (9, 0, 1, 2)]  # a miss comes first
    with pytest.raises(OperationFailure) as raised:
        await adapter.update_and_tell(numbers, changes)
    assert_single(raised.value)


async def test_failed_bulk_of_updates_is_the_error_of_a_single_one(numbers: Collection) -> None:
    await numbers.update_one({"_id": 1}, {"$set": {"n": "text"}})
    changes = [({"_id": n}, {**COUNTED_UP, "$set": {"last_error": "secret"}}) for n in range(3)]
    with pytest.raises(OperationFailure) as raised:
        await numbers.update_each(changes)
    assert_single(raised.value)


def assert_single(error: OperationFailure) -> None:
    assert (type(error), error.code) == (OperationFailure, TYPE_MISMATCH)
    assert "secret" not in f"{error}{error.details}"
