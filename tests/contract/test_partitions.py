"""Groups in several partitions: all are found, in whatever partition they are (56 and 58)."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, ConfigurationError, Lease
from fairlane.schema import partition_of
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Claim = Callable[..., Awaitable[Lease[Any]]]

GRACE = 5.0
GROUPS = [f"g{number}" for number in range(40)]


@pytest.fixture
def way() -> dict[str, Any]:
    return {"partitions": 4}


async def placed(database: Any) -> dict[str, Any]:
    """Return the partition of each group."""
    locks = await database["fairlane_locks"].find().to_list(None)
    return {lock["_id"]: lock.get("partition") for lock in locks}


def right(partitions: int, groups: list[str] = GROUPS) -> dict[str, int]:
    return {group: partition_of(group, partitions) for group in groups}


async def publish_all(transport: Transport, messages: int = 1) -> None:
    await transport.publish_many([(group, n) for n in range(messages) for group in GROUPS])


async def drained(transport: Transport) -> dict[str, list[Any]]:
    """Claim and ack until nothing is due; return what each group delivered."""
    delivered: dict[str, list[Any]] = {}
    while (lease := await transport.claim("w")) is not None:
        delivered.setdefault(lease.group_id, []).append(lease.event)
        assert await transport.ack(lease)
    return delivered


async def test_every_group_is_found_in_its_order(transport: Transport, database: Any) -> None:
    """Statements 1 and 56."""
    await publish_all(transport, 3)
    assert await placed(database) == right(4)
    assert set(right(4).values()) == {0, 1, 2, 3}
    assert await drained(transport) == {group: [0, 1, 2] for group in GROUPS}


async def test_no_group_is_claimed_twice_by_two_transports(make_transport: MakeTransport) -> None:
    one, other = make_transport(), make_transport(partitions=None)
    await publish_all(one)
    claims = [transport.claim("w") for transport in (one, other) for _ in range(25)]
    leases = [lease for lease in await asyncio.gather(*claims) if lease is not None]
    assert sorted(lease.group_id for lease in leases) == sorted(GROUPS)


@pytest.mark.parametrize("partitions", [1, 2, 16])
async def test_claim_finds_the_only_due_group_wherever_it_is(
    make_transport: MakeTransport, partitions: int
) -> None:
    """Statement 56."""
    transport = make_transport(partitions=partitions)
    for group in GROUPS[:12]:
        await transport.publish(group, group)
        lease = await transport.claim("w")
        assert lease is not None
        assert lease.group_id == group
        assert await transport.ack(lease)
        assert await transport.claim("w") is None


async def test_claim_that_finds_nothing_asks_each_partition_once(
    transport: Transport, command_log: Any
) -> None:
    await transport.stats()
    command_log.take()
    assert await transport.claim("w") is None
    assert command_log.take() == ["findAndModify"] * 4


async def test_priority_floor_holds_in_every_partition(transport: Transport) -> None:
    await transport.publish_many([(group, 1, n % 5) for n, group in enumerate(GROUPS)])
    found = []
    while (lease := await transport.claim("w", min_priority=3)) is not None:
        found.append(lease.group_id)
    assert sorted(found) == sorted(group for n, group in enumerate(GROUPS) if n % 5 >= 3)


async def test_turns_between_partitions_are_shared_out(
    transport: Transport, clock: ManualClock
) -> None:
    """Round robin is exact within a partition; each partition is visited once in a round."""
    await publish_all(transport, 20)
    served: Counter[int] = Counter()
    for _ in range(80):
        lease = await transport.claim("w")
        assert lease is not None
        served[partition_of(lease.group_id, 4)] += 1
        clock.advance(0.001)
        await transport.ack(lease)
    assert served == {0: 20, 1: 20, 2: 20, 3: 20}


async def recreated(transport: Transport, database: Any, clock: ManualClock) -> None:
    await publish_all(transport)
    await drained(transport)
    assert await placed(database) == {}
    await publish_all(transport)


async def repaired(transport: Transport, database: Any, clock: ManualClock) -> None:
    await publish_all(transport)
    await database["fairlane_locks"].delete_many({})
    clock.advance(GRACE)
    await transport.repair()


async def fully_repaired(transport: Transport, database: Any, clock: ManualClock) -> None:
    await publish_all(transport)
    await database["fairlane_locks"].delete_many({})
    clock.advance(GRACE)
    await transport.repair(full=True)


async def redriven(transport: Transport, database: Any, clock: ManualClock) -> None:
    await publish_all(transport)
    while (lease := await transport.claim("w")) is not None:
        await transport.dead_letter(lease, "why")
    assert await placed(database) == {}
    await transport.redrive()


async def adopted(transport: Transport, database: Any, clock: ManualClock) -> None:
    await publish_all(transport)
    await database["fairlane_locks"].update_many({}, {"$unset": {"partition": ""}})
    await transport.repair()


async def reconciled(transport: Transport, database: Any, clock: ManualClock) -> None:
    await publish_all(transport)
    await database["fairlane_locks"].update_many({}, {"$set": {"partition": 77}})
    await transport.reconcile()


async def acked(transport: Transport, database: Any, clock: ManualClock) -> None:
    """By a program that was told a larger number since the groups were placed."""
    await publish_all(transport, 2)
    await database["fairlane_locks"].update_many({}, {"$set": {"partition": 0}})
    await transport.ack_many(await transport.claim_many("w", len(GROUPS)))


async def published_again(transport: Transport, database: Any, clock: ManualClock) -> None:
    """A publisher that died between its two writes, and repeats them."""
    for group in GROUPS:
        await transport.publish(group, 1, message_id=group)
    await database["fairlane_locks"].delete_many({})
    for group in GROUPS:
        await transport.publish(group, 1, message_id=group)


WRITERS = [
    *(recreated, repaired, fully_repaired, redriven, adopted, reconciled, acked, published_again)
]


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
async def test_whoever_writes_a_lock_puts_it_into_its_partition(
    transport: Transport, database: Any, clock: ManualClock, write: Any
) -> None:
    """Statement 56."""
    await write(transport, database, clock)
    assert await placed(database) == right(4)


async def test_first_program_fixes_the_number(make_transport: MakeTransport, database: Any) -> None:
    await make_transport(partitions=4).publish("g", 1)
    assert await database["fairlane_counters"].find_one({"_id": "settings"}) == {
        "_id": "settings",
        "partitions": 4,
    }


async def test_without_a_number_there_is_one_partition(
    make_transport: MakeTransport, database: Any
) -> None:
    await publish_all(make_transport(partitions=None))
    assert set((await placed(database)).values()) == {0}


async def test_program_that_names_no_number_uses_the_stored_one(
    make_transport: MakeTransport, database: Any
) -> None:
    await make_transport(partitions=4).ensure_indexes()
    await make_transport(partitions=4).stats()
    await publish_all(make_transport(partitions=None))
    assert await placed(database) == right(4)


@pytest.mark.parametrize("asked", [1, 8])
async def test_program_that_asks_for_another_number_is_told_both_and_what_to_do(
    make_transport: MakeTransport, database: Any, asked: int
) -> None:
    await make_transport(partitions=4).stats()
    transport = make_transport(partitions=asked)
    with pytest.raises(ConfigurationError) as raised:
        await transport.publish("g", 1)
    text = str(raised.value)
    assert "partitions=4" in text
    assert f"partitions={asked}" in text
    assert f"transport.repartition({asked})" in text
    assert await database["fairlane_messages"].count_documents({}) == 0


WRONG = [4, -1, 2.5, "2", None, [], [9], {"a": 1}, True, float("nan"), float("inf"), 2**40]


@pytest.mark.parametrize("partition", WRONG, ids=repr)
async def test_group_with_a_wrong_partition_is_claimable_after_a_reconciliation(
    transport: Transport, database: Any, claim: Claim, partition: Any
) -> None:
    """Statement 58."""
    await transport.publish("g", 1)
    await database["fairlane_locks"].update_one({}, {"$set": {"partition": partition}})
    assert await transport.claim("w") is None
    assert await transport.reconcile() == 1
    assert (await placed(database)) == {"g": partition_of("g", 4)}
    assert (await claim()).group_id == "g"
    assert await transport.reconcile() == 0


@pytest.mark.parametrize("partition", [0, 3, 2.0])
async def test_group_that_claims_find_is_left_where_it_is(
    transport: Transport, database: Any, partition: Any
) -> None:
    await transport.publish("g", 1)
    await database["fairlane_locks"].update_one({}, {"$set": {"partition": partition}})
    assert await transport.reconcile() == 0
    assert (await placed(database)) == {"g": partition}


async def test_live_lease_is_moved_when_it_has_ended(
    transport: Transport, database: Any, claim: Claim, clock: ManualClock
) -> None:
    """Statement 58."""
    await transport.publish("g", 1)
    lease = await claim(visibility=30)
    await database["fairlane_locks"].update_one({}, {"$set": {"partition": 9}})
    assert await transport.reconcile() == 0
    clock.advance(30)
    assert await transport.reconcile() == 1
    again = await claim()
    assert (again.seq, again.attempt) == (lease.seq, 2)


async def test_settlement_of_a_misplaced_lease_puts_the_group_right(
    transport: Transport, database: Any, claim: Claim
) -> None:
    await transport.publish_many([("g", 1), ("g", 2)])
    lease = await claim()
    await database["fairlane_locks"].update_one({}, {"$set": {"partition": 9}})
    assert await transport.ack(lease)
    assert (await claim()).event == 2


async def test_reconciler_moves_more_than_one_batch(transport: Transport, database: Any) -> None:
    groups = [f"many{number}" for number in range(1_001)]
    await transport.publish_many([(group, 1) for group in groups])
    await database["fairlane_locks"].update_many({}, {"$set": {"partition": -1}})
    assert await transport.reconcile() == 1_001
    assert await placed(database) == right(4, groups)


async def test_two_reconcilers_at_once_move_everything_once(
    make_transport: MakeTransport, database: Any
) -> None:
    transports = [make_transport(), make_transport()]
    await publish_all(transports[0])
    await database["fairlane_locks"].update_many({}, {"$set": {"partition": 77}})
    moved = await asyncio.gather(*(transport.reconcile() for transport in transports))
    assert sum(moved) == len(GROUPS)
    assert await placed(database) == right(4)
