"""What an operation costs, in commands to the server: statements 28, 54, 55 and 63."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Lease, WorkerPool
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
async def test_life_of_a_message_takes_five_commands(
    opened: Transport, claim: Claim, command_log: Any
) -> None:
    """Statement 54."""
    await opened.publish("g", 1)
    assert command_log.take() == ["findAndModify", "bulkWrite"]
    lease = await claim()
    assert command_log.take() == ["findAndModify", "aggregate"]
    await opened.ack(lease)
    assert command_log.take() == ["bulkWrite"]


@pytest.mark.usefixtures("without_bulk")
async def test_life_of_a_message_on_an_older_server_takes_four_commands_more(
    opened: Transport, claim: Claim, command_log: Any
) -> None:
    """Statement 54: the clean-up deletes the message, raises the epochs' floor, frees the lock."""
    await opened.publish("g", 1)
    assert command_log.take() == ["findAndModify", "insert", "update"]
    lease = await claim()
    assert command_log.take() == ["findAndModify", "aggregate"]
    await opened.ack(lease)
    assert command_log.take() == ["update", "delete", "update", "delete"]


@pytest.mark.usefixtures("needs_bulk")
async def test_message_with_others_behind_it_is_claimed_and_acked_by_three_commands(
    opened: Transport, claim: Claim, command_log: Any
) -> None:
    """Statement 54: there is no lock to remove."""
    await opened.publish_many([("g", number) for number in range(3)])
    await opened.ack(await claim())
    command_log.take()
    lease = await claim()
    assert command_log.take() == ["findAndModify", "find"]
    await opened.ack(lease)
    assert command_log.take() == ["bulkWrite"]


@pytest.mark.usefixtures("needs_bulk")
async def test_acks_at_one_time_take_as_many_commands_as_one(
    opened: Transport, command_log: Any
) -> None:
    """Statement 54: of all tasks of a process."""
    await opened.publish_many([(f"g{number}", number) for number in range(9)])
    leases = await opened.claim_many("w", 9)
    command_log.take()
    assert await asyncio.gather(*map(opened.ack, leases)) == [True] * 9
    assert command_log.take() == ["bulkWrite"]


@pytest.mark.usefixtures("needs_bulk")
async def test_publishes_at_one_time_take_as_many_commands_as_one(
    opened: Transport, command_log: Any
) -> None:
    """Statement 54: of all tasks of a process."""
    await asyncio.gather(*(opened.publish(f"g{number % 3}", number) for number in range(9)))
    assert command_log.take() == ["findAndModify", "bulkWrite"]


@pytest.mark.usefixtures("needs_bulk")
async def test_lives_of_messages_under_load_take_less_than_a_command_each(
    opened: Transport, command_log: Any
) -> None:
    """Statement 54: 64 tasks that publish, then a pool with as many slots."""
    handled: list[int] = []

    async def handle(lease: Lease[Any]) -> None:
        handled.append(lease.seq)
        if len(handled) == 3 * 64:
            pool.stop()

    async def publish(task: int) -> None:
        for number in range(3):
            await opened.publish(f"g{(task * 3 + number) % 100}", number)

    pool = WorkerPool(opened, handle, concurrency=64)
    await asyncio.gather(*map(publish, range(64)))
    await pool.run()
    assert len(set(handled)) == 3 * 64
    assert len(command_log.take()) <= 3 * 64 / 2


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
    assert len(command_log.take()) == 1
    await opened.dead_letter(lease, "why")
    assert command_log.take() == ["update"]


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


# Batches


MANY = 64

Make = Callable[..., Awaitable[Transport]]


@pytest.fixture
def batch_of(open_on: Make, command_log: Any) -> Make:
    """Return what opens a transport on so many partitions, with 64 due groups and no command."""

    async def filled(*, partitions: int, messages: int = 1) -> Transport:
        transport = await open_on(partitions=partitions)
        await transport.publish_many([(f"g{n % MANY}", n) for n in range(MANY * messages)])
        command_log.take()
        return transport

    return filled


@pytest.fixture
def fronts(server: str) -> list[str]:
    """What reads the fronts of 64 new groups where the server cannot read them with the locks."""
    return ["find", "find"] * MANY if server == "old" else []


@pytest.fixture
def read_back(server: str) -> str:
    return "find" if server == "old" else "aggregate"


@pytest.mark.parametrize(("partitions", "looks"), [(1, 1), (2, 2), (32, 2), (33, 2), (34, 3)])
async def test_batch_of_claims_takes_three_commands_and_one_for_each_32_partitions_more(
    batch_of: Make,
    command_log: Any,
    fronts: list[str],
    read_back: str,
    partitions: int,
    looks: int,
) -> None:
    """Statement 63: an old server reads each front alone."""
    transport = await batch_of(partitions=partitions)
    assert len(await transport.claim_many("w", MANY + 1)) == MANY
    assert command_log.take() == ["find"] * looks + ["update", read_back, *fronts]


async def test_batch_on_mongodb_4_4_reads_each_front_by_one_command(
    opened: Transport, command_log: Any
) -> None:
    """Statement 63: with the floor of a new group."""
    opened._store.driver.has_lookup = False
    if not opened._store.driver.has_union:
        pytest.skip("the server has no $unionWith (MongoDB 4.4)")
    await opened.publish_many([(f"g{n}", n) for n in range(5)])
    for front in ("aggregate", "find"):
        command_log.take()
        leases = await opened.claim_many("w", 9)
        assert command_log.take() == ["find", "update", "find", *[front] * 5]
        assert all(await opened.nack_many(leases))


