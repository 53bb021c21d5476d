"""What ends a lease, once and by its holder only: statements 10 to 21, 37, 45 and 53."""

import dataclasses
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Lease, LeaseLost
from fairlane.testing import ManualClock
from fairlane.transport._publish import Row

Transport = AsyncMongoTransport[Any]
Claim = Callable[..., Awaitable[Lease[Any]]]
Snapshot = Callable[[], Awaitable[dict[str, Any]]]
Settle = Callable[[Transport, Lease[Any]], Awaitable[bool]]

SETTLEMENTS: dict[str, Settle] = {
    "ack": lambda transport, lease: transport.ack(lease),
    "nack": lambda transport, lease: transport.nack(lease),
    "nack_later": lambda transport, lease: transport.nack(lease, 60),
    "release": lambda transport, lease: transport.release(lease),
    "dead_letter": lambda transport, lease: transport.dead_letter(lease, "why"),
}


@pytest.fixture(params=[{}, {"partitions": 3}], ids=str)
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    options: dict[str, Any] = request.param
    return options


@pytest.fixture(params=sorted(SETTLEMENTS))
def settle(request: pytest.FixtureRequest) -> Settle:
    return SETTLEMENTS[request.param]


@pytest.fixture
async def lease(transport: Transport, claim: Claim) -> Lease[Any]:
    """The lease on the first of two messages of one group."""
    await transport.publish_many([("g", "first"), ("g", "second")])
    return await claim("w1", 30)


async def test_ack_of_the_only_message_removes_everything(
    transport: Transport, claim: Claim, snapshot: Snapshot
) -> None:
    """Statement 10: the ack itself, not the next claim."""
    await transport.publish("g", 1)
    await transport.ack(await claim())
    left = await snapshot()
    assert (left["fairlane_locks"], left["fairlane_messages"]) == ([], [])
    assert await transport.claim("w") is None


async def test_nack_makes_the_same_message_claimable_at_once(
    transport: Transport, lease: Lease[Any], claim: Claim
) -> None:
    """Statement 11."""
    await transport.nack(lease)
    assert (await claim()).seq == lease.seq


async def test_nack_with_a_delay_holds_the_whole_group_back(
    transport: Transport, lease: Lease[Any], clock: ManualClock
) -> None:
    """Statement 12: newer messages of the group wait as well."""
    await transport.nack(lease, 60)
    clock.advance(59.9)
    assert await transport.claim("w2") is None


async def test_nack_with_a_delay_brings_the_same_message_back_after_it(
    transport: Transport, lease: Lease[Any], claim: Claim, clock: ManualClock
) -> None:
    """Statement 12."""
    await transport.nack(lease, timedelta(minutes=1))
    clock.advance(60)
    assert (await claim()).seq == lease.seq


async def test_expired_lease_makes_the_same_message_claimable_by_another_worker(
    lease: Lease[Any], claim: Claim, clock: ManualClock
) -> None:
    """Statement 13."""
    clock.advance(30)
    assert (await claim("w2")).seq == lease.seq


async def test_stale_owner_settles_nothing_after_the_group_was_leased_again(
    transport: Transport,
    lease: Lease[Any],
    claim: Claim,
    clock: ManualClock,
    settle: Settle,
    snapshot: Snapshot,
) -> None:
    """Statements 14, 15 and 19."""
    clock.advance(30)
    await claim("w2")
    before = await snapshot()
    assert not await settle(transport, lease)
    assert await snapshot() == before


async def test_stale_owner_does_not_extend_after_the_group_was_leased_again(
    transport: Transport, lease: Lease[Any], claim: Claim, clock: ManualClock, snapshot: Snapshot
) -> None:
    """Statements 15 and 19."""
    clock.advance(30)
    await claim("w2")
    before = await snapshot()
    with pytest.raises(LeaseLost):
        await transport.extend(lease, 300)
    assert await snapshot() == before


async def test_new_owner_keeps_the_group_whatever_the_stale_owner_tries(
    transport: Transport, lease: Lease[Any], claim: Claim, clock: ManualClock, settle: Settle
) -> None:
    """Statements 14 and 15."""
    clock.advance(30)
    newer = await claim("w2")
    await settle(transport, lease)
    assert await transport.claim("w3") is None
    assert await transport.ack(newer)
    assert (await claim("w3")).event == "second"


