"""The simple life cycle on mongomock-motor, for those who use it in unit tests of their own.

It cannot judge a race (its calls never yield), so there is none here. It stores no UUIDs.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from mongomock_motor import AsyncMongoMockClient

from fairlane import AsyncMongoTransport, ConfigurationError, Duplicate, Lease, LeaseLost
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
Claim = Callable[..., Awaitable[Lease[Any]]]

# mongomock still calls datetime.utcnow().
pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utc:DeprecationWarning")


@pytest.fixture
def transport(clock: ManualClock) -> Transport:
    return AsyncMongoTransport(AsyncMongoMockClient(), clock=clock)


async def test_publish_claim_ack(transport: Transport, claim: Claim) -> None:
    seq = await transport.publish("g", {"a": [1, "x", None]}, 2)
    lease = await claim()
    assert (lease.seq, lease.event, lease.priority) == (seq, {"a": [1, "x", None]}, 2)
    assert await transport.ack(lease)
    assert not await transport.ack(lease)
    assert await transport.claim("w") is None
    stats = await transport.stats()
    assert (stats.groups, stats.messages) == (0, 0)


async def test_groups_of_all_partitions_are_found_and_put_right(clock: ManualClock) -> None:
    client: Any = AsyncMongoMockClient()
    transport: Transport = AsyncMongoTransport(client, clock=clock, partitions=4)
    await transport.publish_many([(f"g{n}", n) for n in range(12)])
    locks = client["fairlane"]["fairlane_locks"]
    await locks.update_many({"_id": {"$in": ["g1", "g2"]}}, {"$set": {"partition": 9}})
    await locks.update_one({"_id": "g3"}, {"$unset": {"partition": "", "version": ""}})
    assert (await transport.repair()).adopted == 1
    assert await transport.reconcile() == 2
    assert len(await transport.claim_many("w", 20)) == 12


async def test_order_within_a_group(transport: Transport, claim: Claim) -> None:
    await transport.publish_many([("g", 1), ("h", 2), ("g", 3)])
    events: dict[str, list[Any]] = {"g": [], "h": []}
    for _ in range(3):
        lease = await claim()
        events[lease.group_id].append(lease.event)
        await transport.ack(lease)
    assert events == {"g": [1, 3], "h": [2]}


async def test_exclusivity_and_expiry(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    await transport.publish("g", 1)
    stale = await claim("w1", 30)
    assert await transport.claim("w2") is None
    clock.advance(30)
    fresh = await claim("w2")
    assert (fresh.seq, fresh.attempt) == (stale.seq, 2)
    assert fresh.epoch > stale.epoch
    assert not await transport.ack(stale)
    assert await transport.ack(fresh)


async def test_nack_release_extend(transport: Transport, claim: Claim, clock: ManualClock) -> None:
    await transport.publish("g", 1)
    await transport.release(await claim())
    await transport.nack(await claim(), 10, error="why")
    assert await transport.claim("w") is None
    clock.advance(10)
    lease = await claim()
    assert lease.attempt == 2
    longer = await transport.extend(lease, 60)
    assert longer.expires_at == clock() + 60
    await transport.ack(lease)
    with pytest.raises(LeaseLost):
        await transport.extend(longer)


async def test_dead_letters_and_redrive(transport: Transport, claim: Claim) -> None:
    await transport.publish("g", {"u": b"x"})
    assert await transport.dead_letter(await claim(), "why")
    (letter,) = [each async for each in transport.dead_letters()]
    assert (letter.event, letter.reason) == ({"u": b"x"}, "why")
    assert await transport.redrive() == 1
    assert (await claim()).event == {"u": b"x"}


async def test_priorities(transport: Transport, claim: Claim) -> None:
    await transport.publish_many([("low", 1, 0), ("high", 2, 4)])
    assert (await claim(min_priority=1)).group_id == "high"
    assert await transport.claim("w", min_priority=1) is None


@pytest.mark.parametrize(
    "event",
    [
        None,
        "text",
        b"bytes",
        datetime(2026, 11, 30, tzinfo=UTC),
        {"nested": [{"a": 1.5}]},
        {"$set": 1, "a.b": "$$NOW"},
    ],
    ids=repr,
)
async def test_events(transport: Transport, claim: Claim, event: Any) -> None:
    await transport.publish("g", event)
    assert (await claim()).event == event


async def test_message_id(transport: Transport) -> None:
    seq = await transport.publish("g", 1, message_id="m")
    assert await transport.publish("g", 1, message_id="m") == seq
    with pytest.raises(Duplicate):
        await transport.publish("h", 1, message_id="m")


async def test_peek_stats_repair_clear_drop(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    await transport.publish_many([("a", 1), ("a", 2), ("b", 3)])
    await transport.nack(await claim(), 60)
    stats = await transport.stats()
    assert (stats.ready, stats.parked, stats.messages) == (1, 1, 3)
    assert [message.event for message in await transport.peek("a")] == [1, 2]
    clock.advance(100)
    assert (await transport.repair()).repaired == 0
    assert (await transport.repair(full=True)).repaired == 0
    await transport.clear()
    assert (await transport.stats()).groups == 0
    await transport.drop()
    assert await transport.publish("a", 1) == 1


async def test_repair_of_a_lost_lock(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    await transport.publish("g", 1)
    await transport._store.locks.delete_one({"_id": "g"})
    clock.advance(10)
    assert (await transport.repair()).repaired == 1
    assert (await claim()).event == 1


async def test_clock_of_its_own() -> None:
    """A fake has no server time; the local clock is used."""
    transport: Transport = AsyncMongoTransport(AsyncMongoMockClient())
    async with transport:
        await transport.publish("g", 1)
        assert await transport.claim("w") is not None


async def test_bad_input_writes_nothing(transport: Transport) -> None:
    with pytest.raises(ConfigurationError):
        await transport.publish({"$ne": 1}, 1)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError):
        await transport.publish("g", 1, 5)
    client = transport._store.driver.client
    assert await client["fairlane"].list_collection_names() == []
