"""Looking without touching, and emptying: stats, peek, clear and drop."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Lease, Message, TransportStats
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Claim = Callable[..., Awaitable[Lease[Any]]]
Snapshot = Callable[[], Awaitable[dict[str, Any]]]

EMPTY = TransportStats(
    groups=0,
    ready=0,
    leased=0,
    parked=0,
    stopped=0,
    messages=0,
    dead=0,
    oldest_age=None,
    ready_by_priority={},
)


async def test_stats_of_an_empty_transport(transport: Transport) -> None:
    assert await transport.stats() == EMPTY


async def test_stats_count_groups_by_what_may_happen_to_them(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    await transport.publish_many([("a", 1), ("b", 2), ("c", 3, 2), ("d", 4, 2), ("a", 5)])
    await transport.nack(await claim(), 3_600)
    await claim()
    await transport.dead_letter(await claim(min_priority=2), "why")
    clock.advance(10)
    assert await transport.stats() == TransportStats(
        groups=3,
        ready=1,
        leased=1,
        parked=1,
        stopped=0,
        messages=4,
        dead=1,
        oldest_age=10.0,
        ready_by_priority={2: 1},
    )


async def test_stats_count_an_expired_lease_as_ready(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    await transport.publish("g", 1)
    await claim(visibility=30)
    clock.advance(30)
    stats = await transport.stats()
    assert (stats.ready, stats.leased) == (1, 0)


async def test_stats_count_an_ended_delay_as_ready(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    await transport.publish("g", 1)
    await transport.nack(await claim(), 30)
    clock.advance(30)
    stats = await transport.stats()
    assert (stats.ready, stats.parked) == (1, 0)


async def test_stats_give_ready_groups_by_priority_from_the_highest(transport: Transport) -> None:
    await transport.publish_many([(f"g{n}", n, n % 3) for n in range(7)])
    stats = await transport.stats()
    assert list(stats.ready_by_priority.items()) == [(2, 2), (1, 2), (0, 3)]


async def test_oldest_age_is_that_of_the_oldest_unsettled_message(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    await transport.publish("g", 1)
    clock.advance(10)
    await transport.publish("g", 2)
    clock.advance(10)
    assert (await transport.stats()).oldest_age == 20
    await transport.ack(await claim())
    assert (await transport.stats()).oldest_age == 10


async def test_stats_change_nothing(transport: Transport, claim: Claim, snapshot: Snapshot) -> None:
    await transport.publish_many([("a", 1), ("b", 2), ("b", 3)])
    await transport.nack(await claim(), 60)
    before = await snapshot()
    await transport.stats()
    await transport.peek("a")
    assert await snapshot() == before


@pytest.fixture
async def half_cleaned(transport: Transport, claim: Claim) -> None:
    """A group with a settled message whose document is still there: the clean-up was cut off."""
    await transport.publish_many([("g", 1), ("g", 2)])
    lease = await claim()
    await transport._store.locks.update_one(
        {"_id": "g", "token": lease.token},
        {"$set": {"token": None, "available_at": 0.0, "attempts": 0, "done": [lease.seq]}},
    )


@pytest.mark.usefixtures("half_cleaned")
async def test_settled_message_is_neither_counted_nor_shown(transport: Transport) -> None:
    assert (await transport.stats()).messages == 1
    assert [message.event for message in await transport.peek("g")] == [2]


@pytest.mark.usefixtures("half_cleaned")
async def test_settled_message_is_never_delivered_again(
    transport: Transport, claim: Claim, snapshot: Snapshot
) -> None:
    """Statement 34."""
    lease = await claim()
    assert (lease.event, lease.attempt) == (2, 1)
    await transport.ack(lease)
    left = await snapshot()
    assert (left["fairlane_messages"], left["fairlane_locks"]) == ([], [])


async def test_peek_shows_the_first_messages_with_their_times(
    transport: Transport, clock: ManualClock
) -> None:
    await transport.publish_many([("g", "a"), ("other", "x"), ("g", "b"), ("g", "c")])
    published_at = datetime.fromtimestamp(clock(), UTC)
    assert await transport.peek("g", 2) == [
        Message(seq=1, group_id="g", event="a", published_at=published_at),
        Message(seq=3, group_id="g", event="b", published_at=published_at),
    ]


async def test_peek_shows_a_leased_head(transport: Transport, claim: Claim) -> None:
    await transport.publish_many([("g", 1), ("g", 2)])
    await claim()
    assert [message.event for message in await transport.peek("g")] == [1, 2]


async def test_peek_into_an_unknown_group_is_empty(transport: Transport) -> None:
    assert await transport.peek("nobody") == []


async def test_clear_empties_everything_and_numbers_go_on_growing(
    transport: Transport, claim: Claim
) -> None:
    await transport.publish_many([("a", 1), ("a", 2), ("b", 3)])
    await transport.dead_letter(await claim(), "why")
    await transport.clear()
    assert await transport.stats() == EMPTY
    assert await transport.publish("a", 4) > 3


async def test_lease_of_before_a_clear_settles_nothing(transport: Transport, claim: Claim) -> None:
    await transport.publish("g", 1)
    lease = await claim()
    await transport.clear()
    await transport.publish("g", 2)
    assert not await transport.ack(lease)
    assert (await claim()).event == 2


async def test_drop_leaves_no_collection(transport: Transport, snapshot: Snapshot) -> None:
    await transport.publish("g", 1)
    await transport.drop()
    assert await snapshot() == {}


async def test_drop_leaves_other_prefixes_alone(
    transport: Transport, make_transport: MakeTransport
) -> None:
    other = make_transport(prefix="other")
    await other.publish("g", 1)
    await transport.publish("g", 2)
    await transport.drop()
    assert (await other.stats()).messages == 1


async def test_transport_works_again_after_a_drop(
    transport: Transport, claim: Claim, database: Any
) -> None:
    await transport.publish("g", 1)
    await transport.drop()
    assert await transport.publish("g", 2) == 1
    assert (await claim()).event == 2
    assert "group_id_1__id_1" in await database["fairlane_messages"].index_information()