@pytest.mark.parametrize(("first", "second"), list(product(sorted(SETTLEMENTS), repeat=2)))
async def test_second_settlement_of_a_lease_is_refused(
    transport: Transport, lease: Lease[Any], snapshot: Snapshot, first: str, second: str
) -> None:
    """Statements 16 and 17."""
    assert await SETTLEMENTS[first](transport, lease)
    before = await snapshot()
    assert not await SETTLEMENTS[second](transport, lease)
    assert await snapshot() == before


async def test_settled_lease_cannot_be_extended(
    transport: Transport, lease: Lease[Any], settle: Settle, snapshot: Snapshot
) -> None:
    """Statement 16."""
    await settle(transport, lease)
    before = await snapshot()
    with pytest.raises(LeaseLost):
        await transport.extend(lease)
    assert await snapshot() == before


async def test_second_settlement_does_not_touch_the_next_delivery(
    transport: Transport, lease: Lease[Any], claim: Claim, settle: Settle, snapshot: Snapshot
) -> None:
    """Statement 16: the same worker holds the same message again, under another token."""
    await transport.nack(lease)
    await claim("w1")
    before = await snapshot()
    assert not await settle(transport, lease)
    assert await snapshot() == before


async def test_ack_after_expiry_succeeds_while_nobody_leased_the_group_again(
    transport: Transport, lease: Lease[Any], clock: ManualClock, claim: Claim
) -> None:
    """Statement 18."""
    clock.advance(3_600)
    assert await transport.ack(lease)
    assert (await claim()).event == "second"


async def test_settlement_of_a_held_lease_says_so(
    transport: Transport, lease: Lease[Any], settle: Settle
) -> None:
    """Statement 19."""
    assert await settle(transport, lease) is True


async def test_lease_lost_names_group_seq_and_epoch(
    transport: Transport, lease: Lease[Any]
) -> None:
    """Statement 19."""
    await transport.ack(lease)
    with pytest.raises(LeaseLost, match="'g'") as raised:
        await transport.extend(lease)
    error = raised.value
    assert (error.group_id, error.seq, error.epoch) == ("g", lease.seq, lease.epoch)


async def test_ack_many_settles_each_and_says_which_were_held(transport: Transport) -> None:
    """Statement 19."""
    await transport.publish_many([("a", 1), ("b", 2), ("c", 3)])
    leases = await transport.claim_many("w", 3)
    await transport.nack(leases[1], 60)
    assert await transport.ack_many(leases) == [True, False, True]
    assert (await transport.stats()).messages == 1


async def test_publish_into_an_in_flight_group_does_not_make_it_claimable(
    transport: Transport, lease: Lease[Any]
) -> None:
    """Statement 20."""
    await transport.publish(lease.group_id, "third")
    assert await transport.claim("w2") is None


async def test_publish_into_an_in_flight_group_is_seen_after_its_ack(
    transport: Transport, claim: Claim
) -> None:
    """Statement 20: the claim saw nothing behind the head, the publish came later."""
    await transport.publish("g", 1)
    lease = await claim()
    await transport.publish("g", 2)
    await transport.ack(lease)
    assert (await claim()).event == 2


async def test_publish_into_a_parked_group_does_not_unpark_it(
    transport: Transport, lease: Lease[Any], clock: ManualClock, claim: Claim
) -> None:
    """Statement 21."""
    await transport.nack(lease, 60)
    await transport.publish(lease.group_id, "third", 4)
    assert await transport.claim("w2") is None
    clock.advance(60)
    assert (await claim()).event == "first"


async def test_extend_keeps_the_group_away_from_others(
    transport: Transport, lease: Lease[Any], clock: ManualClock, claim: Claim
) -> None:
    clock.advance(20)
    longer = await transport.extend(lease, 30)
    clock.advance(29)
    assert longer.expires_at == lease.expires_at + 20
    assert await transport.claim("w2") is None
    clock.advance(1)
    assert (await claim("w2")).seq == lease.seq


async def test_extend_never_shortens_a_lease(
    transport: Transport, lease: Lease[Any], clock: ManualClock
) -> None:
    """A heartbeat that arrives late must not take back a later one."""
    kept = await transport.extend(lease, 5)
    assert kept.expires_at == lease.expires_at
    clock.advance(5)
    assert await transport.claim("w2") is None


async def test_extend_after_expiry_succeeds_while_nobody_leased_the_group_again(
    transport: Transport, lease: Lease[Any], clock: ManualClock
) -> None:
    clock.advance(3_600)
    await transport.extend(lease, 30)
    assert await transport.claim("w2") is None


