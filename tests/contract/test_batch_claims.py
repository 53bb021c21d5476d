"""Many groups in one claim: which, how many, under which leases (statements 44 and 60)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from contract.batches import Open, after, groups_of, once, publish_in_turn, taken
from fairlane import AsyncMongoTransport, ConfigurationError
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Snapshot = Callable[[], Awaitable[dict[str, Any]]]

GROUPS = [f"g{number}" for number in range(12)]
FAR = 2_000_000.0


def among(*partitions: int) -> pytest.MarkDecorator:
    """Run a test with each of these numbers of partitions."""
    ways = [{"partitions": number} for number in partitions]
    return pytest.mark.parametrize("way", ways, ids=map(str, partitions))


@pytest.fixture
def way() -> dict[str, Any]:
    return {"partitions": 3}


@pytest.fixture
async def transport(open_on: Open) -> Transport:
    return await open_on()


@pytest.fixture
async def due(transport: Transport) -> list[str]:
    """Groups with a message each, due at the same time."""
    await transport.publish_many([(group, number) for number, group in enumerate(GROUPS)])
    return GROUPS


@among(1)
async def test_batch_takes_the_groups_that_have_waited_longest(
    transport: Transport, clock: ManualClock
) -> None:
    """Statement 60."""
    await publish_in_turn(transport, clock, *GROUPS)
    assert groups_of(await transport.claim_many("w", 5)) == GROUPS[:5]
    assert groups_of(await transport.claim_many("w", 20)) == GROUPS[5:]


@among(1)
async def test_batch_in_order_of_priority_takes_the_most_urgent_groups(
    transport: Transport, clock: ManualClock
) -> None:
    for group, priority in (("a", 0), ("b", 4), ("c", 2), ("d", 4), ("e", 2)):
        await publish_in_turn(transport, clock, group, priority=priority)
    leases = await transport.claim_many("w", 4, order="priority")
    assert groups_of(leases) == ["b", "d", "c", "e"]
    assert [lease.priority for lease in leases] == [4, 4, 2, 2]


async def test_batch_leaves_groups_below_its_floor_alone(transport: Transport) -> None:
    """Statement 25."""
    await transport.publish_many([(group, n, n % 5) for n, group in enumerate(GROUPS)])
    leases = await transport.claim_many("w", 20, min_priority=3)
    assert sorted(groups_of(leases)) == sorted(group for n, group in enumerate(GROUPS) if n % 5 > 2)
    assert await transport.claim_many("w", 20, min_priority=3) == []
    assert len(await transport.claim_many("w", 20)) == len(GROUPS) - len(leases)


@among(1, 3)
@pytest.mark.parametrize("n", [2, 11, 12, 13, 500])
async def test_batch_takes_as_many_distinct_groups_as_it_may(
    transport: Transport, due: list[str], n: int
) -> None:
    """Statement 60: in whichever partitions they are."""
    groups = groups_of(await transport.claim_many("w", n))
    assert len(groups) == min(n, len(due))
    assert set(groups) <= set(due)
    assert len(set(groups)) == len(groups)


async def test_batch_of_one_leases_one_group(transport: Transport, due: list[str]) -> None:
    found = [await transport.claim_many("w", 1) for _ in due]
    assert sorted(group for batch in found for group in groups_of(batch)) == sorted(due)
    assert await transport.claim_many("w", 1) == []


@pytest.mark.usefixtures("due")
async def test_leases_of_a_batch_are_those_of_claims(
    transport: Transport, clock: ManualClock
) -> None:
    leases = await transport.claim_many("w1", 20, 50)
    assert {(lease.attempt, lease.expires_at) for lease in leases} == {(1, clock() + 50)}
    assert all(lease.token.startswith("w1:") for lease in leases)
    assert {lease.group_id: lease.event for lease in leases} == {
        group: number for number, group in enumerate(GROUPS)
    }


@pytest.mark.usefixtures("due")
async def test_tokens_of_batches_are_never_reused(transport: Transport) -> None:
    tokens = []
    for _ in range(3):
        leases = await transport.claim_many("w", 20)
        tokens += [lease.token for lease in leases]
        assert all(await transport.nack_many(leases))
    assert len(set(tokens)) == len(tokens) == 3 * len(GROUPS)


@pytest.mark.usefixtures("due")
async def test_epochs_grow_with_each_batch_and_over_the_lives_of_a_group(
    transport: Transport,
) -> None:
    """Statement 45."""
    epochs: dict[str, list[int]] = {group: [] for group in GROUPS}
    for number in range(4):
        leases = await transport.claim_many("w", 20)
        for lease in leases:
            epochs[lease.group_id].append(lease.epoch)
        if number % 2:
            assert all(await transport.ack_many(leases))
            await transport.publish_many([(group, 0) for group in GROUPS])
        else:
            assert all(await transport.nack_many(leases))
    assert all(each == sorted(set(each)) and len(each) == 4 for each in epochs.values())


@pytest.mark.usefixtures("due")
async def test_groups_of_a_batch_are_nobody_elses_until_they_expire(
    transport: Transport, clock: ManualClock
) -> None:
    """Statement 2."""
    await transport.claim_many("w1", 20, 30)
    clock.advance(29.9)
    assert await transport.claim_many("w2", 20) == []
    clock.advance(0.1)
    again = await transport.claim_many("w2", 20)
    assert {lease.attempt for lease in again} == {2}
    assert sorted(groups_of(again)) == sorted(GROUPS)


BAD: dict[str, dict[str, Any]] = {
    "n": {"n": 0},
    "worker_id": {"worker_id": None},
    "visibility": {"visibility": 0},
    "min_priority": {"min_priority": 5},
    "order": {"order": "fastest"},
}


@pytest.mark.parametrize("name", BAD)
async def test_bad_argument_of_a_batch_is_named_and_changes_nothing(
    transport: Transport, due: list[str], snapshot: Snapshot, name: str
) -> None:
    before = await snapshot()
    with pytest.raises(ConfigurationError, match=name):
        await transport.claim_many(**{"worker_id": "w", "n": len(due), **BAD[name]})
    assert await snapshot() == before


# Time that passes meanwhile


@pytest.mark.usefixtures("due")
async def test_batch_that_came_too_late_is_given_back_and_leased_anew(
    transport: Transport, clock: ManualClock
) -> None:
    """Statements 44 and 61: half of the visibility is left, and the attempt is not counted.

    Half as many are leased then: all of them together may be late again.
    """

    async def stall(_: Any) -> None:
        clock.advance(15.1)

    after(transport._store.locks, "update_each", once(stall))
    leases = await transport.claim_many("w", 20, 30)
    assert len(leases) == len(GROUPS) // 2
    assert {(lease.attempt, lease.expires_at - clock()) for lease in leases} == {(1, 30.0)}


@pytest.mark.usefixtures("due")
async def test_batch_in_time_for_half_of_its_visibility_is_handed_out(
    transport: Transport, clock: ManualClock
) -> None:
    """Statement 44."""

    async def dawdle(_: Any) -> None:
        clock.advance(15)

    after(transport._store.locks, "update_each", once(dawdle))
    leases = await transport.claim_many("w", 20, 30)
    assert {lease.expires_at - clock() for lease in leases} == {15.0}


@pytest.mark.usefixtures("due")
async def test_claimer_whose_batches_always_come_too_late_gives_up_and_leases_nothing(
    transport: Transport, clock: ManualClock, database: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Statement 44."""

    async def stall(_: Any) -> None:
        clock.advance(20)

    after(transport._store.locks, "update_each", stall)
    with caplog.at_level(logging.WARNING, logger="fairlane"):
        assert await transport.claim_many("w", 20, 30) == []
    assert "longer than half of visibility=30" in caplog.text
    left = await database["fairlane_locks"].find().to_list(None)
    assert {(lock["token"], lock["attempts"]) for lock in left} == {(None, 0)}


