"""Whose attempts are counted: a late publish with a smaller number may become the head."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Lease
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
Claim = Callable[..., Awaitable[Lease[Any]]]

VISIBILITY = 30


@pytest.fixture
async def late(transport: Transport) -> Callable[[], Awaitable[None]]:
    """Reserve the first number now; return what stores a message under it."""
    first = await transport._store.reserve(1)

    async def insert() -> None:
        message = {"_id": first, "group_id": "g", "event": "late", "published_at": 0.0}
        await transport._store.messages.insert([message])

    return insert


async def die(transport: Transport, clock: ManualClock) -> Lease[Any]:
    """Claim and never settle, until the lease has run out."""
    lease = await transport.claim("w", VISIBILITY)
    assert lease is not None
    clock.advance(VISIBILITY)
    return lease


async def test_attempts_of_a_head_grow_with_every_worker_that_dies(
    transport: Transport, clock: ManualClock
) -> None:
    await transport.publish("g", 1)
    assert [(await die(transport, clock)).attempt for _ in range(4)] == [1, 2, 3, 4]


async def test_late_head_starts_at_its_own_first_attempt(
    transport: Transport, late: Callable[[], Awaitable[None]], claim: Claim
) -> None:
    await transport.publish("g", "punctual")
    await transport.nack(await claim(), 0)
    await late()
    lease = await claim()
    assert (lease.event, lease.attempt) == ("late", 1)


async def test_attempts_of_a_late_head_grow_with_every_worker_that_dies(
    transport: Transport,
    late: Callable[[], Awaitable[None]],
    claim: Claim,
    clock: ManualClock,
) -> None:
    """Fault 35: a poison message must reach `max_attempts`, whoever was the head before it."""
    await transport.publish("g", "punctual")
    await transport.nack(await claim(), 0)
    await late()
    assert [(await die(transport, clock)).attempt for _ in range(4)] == [1, 2, 3, 4]


async def test_late_head_does_not_inherit_the_attempts_of_workers_that_died_twice(
    transport: Transport, late: Callable[[], Awaitable[None]], claim: Claim, clock: ManualClock
) -> None:
    await transport.publish("g", "punctual")
    await die(transport, clock)
    await die(transport, clock)
    await late()
    lease = await claim()
    assert (lease.event, lease.attempt) == ("late", 1)


async def test_interruptions_are_counted_and_are_no_attempts(
    transport: Transport, claim: Claim
) -> None:
    """Fault 36: five deploys during one message."""
    await transport.publish("g", 1)
    for times in range(5):
        lease = await claim()
        assert (lease.attempt, lease.interrupted) == (1, times)
        assert await transport.release(lease, interrupted=True)
    lease = await claim()
    assert (lease.attempt, lease.interrupted) == (1, 5)
    assert not await transport.release(replace(lease, token="late:1"), interrupted=True)
    assert await transport.nack(lease)
    lease = await claim()
    assert (lease.attempt, lease.interrupted) == (2, 5)


async def test_interruptions_are_told_by_the_dead_letter(
    transport: Transport, claim: Claim
) -> None:
    await transport.publish("g", 1)
    await transport.release(await claim(), interrupted=True)
    await transport.dead_letter(await claim(), "why")
    (letter,) = [each async for each in transport.dead_letters()]
    assert (letter.attempts, letter.interrupted) == (1, 1)


async def test_release_without_a_word_is_no_interruption(
    transport: Transport, claim: Claim
) -> None:
    await transport.publish("g", 1)
    await transport.release(await claim())
    assert (await claim()).interrupted == 0


@pytest.mark.parametrize("settle", ["ack", "dead_letter"])
async def test_interruptions_are_of_the_head_alone(
    transport: Transport, claim: Claim, settle: str
) -> None:
    await transport.publish_many([("g", 1), ("g", 2)])
    await transport.release(await claim(), interrupted=True)
    await getattr(transport, settle)(await claim(), *(["why"] if settle == "dead_letter" else []))
    lease = await claim()
    assert (lease.event, lease.interrupted) == (2, 0)


async def test_late_head_does_not_inherit_interruptions(
    transport: Transport, late: Callable[[], Awaitable[None]], claim: Claim
) -> None:
    """Though there is one attempt only, like that of any message."""
    await transport.publish("g", "punctual")
    await transport.release(await claim(), interrupted=True)
    await late()
    lease = await claim()
    assert (lease.event, lease.attempt, lease.interrupted) == ("late", 1, 0)


@pytest.mark.parametrize(
    ("interrupted", "left"), [(0, ("a", 1)), (1, ("b", 1)), (2, ("c", 1))], ids=str
)
async def test_interruption_of_a_batch_is_of_the_message_at_work(
    transport: Transport, claim: Claim, interrupted: int, left: tuple[str, int]
) -> None:
    await transport.publish_many([("g", event) for event in "abc"])
    lease = await claim(batch=3)
    await transport.release(lease, done=interrupted, interrupted=True)
    lease = await claim()
    assert (lease.event, lease.interrupted) == left


@pytest.mark.parametrize("settle", ["nack", "release"])
async def test_interruptions_end_with_a_settlement_of_a_part(
    transport: Transport, claim: Claim, settle: str
) -> None:
    await transport.publish_many([("g", event) for event in "ab"])
    await transport.release(await claim(), interrupted=True)
    await getattr(transport, settle)(await claim(batch=2), done=1)
    lease = await claim()
    assert (lease.event, lease.interrupted) == ("b", 0)


async def test_punctual_message_starts_anew_after_a_late_head(
    transport: Transport, late: Callable[[], Awaitable[None]], claim: Claim
) -> None:
    await transport.publish("g", "punctual")
    await transport.nack(await claim(), 0)
    await late()
    await transport.ack(await claim())
    lease = await claim()
    assert (lease.event, lease.attempt) == ("punctual", 1)
