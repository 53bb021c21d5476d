"""Several messages of a group under one lease, in order; a part of them may be settled."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, ConfigurationError, Lease
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
Claim = Callable[..., Awaitable[Lease[Any]]]
Stored = Callable[[], Awaitable[dict[str, list[Any]]]]


@pytest.fixture
async def transport(transport: Transport) -> Transport:
    """A transport with five messages in one group."""
    await transport.publish_many([("g", number) for number in range(1, 6)])
    return transport


def events(lease: Lease[Any]) -> list[Any]:
    return [message.event for message in lease.messages]


async def left(transport: Transport) -> list[Any]:
    return [message.event for message in await transport.peek("g")]


async def test_lease_has_the_oldest_messages_of_its_group_in_order(
    transport: Transport, claim: Claim
) -> None:
    lease = await claim(batch=3)
    assert events(lease) == [1, 2, 3]
    assert (lease.event, lease.seq) == (1, lease.messages[0].seq)


async def test_batch_longer_than_the_group_is_all_of_it(transport: Transport, claim: Claim) -> None:
    assert events(await claim(batch=1_000)) == [1, 2, 3, 4, 5]


async def test_lease_of_a_batch_keeps_other_claims_from_the_group(
    transport: Transport, claim: Claim
) -> None:
    await claim(batch=2)
    assert await transport.claim("w2") is None


async def test_many_groups_are_claimed_with_a_batch_each(transport: Transport) -> None:
    await transport.publish_many([("h", "a"), ("h", "b"), ("i", "c")])
    leases = await transport.claim_many("w1", 5, batch=2)
    assert {lease.group_id: events(lease) for lease in leases} == {
        "g": [1, 2],
        "h": ["a", "b"],
        "i": ["c"],
    }


async def test_ack_settles_all_messages_of_the_lease(transport: Transport, claim: Claim) -> None:
    assert await transport.ack(await claim(batch=3))
    assert await left(transport) == [4, 5]
    assert events(await claim(batch=3)) == [4, 5]


async def test_ack_of_all_messages_of_a_group_removes_the_group(
    transport: Transport, claim: Claim, snapshot: Stored
) -> None:
    await transport.ack(await claim(batch=5))
    documents = await snapshot()
    assert not documents["fairlane_messages"]
    assert not documents["fairlane_locks"]


async def test_nack_gives_all_messages_back(transport: Transport, claim: Claim) -> None:
    assert await transport.nack(await claim(batch=3))
    assert await left(transport) == [1, 2, 3, 4, 5]


async def test_message_that_comes_again_comes_alone(transport: Transport, claim: Claim) -> None:
    """So that no other message is charged when it kills its worker."""
    await transport.nack(await claim(batch=3))
    lease = await claim(batch=3)
    assert (events(lease), lease.attempt) == ([1], 2)


async def test_batches_go_on_behind_a_message_that_came_alone(
    transport: Transport, claim: Claim
) -> None:
    await transport.nack(await claim(batch=3))
    await transport.ack(await claim(batch=3))
    lease = await claim(batch=3)
    assert (events(lease), lease.attempt) == ([2, 3, 4], 1)


async def test_nack_of_a_part_settles_what_is_done_and_charges_the_next(
    transport: Transport, claim: Claim
) -> None:
    assert await transport.nack(await claim(batch=4), done=2, error="broken")
    assert await left(transport) == [3, 4, 5]
    lease = await claim(batch=4)
    assert (events(lease), lease.attempt) == ([3], 2)


async def test_messages_behind_the_one_that_failed_are_not_charged(
    transport: Transport, claim: Claim
) -> None:
    await transport.nack(await claim(batch=4), done=2)
    await transport.ack(await claim(batch=4))
    lease = await claim(batch=4)
    assert (events(lease), lease.attempt) == ([4, 5], 1)


async def test_nack_of_a_part_waits_as_long_as_it_says(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    await transport.nack(await claim(batch=4), 10, done=2)
    assert await transport.claim("w2") is None
    clock.advance(10)
    assert events(await claim()) == [3]


async def test_release_of_a_part_charges_nobody(transport: Transport, claim: Claim) -> None:
    assert await transport.release(await claim(batch=4), done=3)
    lease = await claim(batch=4)
    assert (events(lease), lease.attempt) == ([4, 5], 1)


async def test_dead_letter_of_a_part_buries_the_next_message_and_nothing_else(
    transport: Transport, claim: Claim
) -> None:
    assert await transport.dead_letter(await claim(batch=4), "poison", done=1)
    (letter,) = [letter async for letter in transport.dead_letters()]
    assert (letter.event, letter.reason, letter.attempts) == (2, "poison", 1)
    assert await left(transport) == [3, 4, 5]


async def test_dead_letter_of_a_batch_buries_its_first_message(
    transport: Transport, claim: Claim
) -> None:
    await transport.dead_letter(await claim(batch=4), "poison")
    assert await left(transport) == [2, 3, 4, 5]


async def test_last_message_of_a_group_may_be_buried_behind_others(
    transport: Transport, claim: Claim, snapshot: Stored
) -> None:
    await transport.dead_letter(await claim(batch=5), "poison", done=4)
    documents = await snapshot()
    assert [letter["_id"] for letter in documents["fairlane_dead"]]
    assert not documents["fairlane_messages"]
    assert not documents["fairlane_locks"]


Settle = Callable[[Transport, Lease[Any]], Awaitable[bool]]
SETTLEMENTS: dict[str, Settle] = {
    "ack": lambda transport, lease: transport.ack(lease),
    "nack": lambda transport, lease: transport.nack(lease, done=1),
    "release": lambda transport, lease: transport.release(lease, done=1),
    "dead_letter": lambda transport, lease: transport.dead_letter(lease, "why", done=1),
}


@pytest.mark.parametrize("settle", SETTLEMENTS.values(), ids=SETTLEMENTS)
async def test_late_settlement_of_a_part_changes_nothing(
    transport: Transport, claim: Claim, clock: ManualClock, snapshot: Stored, settle: Settle
) -> None:
    late = await claim(batch=3)
    clock.advance(60)
    await claim("w2", batch=3)
    before = await snapshot()
    assert not await settle(transport, late)
    assert await snapshot() == before


async def test_message_published_meanwhile_outlives_the_ack_of_all_others(
    transport: Transport, claim: Claim
) -> None:
    lease = await claim(batch=5)
    await transport.publish("g", 6)
    await transport.ack(lease)
    assert events(await claim(batch=5)) == [6]


async def test_message_that_was_redriven_begins_a_lease_of_its_own(
    transport: Transport, claim: Claim
) -> None:
    await transport.dead_letter(await claim(), "why")
    await transport.redrive()
    assert events(await claim(batch=9)) == [2, 3, 4, 5]


async def test_batch_ends_before_a_message_that_cannot_be_decoded(
    make_transport: Callable[..., Transport], transport: Transport
) -> None:
    class Odd:
        def encode(self, event: Any) -> Any:
            return event

        def decode(self, value: Any) -> Any:
            if value == 3:
                raise ValueError("odd")
            return value

    odd = make_transport(codec=Odd())
    first = await odd.claim("w1", batch=5)
    assert first is not None
    assert events(first) == [1, 2]
    await odd.ack(first)
    second = await odd.claim("w1", batch=5)  # the claim has buried what stood there
    assert second is None or events(second) == [4, 5]


@pytest.mark.parametrize("batch", [0, -1, 1_001, True, 1.0, "2"])
async def test_bad_batch_is_refused_by_its_name(transport: Transport, batch: Any) -> None:
    with pytest.raises(ConfigurationError, match="batch must be an int from 1 to 1000"):
        await transport.claim("w1", batch=batch)


@pytest.mark.parametrize("done", [-1, 3, True, 1.0, "1"])
@pytest.mark.parametrize("verb", ["nack", "release"])
async def test_bad_number_of_done_messages_is_refused(
    transport: Transport, claim: Claim, verb: str, done: Any
) -> None:
    """All of them done is an `ack`."""
    lease = await claim(batch=3)
    with pytest.raises(ConfigurationError, match="done must be an int from 0 to 2"):
        await getattr(transport, verb)(lease, done=done)


async def test_release_of_a_part_may_wait(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    await transport.release(await claim(batch=3), delay=10, done=2)
    assert await transport.claim("w2") is None
    clock.advance(10)
    lease = await claim()
    assert (lease.event, lease.attempt) == (3, 1)


async def test_next_batch_is_read_by_as_many_commands_as_the_first(
    transport: Transport, command_log: Any
) -> None:
    """The lock still names what the last ack has settled, and no document of it is left."""
    if not transport._store.driver.has_lookup:
        pytest.skip("joins nothing")
    await transport.publish_many([("h", number) for number in range(9)])
    command_log.take()
    first = await transport.claim_many("w1", 9, batch=3)
    commands = command_log.take()
    await transport.ack_many(first)
    command_log.take()
    assert [len(lease.messages) for lease in await transport.claim_many("w1", 9, batch=3)] == [2, 3]
    assert len(command_log.take()) == len(commands)