async def test_lease_of_before_an_extend_still_settles(
    transport: Transport, lease: Lease[Any], clock: ManualClock
) -> None:
    """A heartbeat whose reply was lost must not lock the holder out."""
    clock.advance(20)
    await transport.extend(lease, 30)
    assert await transport.ack(lease)


async def test_release_gives_the_group_back_without_counting_the_attempt(
    transport: Transport, lease: Lease[Any], claim: Claim
) -> None:
    await transport.release(lease)
    again = await claim("w2")
    assert (again.seq, again.attempt) == (lease.seq, 1)


async def test_redelivered_message_has_the_same_seq_and_a_higher_attempt(
    transport: Transport, lease: Lease[Any], claim: Claim
) -> None:
    """Statement 37."""
    await transport.nack(lease)
    again = await claim("w2")
    assert (again.seq, again.event, again.attempt) == (lease.seq, lease.event, 2)


async def test_expired_lease_counts_as_an_attempt(
    lease: Lease[Any], claim: Claim, clock: ManualClock
) -> None:
    """Statement 53: the worker died, and nobody was there to count."""
    attempts = [lease.attempt]
    for _ in range(3):
        clock.advance(30)
        attempts.append((await claim()).attempt)
    assert attempts == [1, 2, 3, 4]


async def test_next_message_starts_with_its_first_attempt(
    transport: Transport, lease: Lease[Any], claim: Claim, clock: ManualClock
) -> None:
    """Statement 53."""
    clock.advance(30)
    await transport.ack(await claim())
    assert (await claim()).attempt == 1


async def test_late_publish_that_becomes_the_head_does_not_inherit_attempts(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    """Statement 53: its number was reserved before, its message was stored after the nack."""
    late = await transport._store.reserve(1)
    await transport.publish("g", "first")
    await transport.nack(await claim())
    draft = transport._publisher.draft("g", "late")
    await transport._store.driver.write_in_order(
        [
            transport._publisher._insert(Row(draft, late), clock()),
            *transport._publisher._ready([Row(draft, late)], clock()),
        ]
    )
    lease = await claim()
    assert (lease.event, lease.attempt) == ("late", 1)
    await transport.ack(lease)
    assert (await claim()).event == "first"


async def test_lease_tells_all_about_its_message(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    """Statement 45."""
    seq = await transport.publish("g", {"a": 1}, 3)
    lease = await claim("worker-7", 45)
    assert (lease.seq, lease.group_id, lease.event) == (seq, "g", {"a": 1})
    assert (lease.priority, lease.attempt) == (3, 1)
    assert lease.expires_at == clock() + 45
    assert lease.token.startswith("worker-7:")
    assert [message.event for message in lease.messages] == [{"a": 1}]


async def test_lease_is_immutable(lease: Lease[Any]) -> None:
    """Statement 45."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        lease.event = "other"  # type: ignore[misc]


async def test_tokens_are_never_used_twice(transport: Transport, claim: Claim) -> None:
    """Statement 45."""
    await transport.publish("g", 1)
    tokens = set()
    for _ in range(5):
        lease = await claim()
        tokens.add(lease.token)
        await transport.nack(lease)
    assert len(tokens) == 5


async def test_epoch_grows_with_every_lease_of_a_life(
    transport: Transport, lease: Lease[Any], claim: Claim, clock: ManualClock
) -> None:
    """Statement 45: after a nack, a release, an expiry and an ack."""
    epochs = [lease.epoch]
    for leave in (transport.nack, transport.release, transport.ack):
        await leave(lease)
        lease = await claim()
        epochs.append(lease.epoch)
        clock.advance(30)
        lease = await claim()
        epochs.append(lease.epoch)
    assert epochs == sorted(set(epochs))


async def test_epoch_grows_over_the_lives_of_a_group(transport: Transport, claim: Claim) -> None:
    """Statement 45."""
    epochs = []
    for life in range(3):
        await transport.publish("g", life)
        for _ in range(2):
            lease = await claim()
            epochs.append(lease.epoch)
            await transport.nack(lease)
        await transport.ack(await claim())
    assert epochs == sorted(set(epochs))


async def test_epoch_grows_over_a_clear(transport: Transport, claim: Claim) -> None:
    """Statement 45."""
    await transport.publish("g", 1)
    before = (await claim()).epoch
    await transport.clear()
    await transport.publish("g", 2)
    assert (await claim()).epoch > before


async def test_release_with_a_delay_parks_the_group_and_counts_nothing(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    await transport.publish("g", 1)
    assert await transport.release(await claim(), delay=10)
    assert await transport.claim("w2") is None
    clock.advance(10)
    assert (await claim()).attempt == 1
