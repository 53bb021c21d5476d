"""Whose attempts are counted: a late publish with a smaller number may become the head."""

from collections.abc import Awaitable, Callable
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


async def test_punctual_message_starts_anew_after_a_late_head(
    transport: Transport, late: Callable[[], Awaitable[None]], claim: Claim
) -> None:
    await transport.publish("g", "punctual")
    await transport.nack(await claim(), 0)
    await late()
    await transport.ack(await claim())
    lease = await claim()
    assert (lease.event, lease.attempt) == ("punctual", 1)