async def test_batch_that_finds_enough_in_one_partition_takes_three_commands(
    batch_of: Make, command_log: Any, server: str
) -> None:
    transport = await batch_of(partitions=4)
    assert len(await transport.claim_many("w", 5)) == 5
    read = ["find", *["find", "find"] * 5] if server == "old" else ["aggregate"]
    assert command_log.take() == ["find", "update", *read]


@pytest.mark.parametrize(("partitions", "looks"), [(1, 1), (32, 2), (33, 2), (34, 3)])
async def test_batch_of_claims_that_finds_nothing_takes_a_look_into_each_partition(
    open_on: Make, command_log: Any, partitions: int, looks: int
) -> None:
    transport = await open_on(partitions=partitions)
    assert await transport.claim_many("w", MANY) == []
    assert command_log.take() == ["find"] * looks


async def test_batch_of_one_takes_the_commands_of_a_claim(
    batch_of: Make, command_log: Any, server: str
) -> None:
    transport = await batch_of(partitions=1)
    await transport.claim_many("w", 1)
    read = ["find", "find"] if server == "old" else ["aggregate"]
    assert command_log.take() == ["findAndModify", *read]


async def test_commands_of_a_batch_do_not_grow_with_what_is_due(
    batch_of: Make, command_log: Any, server: str
) -> None:
    """Statements 28 and 63."""
    if server == "old":
        pytest.skip("an old server reads each front alone")
    transport = await batch_of(partitions=1)
    await transport.publish_many([(f"more{n}", n) for n in range(1_000)])
    command_log.take()
    for n in (2, MANY, 500):
        assert len(await transport.claim_many("w", n)) == n
        assert command_log.take() == ["find", "update", "aggregate"]


async def test_locks_of_a_batch_are_put_right_by_one_command(
    batch_of: Make, clock: ManualClock, command_log: Any, server: str, read_back: str
) -> None:
    """Statement 63: a message that is delivered again is noted in the lock, the first time."""
    transport = await batch_of(partitions=1)
    await transport.claim_many("w", MANY, 30)
    for correction in (["update" if server == "old" else "bulkWrite"], []):
        clock.advance(30)
        command_log.take()
        assert len(await transport.claim_many("w", MANY, 30)) == MANY
        fronts = ["find", "find"] * MANY if server == "old" else []
        assert command_log.take() == ["find", "update", read_back, *fronts, *correction]


@pytest.mark.parametrize("partitions", [1, 32])
async def test_batch_of_acks_takes_as_many_commands_as_one_ack(
    batch_of: Make, command_log: Any, server: str, partitions: int
) -> None:
    """Statements 54 and 63: the settlement, and the clean-up."""
    transport = await batch_of(partitions=partitions)
    leases = await transport.claim_many("w", MANY)
    command_log.take()
    assert await transport.ack_many(leases) == [True] * MANY
    in_steps = ["update", "delete", "update", "delete"]
    assert command_log.take() == (in_steps if server == "old" else ["bulkWrite"])


async def test_batch_of_acks_of_groups_with_more_behind_removes_no_lock(
    batch_of: Make, command_log: Any, server: str
) -> None:
    transport = await batch_of(partitions=1, messages=2)
    leases = await transport.claim_many("w", MANY)
    command_log.take()
    assert await transport.ack_many(leases) == [True] * MANY
    assert command_log.take() == (["update", "delete"] if server == "old" else ["bulkWrite"])


async def test_batch_of_acks_of_long_leases_takes_one_command_more(
    batch_of: Make, clock: ManualClock, command_log: Any, server: str
) -> None:
    """It looks once for what publishers may have left behind all of the messages."""
    transport = await batch_of(partitions=1)
    leases = await transport.claim_many("w", MANY)
    clock.advance(6)
    command_log.take()
    assert await transport.ack_many(leases) == [True] * MANY
    sent = command_log.take()
    assert len(sent) == (5 if server == "old" else 2)
    assert sent[0] == "aggregate"


async def test_batch_of_nacks_takes_one_command(
    batch_of: Make, command_log: Any, server: str
) -> None:
    """Statements 54 and 63."""
    transport = await batch_of(partitions=1)
    leases = await transport.claim_many("w", MANY)
    command_log.take()
    assert await transport.nack_many(leases, 5) == [True] * MANY
    assert command_log.take() == ["update" if server == "old" else "bulkWrite"]


async def test_batch_of_refused_settlements_takes_one_command_or_two(
    batch_of: Make, command_log: Any, server: str
) -> None:
    transport = await batch_of(partitions=1)
    leases = await transport.claim_many("w", MANY)
    await transport.nack_many(leases, 5)
    command_log.take()
    assert await transport.ack_many(leases) == [False] * MANY
    assert len(command_log.take()) == (1 if server == "old" else 2)


async def test_batch_that_fails_is_given_back_by_one_command(
    batch_of: Make, command_log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements 61 and 63."""
    transport = await batch_of(partitions=1)

    async def fail(*_: Any) -> Any:
        command_log.take()
        raise ConnectionError

    monkeypatch.setattr(transport._claimer._reader, "read_back_all", fail)
    with pytest.raises(ConnectionError):
        await transport.claim_many("w", MANY)
    assert command_log.take() == ["update"]
