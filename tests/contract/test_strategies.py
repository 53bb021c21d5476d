"""The two ways to lease a group do the same, and cost the same."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from bson.binary import Binary
from pymongo.errors import AutoReconnect

from fairlane import AsyncMongoTransport, Lease
from fairlane.testing import ManualClock
from fairlane.transport._publish import Row

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Claim = Callable[..., Awaitable[Lease[Any]]]
FailCommand = Callable[..., Awaitable[None]]

NOT_PRIMARY = 10107
STRATEGIES = ["find_one_and_update", "update_one"]
MEGABYTE = 2**20


@pytest.fixture(params=STRATEGIES)
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"strategy": request.param, "partitions": 2}


@pytest.fixture
def leases_by_update(way: dict[str, Any]) -> bool:
    return bool(way["strategy"] == "update_one")


async def test_named_strategy_is_the_one_in_use(transport: Transport, way: dict[str, Any]) -> None:
    assert transport.strategy == way["strategy"]
    await transport.claim("w")
    assert transport.strategy == way["strategy"]


async def test_life_of_a_message_takes_five_commands(
    transport: Transport, claim: Claim, command_log: Any, leases_by_update: bool
) -> None:
    """Statements 54 and 59: an update's lease is read back together with its group's front."""
    await transport.stats()
    if not transport._store.driver.has_cross_collection_bulk:
        pytest.skip("the server has no bulkWrite over collections (MongoDB 8.0)")
    transport._store.partitioning = type(transport._store.partitioning)()  # one: no misses
    command_log.take()
    await transport.publish("g", 1)
    lease = await claim()
    await transport.ack(lease)
    assert command_log.take() == [
        *("findAndModify", "bulkWrite"),
        *("update" if leases_by_update else "findAndModify", "aggregate"),
        "bulkWrite",
    ]


async def test_groups_are_leased_in_turn_and_messages_in_order(
    make_transport: MakeTransport, clock: ManualClock
) -> None:
    transport = make_transport(partitions=1)
    await transport.publish_many([(f"g{n % 5}", n) for n in range(15)])
    delivered = []
    while (lease := await transport.claim("w")) is not None:
        delivered.append(lease.event)
        clock.advance(0.001)
        assert await transport.ack(lease)
    turns = [delivered[:5], delivered[5:10], delivered[10:]]
    assert [sorted(turn) for turn in turns] == [[*range(5)], [*range(5, 10)], [*range(10, 15)]]


async def test_lease_says_the_same(transport: Transport, claim: Claim) -> None:
    await transport.publish("g", {"a": 1}, 3)
    await transport.publish("g", 2)
    lease = await claim("w1", 30)
    assert (lease.group_id, lease.event, lease.priority) == ("g", {"a": 1}, 3)
    assert (lease.attempt, lease.expires_at) == (1, 1_000_030.0)
    assert lease.token.startswith("w1:")
    assert not lease._seen.is_last


async def test_epochs_grow_over_the_lives_of_a_group(transport: Transport, claim: Claim) -> None:
    """Statement 45: also of a life that begins with a number from before the one that ended."""
    early = await transport._store.reserve(1)
    await transport.publish("g", 1)
    first = await claim()
    await transport.ack(first)
    draft = transport._publisher.draft("g", 2)
    insert = transport._publisher._insert(Row(draft, early), 0.0)
    (ready,) = transport._publisher._ready([Row(draft, early)], 0.0)
    await transport._store.driver.write_in_order([insert, ready])
    assert (await claim()).epoch > first.epoch


async def test_lock_of_an_earlier_release_is_lifted_above_its_floor(
    transport: Transport, claim: Claim, database: Any
) -> None:
    """Its `is_new` is true and does not name the floor."""
    early = await transport._store.reserve(1)
    await transport.publish("g", 1)
    first = await claim()
    await transport.ack(first)
    await transport.publish("g", 2)
    await database["fairlane_locks"].update_one(
        {"_id": "g"}, {"$set": {"is_new": True, "epoch": early}}
    )
    assert (await claim()).epoch > first.epoch


async def test_what_an_interrupted_ack_left_is_not_delivered(
    transport: Transport, claim: Claim, database: Any
) -> None:
    seqs = await transport.publish_many([("g", n) for n in range(5)])
    await database["fairlane_locks"].update_one({"_id": "g"}, {"$set": {"done": seqs[:3]}})
    assert (await claim()).event == 3


async def test_lock_without_messages_is_removed_on_the_way(
    transport: Transport, database: Any
) -> None:
    await transport.publish("g", 1)
    await database["fairlane_messages"].delete_many({})
    assert await transport.claim("w") is None
    assert await database["fairlane_locks"].count_documents({}) == 0


@pytest.mark.parametrize("bad_seq", [1, 2])
async def test_message_that_no_driver_decodes_goes_to_the_dead_letters_alone(
    transport: Transport, claim: Claim, database: Any, bad_seq: int
) -> None:
    """A UUID of three bytes; the lock and its front cannot be read together then."""
    await transport.publish_many([("g", 1), ("g", 2)])
    messages = database["fairlane_messages"]
    await messages.update_one({"_id": bad_seq}, {"$set": {"event": Binary(b"abc", 4)}})
    lease = await claim()
    assert lease.seq == 3 - bad_seq
    assert await transport.ack(lease)
    assert await transport.claim("w") is None
    (letter,) = [letter async for letter in transport.dead_letters()]
    assert letter.seq == bad_seq


@pytest.mark.slow
async def test_messages_that_are_large_together_are_delivered(
    transport: Transport, claim: Claim
) -> None:
    """Each is allowed; three of them and the lock are more than a document may hold."""
    await transport.publish_many([("g", bytes([n]) * (7 * MEGABYTE)) for n in range(3)])
    for number in range(3):
        lease = await claim()
        assert lease.event[:1] == bytes([number])
        assert await transport.ack(lease)


@pytest.mark.parametrize("worker_id", ["$$NOW", "$token", "$set", "a.b", ""])
async def test_worker_id_is_stored_as_it_is(
    transport: Transport, claim: Claim, database: Any, worker_id: str
) -> None:
    await transport.publish("g", 1)
    lease = await claim(worker_id)
    lock = await database["fairlane_locks"].find_one({"_id": "g"})
    assert lock["token"] == lease.token
    assert lock["token"].startswith(f"{worker_id}:")


async def test_token_index_is_made_where_leases_are_read_back(
    transport: Transport, database: Any, leases_by_update: bool
) -> None:
    await transport.ensure_indexes()
    indexes = await database["fairlane_locks"].index_information()
    assert ("token_1" in indexes) == leases_by_update
    if leases_by_update:
        assert indexes["token_1"]["unique"]
        assert indexes["token_1"]["partialFilterExpression"] == {"token": {"$gte": ""}}


@pytest.fixture
def auto(make_transport: MakeTransport) -> Transport:
    return make_transport(strategy="auto")


async def test_auto_is_known_from_the_first_call_on(auto: Transport) -> None:
    assert auto.strategy == "auto"
    await auto.publish("g", 1)
    assert auto.strategy in STRATEGIES


async def test_auto_is_known_when_the_transport_is_open(auto: Transport) -> None:
    async with auto:
        assert auto.strategy in STRATEGIES


async def test_explicit_ensure_indexes_knows_the_server(auto: Transport) -> None:
    """A deployment step calls nothing before it."""
    await auto.ensure_indexes()
    assert auto._store.driver.wire_version > 0


async def test_auto_never_updates_in_order_on_a_server_that_is_known_to_do_it_wrong(
    auto: Transport, database: Any
) -> None:
    """Statement 59: SecantusDB says that it is MongoDB 8.0, and here it has all that it takes."""
    build = await database.client.get_database("admin").command("buildInfo")
    if "secantusVersion" not in build:
        pytest.skip("the server is not SecantusDB")
    await database["fairlane_locks"].create_index([("token", 1)])
    await auto.claim("w")
    assert auto._store.driver.wire_version >= 25
    assert auto.strategy == "find_one_and_update"


@pytest.mark.real_mongod
async def test_auto_updates_in_order_where_the_server_can(auto: Transport) -> None:
    await auto.claim("w")
    is_new = auto._store.driver.wire_version >= 25
    assert auto.strategy == ("update_one" if is_new else "find_one_and_update")


@pytest.mark.real_mongod
async def test_auto_without_the_token_index_updates_nothing_in_order(
    make_transport: MakeTransport,
) -> None:
    transport = make_transport(strategy="auto", ensure_indexes=False)
    await transport.claim("w")
    assert transport.strategy == "find_one_and_update"


async def test_server_is_asked_again_after_a_failover(
    auto: Transport, fail_command: FailCommand, connect: Callable[..., Any], db_name: str
) -> None:
    client = connect("motor", retryWrites=False)
    transport: Transport = AsyncMongoTransport(client, db_name, strategy="auto")
    await transport.claim("w")
    before = transport.strategy
    await fail_command("findAndModify", "update", errorCode=NOT_PRIMARY)
    with pytest.raises(AutoReconnect):
        await transport.claim("w")
    assert transport.strategy == "auto"
    await transport.claim("w")
    assert transport.strategy == before
