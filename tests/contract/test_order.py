"""Order within a group and the exclusivity of its lease: statements 1 to 5 and 22.

Many claimers at once are in `test_races_multi.py`.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Lease
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
Claim = Callable[..., Any]


@pytest.fixture(params=[{}, {"partitions": 3}], ids=str)
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    options: dict[str, Any] = request.param
    return options


async def drained(transport: Transport) -> list[Lease[Any]]:
    """Claim and ack until nothing is due."""
    leases = []
    while (lease := await transport.claim("w")) is not None:
        leases.append(lease)
        assert await transport.ack(lease)
    return leases


async def test_messages_of_a_group_come_out_in_publish_order(transport: Transport) -> None:
    """Statement 1."""
    for number in range(7):
        await transport.publish("g", number)
    assert [lease.event for lease in await drained(transport)] == list(range(7))


async def test_messages_of_interleaved_groups_keep_their_own_order(transport: Transport) -> None:
    """Statement 1."""
    for number in range(12):
        await transport.publish(f"g{number % 3}", number)
    leases = await drained(transport)
    for group in range(3):
        events = [lease.event for lease in leases if lease.group_id == f"g{group}"]
        assert events == list(range(group, 12, 3))


async def test_publish_many_keeps_the_order_of_its_items(transport: Transport) -> None:
    """Statement 1."""
    seqs = await transport.publish_many([("g", number) for number in range(20)])
    leases = await drained(transport)
    assert seqs == sorted(seqs)
    assert [(lease.seq, lease.event) for lease in leases] == list(zip(seqs, range(20), strict=True))


async def test_sequence_numbers_grow_over_all_groups_and_kinds_of_publish(
    transport: Transport,
) -> None:
    """Statement 1."""
    first = await transport.publish("a", 1)
    many = await transport.publish_many([("b", 2), ("a", 3)])
    last = await transport.publish("b", 4)
    assert [first, *many, last] == [1, 2, 3, 4]


async def test_claim_returns_the_oldest_message_without_removing_it(
    transport: Transport, claim: Claim
) -> None:
    await transport.publish("g", "first")
    await transport.publish("g", "second")
    lease = await claim()
    assert lease.event == "first"
    assert [message.event for message in await transport.peek("g")] == ["first", "second"]


async def test_claim_of_an_empty_transport_returns_none(transport: Transport) -> None:
    assert await transport.claim("w") is None


async def test_claim_skips_group_with_live_lease(transport: Transport, claim: Claim) -> None:
    """Statement 2."""
    await transport.publish_many([("g", 1), ("g", 2)])
    await claim("w1")
    assert await transport.claim("w1") is None
    assert await transport.claim("w2") is None


async def test_claim_skips_group_that_another_client_leased(
    connect: Callable[..., Any], db_name: str, driver: str, transport: Transport, claim: Claim
) -> None:
    """Statement 2."""
    await transport.publish("g", 1)
    await claim("w1")
    clock = ManualClock(1_000_000.0)
    elsewhere: Transport = AsyncMongoTransport(connect(driver), db_name, clock=clock)
    assert await elsewhere.claim("w2") is None


async def test_lease_holds_until_the_last_moment_of_its_visibility(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    """Statement 2."""
    await transport.publish("g", 1)
    await claim("w1", 30)
    clock.advance(29.999)
    assert await transport.claim("w2") is None


async def test_other_groups_are_claimable_while_one_is_leased(
    transport: Transport, claim: Claim
) -> None:
    """Statement 3."""
    await transport.publish_many([("a", 1), ("b", 2)])
    assert {(await claim()).group_id, (await claim()).group_id} == {"a", "b"}


async def test_claim_returns_none_when_every_group_is_leased(
    transport: Transport, claim: Claim
) -> None:
    """Statement 3."""
    await transport.publish_many([("a", 1), ("b", 2), ("a", 3), ("b", 4)])
    await claim()
    await claim()
    assert await transport.claim("w") is None


async def test_ack_makes_the_next_message_claimable(transport: Transport, claim: Claim) -> None:
    """Statement 4."""
    await transport.publish_many([("g", 1), ("g", 2)])
    await transport.ack(await claim())
    assert (await claim()).event == 2


async def test_thirteen_ready_groups_are_each_served_once(
    transport: Transport, claim: Claim
) -> None:
    """Statement 5."""
    groups = {f"g{number}" for number in range(13)}
    await transport.publish_many([(group, group) for group in sorted(groups)])
    served = [(await claim()).group_id for _ in range(13)]
    assert sorted(served) == sorted(groups)
    assert await transport.claim("w") is None


@pytest.mark.parametrize("way", [{}], indirect=True, ids=["one partition"])  # turns are exact there
async def test_thirteen_groups_with_backlog_are_served_in_turns(
    transport: Transport, clock: ManualClock, claim: Claim
) -> None:
    """Statement 5."""
    groups = sorted(f"g{number}" for number in range(13))
    await transport.publish_many([(group, turn) for turn in range(3) for group in groups])
    for turn in range(3):
        served = []
        for _ in groups:
            lease = await claim()
            assert lease.event == turn
            served.append(lease.group_id)
            clock.advance(0.001)
            await transport.ack(lease)
        assert sorted(served) == groups


async def test_group_is_claimable_at_the_very_moment_it_becomes_available(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    """Statement 22: the filter is <=, and the sum is exact in floating point."""
    await transport.publish("g", 1)
    lease = await claim(visibility=30)
    clock.jump(lease.expires_at)
    assert (await claim()).seq == lease.seq


async def test_parked_group_is_claimable_at_the_very_moment_its_delay_ends(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    """Statement 22."""
    await transport.publish("g", 1)
    await transport.nack(await claim(), 12.5)
    clock.advance(12.5)
    assert (await claim()).event == 1


async def test_claim_many_leases_distinct_groups_up_to_n(transport: Transport) -> None:
    await transport.publish_many([(f"g{n % 5}", n) for n in range(10)])
    leases = await transport.claim_many("w", 3)
    rest = await transport.claim_many("w", 9)
    assert (len(leases), len(rest)) == (3, 2)
    assert len({lease.group_id for lease in (*leases, *rest)}) == 5


async def test_claim_many_honours_the_priority_floor(transport: Transport) -> None:
    await transport.publish_many([("low", 1, 0), ("high", 2, 3), ("middle", 3, 2)])
    leases = await transport.claim_many("w", 3, min_priority=2)
    assert {lease.group_id for lease in leases} == {"high", "middle"}


async def test_transports_with_different_prefixes_share_nothing(
    make_transport: Callable[..., Transport],
) -> None:
    one, other = make_transport(prefix="one"), make_transport(prefix="other")
    await one.publish("g", 1)
    assert await other.claim("w") is None
    assert (await other.stats()).messages == 0


async def test_cancelled_publish_many_leaves_no_message_that_cannot_be_claimed(
    transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statement 35: what is stored is claimable, however large the call was."""
    items = [(f"group-{number}", number) for number in range(1_500)]
    publishing = asyncio.ensure_future(transport.publish_many(items))
    write = transport._store.driver.write_until_refused

    async def cancel_and_write(writes: Any) -> Any:
        publishing.cancel()
        return await write(writes)

    monkeypatch.setattr(transport._store.driver, "write_until_refused", cancel_and_write)
    with pytest.raises(asyncio.CancelledError):
        await publishing
    stored = await transport._store.messages.count({})
    assert 0 < stored < len(items)
    assert await transport._store.locks.count({}) == stored
