"""The number of partitions changes while programs run: nothing waits, nothing is lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, ConfigurationError
from fairlane.lease.settings import REREAD, SWITCH
from fairlane.schema import partition_of
from fairlane.testing import ManualClock
from fairlane.transport._publish import Row

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Placed = Callable[[], Awaitable[dict[str, Any]]]

GROUPS = [f"g{number}" for number in range(24)]


@pytest.fixture
def make_program(make_transport: MakeTransport, clock: ManualClock) -> MakeTransport:
    """Return a factory of transports that stand for programs: their settings age by the clock."""

    def make(**options: Any) -> Transport:
        transport = make_transport(**options)
        transport._store._monotonic = clock
        return transport

    return make


@pytest.fixture
def placed(database: Any) -> Placed:
    async def partitions() -> dict[str, Any]:
        locks = await database["fairlane_locks"].find().to_list(None)
        return {lock["_id"]: lock["partition"] for lock in locks}

    return partitions


def right(partitions: int) -> dict[str, int]:
    return {group: partition_of(group, partitions) for group in GROUPS}


async def publish_all(transport: Transport) -> None:
    await transport.publish_many([(group, 1) for group in GROUPS])


async def claimed(transport: Transport) -> list[str]:
    """Claim until nothing is due."""
    groups = []
    while (lease := await transport.claim("w", 600)) is not None:
        groups.append(lease.group_id)
    return sorted(groups)


async def settings(database: Any) -> dict[str, Any]:
    found: dict[str, Any] = await database["fairlane_counters"].find_one({"_id": "settings"})
    return found


@pytest.mark.parametrize(("before", "after"), [(8, 2), (2, 8), (1, 5)])
async def test_new_number_is_that_of_groups_after_a_minute(
    make_program: MakeTransport, placed: Placed, clock: ManualClock, before: int, after: int
) -> None:
    transport = make_program(partitions=before)
    await transport.stats()
    await transport.repartition(after)
    await publish_all(transport)
    assert await placed() == right(before)
    await transport.clear()
    clock.advance(SWITCH)
    await publish_all(transport)
    assert await placed() == right(after)


@pytest.mark.parametrize(("before", "after"), [(8, 2), (2, 8)])
@pytest.mark.parametrize("later", [0.0, REREAD, SWITCH - 1, SWITCH, 3 * SWITCH])
async def test_program_that_runs_finds_every_group_at_any_time(
    make_program: MakeTransport, clock: ManualClock, before: int, after: int, later: float
) -> None:
    """Statement 57: its settings are of before the change, as long as it does not look again."""
    worker, publisher = make_program(partitions=before), make_program()
    await worker.stats()
    await publisher.repartition(after)
    clock.advance(later)
    await publish_all(publisher)
    assert await claimed(worker) == sorted(GROUPS)


async def test_program_that_runs_places_by_the_new_number_without_being_started_again(
    make_program: MakeTransport, placed: Placed, clock: ManualClock
) -> None:
    running, other = make_program(partitions=2), make_program()
    await running.stats()
    await other.repartition(8)
    clock.advance(SWITCH)
    await publish_all(running)
    assert await placed() == right(8)


async def test_program_that_asked_for_the_old_number_says_that_it_follows(
    make_program: MakeTransport, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    running = make_program(partitions=2)
    await running.stats()
    await make_program().repartition(8)
    clock.advance(REREAD)
    with caplog.at_level(logging.WARNING, "fairlane"):
        await running.stats()
    assert "was changed from 2 to 8" in caplog.text


async def test_program_that_starts_with_the_old_number_is_refused(
    make_program: MakeTransport,
) -> None:
    await make_program(partitions=2).stats()
    await make_program().repartition(8)
    with pytest.raises(ConfigurationError, match="partitions=8"):
        await make_program(partitions=2).stats()


async def test_program_that_was_refused_can_make_the_change_itself(
    make_program: MakeTransport, placed: Placed, clock: ManualClock
) -> None:
    await make_program(partitions=2).stats()
    transport = make_program(partitions=8)
    with pytest.raises(ConfigurationError):
        await transport.stats()
    await transport.repartition(8)
    clock.advance(SWITCH)
    await publish_all(transport)
    assert await placed() == right(8)


async def test_groups_of_partitions_that_are_no_more_are_moved_after_the_switch(
    make_program: MakeTransport, placed: Placed, clock: ManualClock
) -> None:
    transport = make_program(partitions=8)
    await publish_all(transport)
    await transport.repartition(2)
    assert await transport.reconcile() == 0
    clock.advance(SWITCH)
    moved = await transport.reconcile()
    assert moved == sum(partition >= 2 for partition in right(8).values())
    assert set((await placed()).values()) == {0, 1}
    assert await claimed(transport) == sorted(GROUPS)


async def test_claims_ask_fewer_partitions_only_when_nothing_is_left_in_the_others(
    make_program: MakeTransport, database: Any, clock: ManualClock
) -> None:
    transport = make_program(partitions=8)
    await publish_all(transport)
    held = await transport.claim_many("w", len(GROUPS), 10 * SWITCH)
    await transport.repartition(2)
    clock.advance(3 * SWITCH)
    await transport.reconcile()
    assert (await settings(database))["span"] == 8  # leases are not moved
    await transport.ack_many(held)
    await transport.reconcile()
    assert await settings(database) == {
        "_id": "settings",
        "partitions": 2,
        "former": 2,
        "switch_at": 0.0,
        "span": 2,
    }


async def test_claims_ask_all_partitions_for_a_while_after_the_switch(
    make_program: MakeTransport, database: Any, clock: ManualClock
) -> None:
    """A program may be in the middle of a publish by the old number."""
    transport = make_program(partitions=8)
    await transport.stats()
    await transport.repartition(2)
    clock.advance(2 * SWITCH - 1)
    await transport.reconcile()
    assert (await settings(database))["span"] == 8
    clock.advance(1)
    await transport.reconcile()
    assert (await settings(database))["span"] == 2


async def test_publish_that_stood_still_over_the_change_is_found_after_a_reconciliation(
    make_program: MakeTransport, clock: ManualClock
) -> None:
    """It goes on by the number of before, when nobody looks there any more."""
    stalled, other = make_program(partitions=8), make_program()
    await stalled.stats()
    group = next(group for group, partition in right(8).items() if partition == 7)
    seq = await stalled._store.reserve(1)
    draft = stalled._publisher.draft(group, 1)
    (ready,) = stalled._publisher._ready([Row(draft, seq)], clock())
    insert = stalled._publisher._insert(Row(draft, seq), clock())
    await other.repartition(2)
    for _ in range(2):
        clock.advance(2 * SWITCH)
        await other.reconcile()
    await stalled._store.driver.write_in_order([insert, ready])
    assert await other.claim("w") is None
    assert await other.reconcile() == 1
    assert await claimed(other) == [group]


async def test_repartition_to_the_number_that_there_is_changes_nothing(
    make_program: MakeTransport, database: Any
) -> None:
    transport = make_program(partitions=4)
    await transport.stats()
    await transport.repartition(4)
    assert await settings(database) == {"_id": "settings", "partitions": 4}


async def test_repartition_of_a_new_transport_takes_effect_at_once(
    make_program: MakeTransport, placed: Placed
) -> None:
    transport = make_program()
    await transport.repartition(4)
    await publish_all(transport)
    assert await placed() == right(4)


async def test_concurrent_changes_end_with_one_of_the_numbers(
    make_program: MakeTransport, database: Any, clock: ManualClock
) -> None:
    await make_program(partitions=8).stats()
    numbers = [2, 3, 4, 5]
    programs = [make_program() for _ in numbers]
    changes = [
        program.repartition(number) for program, number in zip(programs, numbers, strict=True)
    ]
    results = await asyncio.gather(*changes, return_exceptions=True)
    assert all(result is None or isinstance(result, ConfigurationError) for result in results)
    stored = await settings(database)
    assert stored["partitions"] in numbers
    assert (stored["former"], stored["span"]) == (8, 8)


@pytest.mark.parametrize("number", [0, -1, 1_025, 1.5, "4", None, True])
async def test_bad_number_is_refused_before_anything_is_written(
    make_program: MakeTransport, database: Any, number: Any
) -> None:
    with pytest.raises(ConfigurationError, match="partitions must be"):
        await make_program().repartition(number)
    assert await database.list_collection_names() == []


async def test_work_goes_on_through_a_change(
    make_program: MakeTransport, clock: ManualClock
) -> None:
    """Statement 57: publishers, workers and a reconciler whose settings are of different age."""
    programs = [make_program(partitions=3), *(make_program() for _ in range(2))]
    await programs[0].stats()
    delivered: dict[str, list[int]] = {}
    numbers = [7, 2, 5]
    for turn in range(45):
        publisher, worker, janitor = (programs[(turn + n) % 3] for n in range(3))
        if turn % 15 == 3:
            await janitor.repartition(numbers[turn // 15])
        await publisher.publish_many([(group, turn) for group in GROUPS[turn % 4 :: 4]])
        for held in await worker.claim_many("w", 5, 600):
            delivered.setdefault(held.group_id, []).append(held.event)
            assert await worker.ack(held)
        await janitor.reconcile()
        clock.advance(17.0)
    while (lease := await programs[0].claim("w", 600)) is not None:
        delivered.setdefault(lease.group_id, []).append(lease.event)
        assert await programs[0].ack(lease)
    assert delivered == {
        group: [turn for turn in range(45) if turn % 4 == number % 4]
        for number, group in enumerate(GROUPS)
    }
