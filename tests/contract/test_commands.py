"""What an operation costs, in commands to the server: statements 28, 54 and 55."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Lease
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
Claim = Callable[..., Awaitable[Lease[Any]]]


@pytest.fixture
def way() -> dict[str, Any]:
    """Named, as the commands of a claim are named here; on MongoDB 8.0 it would be another one."""
    return {"strategy": "find_one_and_update"}


@pytest.fixture
async def opened(transport: Transport, command_log: Any) -> Transport:
    """A transport that has learnt the server, the settings and the indexes."""
    await transport.stats()
    command_log.take()
    return transport


@pytest.fixture
def needs_bulk(opened: Transport) -> None:
    if not opened._store.driver.has_cross_collection_bulk:
        pytest.skip("the server has no bulkWrite over collections (MongoDB 8.0)")


@pytest.fixture
def without_bulk(opened: Transport) -> None:
    """Let the server pass for one before MongoDB 8.0."""
    opened._store.driver.has_cross_collection_bulk = False


@pytest.mark.usefixtures("needs_bulk")
async def test_life_of_a_message_takes_six_commands(
    opened: Transport, claim: Claim, command_log: Any
) -> None:
    """Statement 54."""
    await opened.publish("g", 1)
    assert command_log.take() == ["findAndModify", "bulkWrite"]
    lease = await claim()
    assert command_log.take() == ["findAndModify", "aggregate"]
    await opened.ack(lease)
    assert command_log.take() == ["update", "bulkWrite"]


@pytest.mark.usefixtures("without_bulk")
async def test_life_of_a_message_on_an_older_server_takes_three_commands_more(
    opened: Transport, claim: Claim, command_log: Any
) -> None:
    """Statement 54: the clean-up deletes the message, raises the epochs' floor, frees the lock."""
    await opened.publish("g", 1)
    assert command_log.take() == ["findAndModify", "insert", "update"]
    lease = await claim()
    assert command_log.take() == ["findAndModify", "aggregate"]
    await opened.ack(lease)
    assert command_log.take() == ["update", "delete", "update", "delete"]


async def test_message_with_others_behind_it_is_claimed_and_acked_by_four_commands(
    opened: Transport, claim: Claim, command_log: Any
) -> None:
    """Statement 54: there is no lock to remove."""
    await opened.publish_many([("g", number) for number in range(3)])
    await opened.ack(await claim())
    command_log.take()
    lease = await claim()
    assert command_log.take() == ["findAndModify", "find"]
    await opened.ack(lease)
    assert command_log.take() == ["update", "delete"]


@pytest.mark.parametrize("verb", ["nack", "release", "extend"])
async def test_moving_a_lease_takes_one_command(
    opened: Transport, claim: Claim, command_log: Any, verb: str
) -> None:
    """Statement 54."""
    await opened.publish("g", 1)
    lease = await claim()
    command_log.take()
    await getattr(opened, verb)(lease)
    assert command_log.take() == ["update"]


async def test_refused_settlement_takes_one_command(
    opened: Transport, claim: Claim, command_log: Any
) -> None:
    await opened.publish("g", 1)
    lease = await claim()
    await opened.ack(lease)
    command_log.take()
    await opened.ack(lease)
    await opened.dead_letter(lease, "why")
    assert command_log.take() == ["update", "update"]


async def test_claim_that_finds_nothing_takes_one_command(
    opened: Transport, command_log: Any
) -> None:
    await opened.claim("w")
    assert command_log.take() == ["findAndModify"]


@pytest.mark.usefixtures("needs_bulk")
@pytest.mark.parametrize("number", [1, 10, 500])
async def test_batch_of_publishes_takes_two_commands(
    opened: Transport, command_log: Any, number: int
) -> None:
    await opened.publish_many([(f"g{n % 7}", n) for n in range(number)])
    assert command_log.take() == ["findAndModify", "bulkWrite"]


@pytest.mark.usefixtures("without_bulk")
@pytest.mark.parametrize("number", [1, 10, 500])
async def test_batch_of_publishes_on_an_older_server_takes_three_commands(
    opened: Transport, command_log: Any, number: int
) -> None:
    await opened.publish_many([(f"g{n % 7}", n) for n in range(number)])
    assert command_log.take() == ["findAndModify", "insert", "update"]


async def test_commands_of_a_claim_do_not_grow_with_the_pending_groups(
    opened: Transport, claim: Claim, command_log: Any
) -> None:
    """Statement 28."""
    await opened.publish_many([(f"g{number}", number) for number in range(1_000)])
    command_log.take()
    for _ in range(3):
        await claim()
        assert command_log.take() == ["findAndModify", "aggregate"]


async def test_commands_of_a_claim_do_not_grow_with_groups_below_its_floor(
    opened: Transport, claim: Claim, command_log: Any
) -> None:
    """Statement 28."""
    await opened.publish_many([*((f"low{n}", n, 0) for n in range(1_000)), ("high", 1, 3)])
    command_log.take()
    await claim(min_priority=1)
    assert command_log.take() == ["findAndModify", "aggregate"]


async def test_commands_of_a_claim_do_not_grow_with_the_backlog_of_its_group(
    opened: Transport, claim: Claim, command_log: Any
) -> None:
    """Statement 28."""
    await opened.publish_many([("g", number) for number in range(1_000)])
    command_log.take()
    await claim()
    assert command_log.take() == ["findAndModify", "aggregate"]


async def test_first_call_learns_what_later_calls_know(
    transport: Transport, command_log: Any
) -> None:
    await transport.claim("w")
    learnt = command_log.take()
    await transport.claim("w")
    assert set(learnt) == {"update", "find", "createIndexes", "findAndModify"}
    assert command_log.take() == ["findAndModify"]


@pytest.mark.parametrize("messages", [0, 100])
async def test_repair_costs_nothing_for_old_messages(
    opened: Transport, clock: ManualClock, command_log: Any, messages: int
) -> None:
    """Statement 55: the second repair starts behind them."""
    await opened.publish_many([(f"g{n}", n) for n in range(messages)])
    clock.advance(3_600)
    assert (await opened.repair()).examined == messages
    command_log.take()
    assert (await opened.repair()).examined == 0
    assert len(command_log.take()) == 5
