"""A group that is drained while somebody publishes into it: statements 32 and 33.

Here the publish comes at one chosen place; `../property` puts it at every driver call.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Lease
from fairlane.driver import Write
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
Claim = Callable[..., Awaitable[Lease[Any]]]


async def test_publish_between_the_head_read_and_the_ack_is_claimable_afterwards(
    transport: Transport, claim: Claim
) -> None:
    """Statement 32: the claim looked for more, and there was none."""
    await transport.publish("g", 1)
    lease = await claim()
    await transport.publish("g", 2)
    await transport.ack(lease)
    assert (await claim()).event == 2


async def test_publish_between_the_settlement_and_its_clean_up_is_claimable_afterwards(
    transport: Transport, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statement 32."""
    await transport.publish("g", 1)
    lease = await claim()
    driver = transport._store.driver
    driver.has_cross_collection_bulk = False  # with it they are one command
    tidy = driver.write_in_order

    async def publish_first(writes: Sequence[Write]) -> None:
        monkeypatch.undo()
        await transport.publish("g", 2)
        await tidy(writes)

    monkeypatch.setattr(driver, "write_in_order", publish_first)
    await transport.ack(lease)
    assert (await claim()).event == 2


async def test_publish_between_an_empty_head_read_and_the_removal_is_claimed(
    transport: Transport, claim: Claim, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statement 33."""
    await transport.publish("g", 1)
    await database["fairlane_messages"].delete_many({})
    delivery = transport._claimer._delivery
    abandon = delivery._abandon

    async def publish_first(group: dict[str, Any]) -> None:
        await transport.publish("g", 2)
        await abandon(group)

    monkeypatch.setattr(delivery, "_abandon", publish_first)
    lease = await claim()
    assert (lease.event, lease.attempt) == (2, 1)


async def test_ack_of_a_long_lease_looks_again_for_a_message_without_a_bump(
    transport: Transport, claim: Claim, database: Any, clock: ManualClock
) -> None:
    """Statement 35: its publisher died; repair saw the lock of the lease and looked away."""
    await transport.publish("g", 1)
    lease = await claim(visibility=3_600)
    await database["fairlane_messages"].insert_one({"_id": 2, "group_id": "g", "event": 2})
    clock.advance(600)
    await transport.repair()
    await transport.ack(lease)
    assert (await claim()).event == 2


async def test_empty_group_is_removed_by_the_claim_that_finds_it(
    transport: Transport, database: Any
) -> None:
    """Statement 33."""
    await transport.publish("g", 1)
    await database["fairlane_messages"].delete_many({})
    assert await transport.claim("w") is None
    assert await database["fairlane_locks"].count_documents({}) == 0