# Other claimers


@among(1, 3)
async def test_claimer_that_loses_all_it_has_bid_for_goes_on_with_others(
    transport: Transport, due: list[str], database: Any
) -> None:
    """Statement 60: there was work, so it does not come back with nothing."""
    lost: list[str] = []

    async def take(found: list[dict[str, Any]]) -> None:
        lost.extend(row["_id"] for row in found)
        await taken(database, lost, until=FAR)

    after(transport._store.locks, "find", once(take))
    leases = await transport.claim_many("w", 3)
    assert leases
    assert set(groups_of(leases)) <= set(due) - set(lost)


@pytest.mark.usefixtures("due")
async def test_batch_is_what_others_leave_of_it(transport: Transport, database: Any) -> None:
    """Some are lost: the others are no reason to look again."""
    candidates: list[str] = []

    async def take(found: list[dict[str, Any]]) -> None:
        candidates.extend(row["_id"] for row in found)
        await taken(database, candidates[:1], until=FAR)

    after(transport._store.locks, "find", once(take))
    leases = await transport.claim_many("w", 12)
    assert len(leases) == len(GROUPS) - 1
    assert candidates[0] not in groups_of(leases)


@among(1, 3)
@pytest.mark.usefixtures("due")
async def test_batch_is_empty_only_after_a_look_into_every_partition(
    transport: Transport, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Statements 56 and 60: whatever it finds, others are quicker."""
    looks: list[set[int]] = []
    find = transport._store.locks.find

    async def look(match: dict[str, Any], **options: Any) -> Any:
        found = await find(match, **options)
        if "partition" in match:
            where = match["partition"]
            looks.append(set(where["$in"]) if isinstance(where, dict) else {where})
            await taken(database, [row["_id"] for row in found], until=FAR)
        return found

    monkeypatch.setattr(transport._store.locks, "find", look)
    assert await transport.claim_many("w", 5) == []
    partitions = set(range(transport.partitions))
    last = looks[-min(2, len(partitions)) :]
    assert set().union(*last) == partitions
    assert await database["fairlane_locks"].count_documents({"token": None}) == 0


@among(1)
async def test_group_that_begins_anew_below_the_floor_is_not_leased(
    transport: Transport, make_transport: MakeTransport
) -> None:
    """It was a candidate in its earlier life; the update judges it again."""
    await transport.publish_many([("g", 1, 4), ("h", 1, 4)])
    other = make_transport()

    async def renew(_: Any) -> None:
        lease = await other.claim("other")
        assert lease is not None
        assert lease.group_id == "g"
        assert await other.ack(lease)
        await other.publish("g", 2, 0)

    after(transport._store.locks, "find", once(renew))
    assert groups_of(await transport.claim_many("w", 2, min_priority=3)) == ["h"]


@among(1, 8)
async def test_many_claimers_of_batches_lease_every_group_once(transport: Transport) -> None:
    """Statements 7, 9 and 60: each goes on until nothing is due, so together they miss nothing."""
    groups = [f"g{number}" for number in range(200)]
    await transport.publish_many([(group, group) for group in groups])
    leases = []

    async def claim_all(name: str) -> None:
        while batch := await transport.claim_many(name, 7, 600):
            leases.extend(batch)

    await asyncio.gather(*(claim_all(f"w{number}") for number in range(16)))
    assert sorted(groups_of(leases)) == sorted(groups)
    assert {lease.attempt for lease in leases} == {1}
    assert len({lease.token for lease in leases}) == len(groups)


async def test_batch_that_is_too_slow_is_made_smaller_until_it_comes_in_time(
    transport: Transport, clock: ManualClock
) -> None:
    """A second for each head: of 16 together half of the visibility would never be left."""
    await transport.publish_many([(f"g{number}", number) for number in range(16)])
    reader: Any = transport._claimer._reader
    read = reader.read_back_all

    async def slowly(*taken: Any) -> Any:
        groups = await read(*taken)
        clock.advance(len(groups))
        return groups

    reader.read_back_all = slowly
    leases = await transport.claim_many("w", 16, visibility=10)
    assert len(leases) == 4
    assert {lease.attempt for lease in leases} == {1}


async def test_group_that_cannot_be_understood_does_not_stop_the_others(
    transport: Transport, database: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await transport.publish_many([("good", 1), ("odd", 2), ("fine", 3)])
    odd = {"$set": {"done": "what a stranger wrote"}}
    await database["fairlane_locks"].update_one({"_id": "odd"}, odd)
    leases = await transport.claim_many("w", 3)
    assert {lease.group_id for lease in leases} == {"good", "fine"}
    assert "cannot be read" in caplog.text


async def test_events_behind_the_first_one_are_not_read(transport: Transport) -> None:
    """A batch would hold three times as much as it hands out."""
    if not transport._store.driver.has_lookup:
        pytest.skip("joins nothing")
    await transport.publish_many([("g", 1), ("g", 2), ("g", 3)])
    (group,) = await transport._claimer._reader.read_back_all(1, {"_id": "g"})
    assert ["event" in message for message in group["front"]] == [False] * 3
    assert [message["event"] for message in group["first"]] == [1]
