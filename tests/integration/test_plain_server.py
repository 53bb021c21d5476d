"""The life of a message on the unrepaired server, one claimer at a time.

It is the other judge beside the repaired one, whose query planner is partly ours. It applies sorted
updates without atomicity, so nothing runs at the same time here.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Lease, LeaseLost
from fairlane.testing import ManualClock, local_server

Transport = AsyncMongoTransport[Any]


@pytest.fixture(scope="module")
def plain_url() -> Iterator[str]:
    if os.environ.get("FAIRLANE_TEST_URL"):
        pytest.skip("FAIRLANE_TEST_URL names the one server to test")
    with local_server(plain=True) as server:
        if not server.name.startswith("SecantusDB"):
            pytest.skip("mongod is on the PATH: there is nothing to repair")
        yield server.url


@pytest.fixture
def transport(connect: Any, driver: str, plain_url: str, db_name: str) -> Transport:
    client = connect(driver, plain_url)
    return AsyncMongoTransport(client, db_name, clock=ManualClock(1_000_000.0))


@pytest.fixture
def clock(transport: Transport) -> ManualClock:
    clock = transport._store.clock
    assert isinstance(clock, ManualClock)
    return clock


async def claimed(transport: Transport, **options: Any) -> Lease[Any]:
    lease = await transport.claim("w", **options)
    assert lease is not None
    return lease


async def test_messages_are_delivered_in_order_and_leave_nothing_behind(
    transport: Transport,
) -> None:
    await transport.publish_many([(f"g{n % 3}", n, n % 5) for n in range(12)])
    delivered: dict[str, list[int]] = {}
    while (lease := await transport.claim("w")) is not None:
        delivered.setdefault(lease.group_id, []).append(lease.event)
        assert await transport.ack(lease)
    assert delivered == {f"g{n}": list(range(n, 12, 3)) for n in range(3)}
    stats = await transport.stats()
    assert (stats.groups, stats.messages) == (0, 0)


async def test_leased_group_is_nobody_elses_until_it_expires(
    transport: Transport, clock: ManualClock
) -> None:
    await transport.publish("g", 1)
    stale = await claimed(transport, visibility=30)
    clock.advance(29)
    assert await transport.claim("w2") is None
    clock.advance(1)
    fresh = await claimed(transport)
    assert (fresh.seq, fresh.attempt) == (stale.seq, 2)
    assert not await transport.ack(stale)
    assert await transport.ack(fresh)


async def test_settled_lease_is_refused_every_other_settlement(transport: Transport) -> None:
    await transport.publish("g", 1)
    lease = await claimed(transport)
    assert await transport.nack(lease, 5)
    assert not await transport.ack(lease)
    assert not await transport.release(lease)
    assert not await transport.dead_letter(lease, "why")
    with pytest.raises(LeaseLost):
        await transport.extend(lease)


async def test_parked_group_waits_with_all_its_messages(
    transport: Transport, clock: ManualClock
) -> None:
    await transport.publish_many([("g", 1), ("g", 2)])
    await transport.nack(await claimed(transport), 10)
    assert await transport.claim("w") is None
    clock.advance(10)
    assert (await claimed(transport)).event == 1


async def test_groups_are_served_round_robin_from_the_floor_up(
    transport: Transport, clock: ManualClock
) -> None:
    await transport.publish_many([(name, 0, p) for name, p in (("a", 0), ("b", 2), ("c", 4))] * 2)
    served = []
    for _ in range(4):
        lease = await claimed(transport, min_priority=1)
        served.append(lease.group_id)
        clock.advance(1)
        await transport.ack(lease)
    assert sorted(served[:2]) == sorted(served[2:]) == ["b", "c"]
    assert await transport.claim("w", min_priority=1) is None


async def test_drained_group_begins_a_new_life_with_a_higher_epoch(transport: Transport) -> None:
    epochs = []
    for number in range(3):
        await transport.publish("g", number)
        lease = await claimed(transport)
        epochs.append(lease.epoch)
        await transport.ack(lease)
    assert epochs == sorted(set(epochs))


async def test_publish_into_an_in_flight_group_survives_its_ack(transport: Transport) -> None:
    await transport.publish("g", 1)
    lease = await claimed(transport)
    await transport.publish("g", 2)
    await transport.ack(lease)
    assert (await claimed(transport)).event == 2


async def test_dead_letter_and_redrive(transport: Transport) -> None:
    await transport.publish_many([("g", 1), ("g", 2)])
    await transport.dead_letter(await claimed(transport), "why")
    assert [letter.event async for letter in transport.dead_letters()] == [1]
    assert await transport.redrive() == 1
    assert [message.event for message in await transport.peek("g")] == [2, 1]


async def test_repair_and_statistics(transport: Transport, clock: ManualClock) -> None:
    await transport.publish_many([("a", 1, 3), ("b", 2)])
    await transport._store.locks.delete_one({"_id": "a"})
    clock.advance(10)
    assert (await transport.repair()).repaired == 1
    stats = await transport.stats()
    assert (stats.ready, stats.oldest_age) == (2, 10.0)
    assert stats.ready_by_priority == {3: 1, 0: 1}


async def test_repeated_publish_stores_one_message(transport: Transport) -> None:
    seq = await transport.publish("g", 1, message_id="m")
    assert await transport.publish("g", 1, message_id="m") == seq
    assert (await transport.stats()).messages == 1


async def test_default_clock_is_the_servers(connect: Any, driver: str, plain_url: str) -> None:
    transport: Transport = AsyncMongoTransport(connect(driver, plain_url), "default_clock")
    await transport.publish("g", 1)
    lease = await claimed(transport)
    assert await transport.ack(lease)
    await transport.drop()
