"""Publishing again what may have been published: statement 35, the caller's part."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Duplicate, Lease

Transport = AsyncMongoTransport[Any]
Claim = Callable[..., Awaitable[Lease[Any]]]


async def test_publish_with_a_message_id_can_be_repeated(transport: Transport) -> None:
    """Statement 35: the caller did not see the answer of the first."""
    first = await transport.publish("g", 1, message_id="m")
    assert await transport.publish("g", 1, message_id="m") == first
    assert (await transport.stats()).messages == 1


async def test_publishes_at_one_time_are_each_told_of_their_own_message(
    transport: Transport,
) -> None:
    """They share their commands, and none is refused for what another one repeats."""
    first = await transport.publish("g", 1, message_id="m")
    told = await asyncio.gather(
        transport.publish("g", 2),
        transport.publish("g", 1, message_id="m"),
        transport.publish("h", 3, message_id="m"),
        transport.publish("h", 4, message_id="n"),
        transport.publish("h", 4, message_id="n"),
        transport.publish("i", 5),
        return_exceptions=True,
    )
    assert told[1] == first
    assert isinstance(told[2], Duplicate)
    assert told[3] == told[4]
    assert [message.event for message in await transport.peek("g")] == [1, 2]
    assert [message.seq for message in await transport.peek("h")] == [told[3]]
    assert [message.seq for message in await transport.peek("i")] == [told[5]]


async def test_repeats_at_one_time_take_a_few_commands(
    transport: Transport, command_log: Any
) -> None:
    """As after an outage, when all publishers repeat what they do not know of."""

    async def publish_all() -> list[int]:
        ids = [f"m{number}" for number in range(50)]
        calls = [transport.publish("g", number, message_id=each) for number, each in enumerate(ids)]
        return await asyncio.gather(*calls)

    first = await publish_all()
    command_log.take()
    assert await publish_all() == first
    assert len(command_log.take()) <= 6


async def test_publish_with_a_message_id_of_another_group_is_a_duplicate(
    transport: Transport,
) -> None:
    await transport.publish("g", 1, message_id="m")
    with pytest.raises(Duplicate, match="'g'"):
        await transport.publish("h", 1, message_id="m")
    assert (await transport.stats()).messages == 1


async def test_repeated_publish_makes_a_half_done_one_whole(
    transport: Transport, database: Any, claim: Claim
) -> None:
    """Statement 35: the first died between its two writes."""
    seq = await transport.publish("g", 1, message_id="m")
    await database["fairlane_locks"].delete_many({})
    assert await transport.publish("g", 1, message_id="m") == seq
    assert (await claim()).seq == seq


async def test_repeated_publish_of_a_leased_message_changes_nothing_for_its_holder(
    transport: Transport, claim: Claim
) -> None:
    """Statement 20."""
    await transport.publish("g", 1, message_id="m")
    lease = await claim()
    await transport.publish("g", 1, message_id="m")
    assert await transport.claim("w2") is None
    assert await transport.ack(lease)
    assert await transport.claim("w2") is None


async def test_message_id_is_free_again_after_the_ack(transport: Transport, claim: Claim) -> None:
    await transport.publish("g", 1, message_id="m")
    await transport.ack(await claim())
    assert await transport.publish("h", 1, message_id="m") == 2


async def test_concurrent_publishes_with_one_message_id_store_one_message(
    transport: Transport,
) -> None:
    """Statement 35."""
    seqs = await asyncio.gather(*(transport.publish("g", 1, message_id="m") for _ in range(10)))
    assert len(set(seqs)) == 1
    assert (await transport.stats()).messages == 1
