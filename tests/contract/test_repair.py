"""What repair makes whole, and what it leaves alone: statements 50 and 55."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Lease, RepairReport
from fairlane.testing import ManualClock
from fairlane.transport._publish import Row

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Claim = Callable[..., Awaitable[Lease[Any]]]
Snapshot = Callable[[], Awaitable[dict[str, Any]]]
Leave = Callable[..., Awaitable[int]]

GRACE = 5.0
LATE = 60.0
NOTHING = RepairReport(examined=0, repaired=0, adopted=0, finished=0)


@pytest.fixture
def leave_half_published(transport: Transport, clock: ManualClock) -> Leave:
    """Return what does the first half of a publish: the message is stored, its lock is not."""

    async def publish(group_id: str = "g", event: Any = 1, priority: int = 0) -> int:
        store = transport._store
        seq = await transport._store.reserve(1)
        draft = transport._publisher.draft(group_id, event, priority)
        insert = transport._publisher._insert(Row(draft, seq), clock())
        await store.driver.write_in_order([insert])
        return seq

    return publish


async def test_repair_of_an_empty_transport_does_nothing(transport: Transport) -> None:
    assert await transport.repair() == NOTHING


@pytest.mark.parametrize("full", [False, True])
async def test_repair_makes_a_message_without_a_lock_claimable(
    transport: Transport,
    leave_half_published: Leave,
    claim: Claim,
    clock: ManualClock,
    full: bool,
) -> None:
    """Statement 55."""
    seq = await leave_half_published("g", "left behind", 3)
    assert await transport.claim("w") is None
    clock.advance(GRACE)
    report = await transport.repair(full=full)
    assert (report.examined, report.repaired) == (1, 1)
    lease = await claim()
    assert (lease.seq, lease.event, lease.priority) == (seq, "left behind", 3)
    assert await transport.ack(lease)


async def test_mending_makes_a_message_without_a_lock_claimable(
    transport: Transport, leave_half_published: Leave, claim: Claim, clock: ManualClock
) -> None:
    """Statement 55: what a pool does most of the time."""
    await transport.repair()
    seq = await leave_half_published("g", "left behind", 3)
    clock.advance(GRACE)
    assert await transport.mend() == 1
    lease = await claim()
    assert (lease.seq, lease.event, lease.priority) == (seq, "left behind", 3)


async def test_mending_sees_what_is_stored_late_as_a_repair_does(
    transport: Transport, clock: ManualClock
) -> None:
    """Statement 55."""
    late = await transport._store.reserve(1)
    await transport.publish("other", 1)
    clock.advance(LATE - 1)
    await transport.mend()
    draft = transport._publisher.draft("g", "late")
    insert = transport._publisher._insert(Row(draft, late), clock())
    await transport._store.driver.write_in_order([insert])
    clock.advance(GRACE)
    assert await transport.mend() == 1


async def test_mending_takes_one_read_where_there_is_nothing_to_do(
    transport: Transport, clock: ManualClock, command_log: Any
) -> None:
    """An idle pool does it every ten seconds."""
    await transport.publish("g", 1)
    clock.advance(LATE)
    await transport.mend()
    command_log.take()
    await transport.mend()
    assert command_log.take() == ["find"]


async def test_repair_finds_what_mending_has_passed_over_since_the_collections_were_dropped(
    make_transport: MakeTransport, leave_half_published: Leave, clock: ManualClock
) -> None:
    """The numbers begin anew; another program knows nothing of that."""
    other = make_transport()
    for number in range(3):
        await other.publish("g", number)
    clock.advance(LATE)
    await other.mend()
    await make_transport().drop()
    await leave_half_published()
    clock.advance(GRACE)
    assert await other.mend() == 0
    assert (await other.repair()).repaired == 1


@pytest.mark.parametrize("full", [False, True])
async def test_repair_leaves_a_publish_in_progress_alone(
    transport: Transport,
    leave_half_published: Leave,
    clock: ManualClock,
    snapshot: Snapshot,
    full: bool,
) -> None:
    """Statement 55."""
    await leave_half_published()
    clock.advance(GRACE - 0.1)
    assert (await transport.repair(full=full)).repaired == 0
    assert (await snapshot())["fairlane_locks"] == []


async def test_message_left_alone_is_repaired_once_it_is_old_enough(
    transport: Transport, leave_half_published: Leave, clock: ManualClock
) -> None:
    """Statement 55: the watermark has not passed it."""
    await leave_half_published()
    for _ in range(3):
        assert (await transport.repair()).repaired == 0
    clock.advance(GRACE)
    assert (await transport.repair()).repaired == 1


async def test_young_message_in_front_of_older_ones_is_not_passed_over(
    transport: Transport, leave_half_published: Leave, clock: ManualClock
) -> None:
    """Statement 55: numbers are reserved in another order than messages are stored."""
    late = await transport._store.reserve(1)
    await transport.publish("other", 1)
    clock.advance(LATE)
    draft = transport._publisher.draft("g", "late")
    insert = transport._publisher._insert(Row(draft, late), clock())
    await transport._store.driver.write_in_order([insert])
    assert (await transport.repair()).repaired == 0
    clock.advance(GRACE)
    assert (await transport.repair()).repaired == 1


async def test_message_that_is_stored_late_is_seen_after_a_repair_passed_its_number(
    transport: Transport, clock: ManualClock
) -> None:
    """Statement 55: so far the watermark stays behind."""
    late = await transport._store.reserve(1)
    await transport.publish("other", 1)
    clock.advance(LATE - 1)
    await transport.repair()
    draft = transport._publisher.draft("g", "late")
    insert = transport._publisher._insert(Row(draft, late), clock())
    await transport._store.driver.write_in_order([insert])
    clock.advance(GRACE)
    assert (await transport.repair()).repaired == 1


async def test_full_repair_finds_what_the_watermark_has_passed(
    transport: Transport, clock: ManualClock, claim: Claim
) -> None:
    """Statement 55."""
    stalled = await transport._store.reserve(1)
    await transport.publish("other", 1)
    clock.advance(LATE)
    await transport.repair()
    draft = transport._publisher.draft("g", "stalled")
    insert = transport._publisher._insert(Row(draft, stalled), clock())
    await transport._store.driver.write_in_order([insert])
    clock.advance(LATE)
    assert (await transport.repair()).repaired == 0
    assert (await transport.repair(full=True)).repaired == 1
    assert "stalled" in {(await claim()).event, (await claim()).event}


async def test_repair_serves_every_group_with_its_oldest_message_first(
    transport: Transport, leave_half_published: Leave, clock: ManualClock, claim: Claim
) -> None:
    """Statement 55."""
    for event in range(4):
        await leave_half_published(f"g{event % 2}", event, priority=event)
    clock.advance(GRACE)
    assert (await transport.repair()).repaired == 2
    leases = [await claim(), await claim()]
    assert {(lease.group_id, lease.event, lease.priority) for lease in leases} == {
        ("g0", 0, 0),
        ("g1", 1, 1),
    }


@pytest.mark.parametrize("full", [False, True])
async def test_repair_does_not_touch_groups_that_have_a_lock(
    transport: Transport, claim: Claim, clock: ManualClock, snapshot: Snapshot, full: bool
) -> None:
    """Statement 55: neither leased, nor parked, nor ready."""
    await transport.publish_many([(group, n) for n in range(2) for group in ("a", "b", "c")])
    await transport.nack(await claim(), 3_600)
    await claim(visibility=3_600)
    clock.advance(2 * LATE)
    before = (await snapshot())["fairlane_locks"]
    assert (await transport.repair(full=full)).repaired == 0
    assert (await snapshot())["fairlane_locks"] == before


async def test_repair_is_idempotent(
    transport: Transport, leave_half_published: Leave, clock: ManualClock, snapshot: Snapshot
) -> None:
    """Statement 55."""
    await leave_half_published()
    clock.advance(2 * LATE)
    await transport.repair()
    before = await snapshot()
    assert await transport.repair() == NOTHING
    assert await snapshot() == before


async def test_publish_that_goes_on_after_its_repair_makes_one_group(
    transport: Transport, clock: ManualClock, claim: Claim
) -> None:
    """Statement 55: the publisher stood still, and was not dead."""
    seq = await transport._store.reserve(1)
    draft = transport._publisher.draft("g", 1)
    (ready,) = transport._publisher._ready([Row(draft, seq)], clock())
    insert = transport._publisher._insert(Row(draft, seq), clock())
    await transport._store.driver.write_in_order([insert])
    clock.advance(GRACE)
    await transport.repair()
    lease = await claim()
    await transport._store.driver.write_in_order([ready])
    assert await transport.claim("w2") is None
    assert await transport.ack(lease)
    assert await transport.claim("w2") is None
    stats = await transport.stats()
    assert (stats.groups, stats.messages) == (0, 0)


async def test_repair_reads_more_than_one_page(
    transport: Transport, database: Any, clock: ManualClock
) -> None:
    """Statement 55: the unlocked message is on the third page."""
    await transport.publish("g", 0)
    await database["fairlane_messages"].insert_many(
        [
            {"_id": seq, "group_id": "g", "event": seq, "published_at": clock(), "priority": 0}
            for seq in range(2, 2_002)
        ]
        + [{"_id": 2_002, "group_id": "h", "event": 1, "published_at": clock(), "priority": 0}]
    )
    clock.advance(LATE)
    report = await transport.repair()
    assert (report.examined, report.repaired) == (2_002, 1)
    assert await transport.repair() == NOTHING


@pytest.fixture
async def originals(database: Any) -> None:
    """What the original design stores: no partition, version or attempts, here no priority."""
    await database["fairlane_messages"].insert_many(
        [
            {"_id": 1, "group_id": "ready", "event": "r1"},
            {"_id": 2, "group_id": "leased", "event": "l1"},
            {"_id": 3, "group_id": "ready", "event": "r2"},
            {"_id": 4, "group_id": "parked", "event": "p1"},
        ]
    )
    await database["fairlane_locks"].insert_many(
        [
            {"_id": "ready", "available_at": 0.0, "token": None, "priority": 2},
            {"_id": "leased", "available_at": 1_000_020.0, "token": "w:1", "priority": 0},
            {"_id": "parked", "available_at": 1_000_040.0, "token": "w:2"},
        ]
    )
    await database["fairlane_counters"].insert_one({"_id": "seq", "n": 4})


@pytest.mark.usefixtures("originals")
async def test_locks_of_the_original_design_are_adopted(transport: Transport) -> None:
    """Statement 50."""
    assert (await transport.repair()).adopted == 3
    assert (await transport.repair()).adopted == 0


@pytest.mark.usefixtures("originals")
async def test_adopted_groups_are_claimable_in_their_order(
    transport: Transport, claim: Claim
) -> None:
    """Statement 50."""
    await transport.repair()
    first = await claim(min_priority=2)
    assert (first.event, first.attempt, first.priority) == ("r1", 1, 2)
    await transport.ack(first)
    second = await claim()
    assert second.event == "r2"
    assert second.epoch > first.epoch
    await transport.ack(second)
    assert [message.event for message in await transport.peek("ready")] == []


@pytest.mark.usefixtures("originals")
async def test_adopted_lease_and_adopted_delay_run_to_their_end(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    """Statement 50: a worker of the original design may still hold the group."""
    await transport.repair()
    await transport.ack(await claim())
    await transport.ack(await claim())
    assert await transport.claim("w") is None
    clock.advance(20)
    assert (await claim()).event == "l1"
    assert await transport.claim("w") is None
    clock.advance(20)
    assert (await claim()).event == "p1"


@pytest.mark.usefixtures("originals")
async def test_numbers_go_on_after_those_of_the_original_design(transport: Transport) -> None:
    """Statement 50."""
    assert await transport.publish("new", 1) == 5


@pytest.mark.usefixtures("originals")
async def test_publish_into_a_group_before_its_adoption_keeps_the_order(
    transport: Transport, claim: Claim
) -> None:
    """Statement 50."""
    await transport.publish("ready", "r3")
    await transport.repair()
    events = []
    for _ in range(3):
        lease = await claim(min_priority=2)
        events.append(lease.event)
        await transport.ack(lease)
    assert events == ["r1", "r2", "r3"]
    assert "ready" not in [lock["_id"] for lock in (await locks(transport))]


@pytest.mark.usefixtures("originals")
async def test_message_of_the_original_design_without_a_lock_is_repaired(
    transport: Transport, database: Any, claim: Claim
) -> None:
    """Statements 50 and 55: it does not say when it was published."""
    await database["fairlane_locks"].delete_many({})
    assert (await transport.repair()).repaired == 3
    lease = await claim()
    assert lease.event == "r1"
    assert lease.messages[0].published_at is None


async def locks(transport: Transport) -> list[Any]:
    return await transport._store.locks.find({}, sort=[("_id", 1)], limit=0)


async def test_repair_finishes_a_death_that_was_only_decided(
    transport: Transport, claim: Claim, snapshot: Snapshot
) -> None:
    """A crash after the settlement: the note in the lock is carried out by whoever looks next."""
    await transport.publish_many([("g", 1), ("g", 2)])
    lease = await claim()
    await transport._store.locks.update_one(
        {"_id": "g"},
        {
            "$set": {
                "token": None,
                "available_at": 0.0,
                "attempts": 0,
                "done": [lease.seq],
                "dead": {
                    "seq": lease.seq,
                    "priority": 0,
                    "reason": "why",
                    "attempts": 1,
                    "died_at": 1.0,
                },
            }
        },
    )
    assert (await transport.repair()).finished == 1
    documents = await snapshot()
    assert [document["_id"] for document in documents["fairlane_messages"]] == [2]
    assert [document["_id"] for document in documents["fairlane_dead"]] == [1]
    assert (await transport.repair()).finished == 0
    assert (await claim()).event == 2


@pytest.mark.parametrize("full", [False, True])
async def test_repair_copes_with_a_message_whose_time_of_publish_is_null(
    transport: Transport, full: bool
) -> None:
    foreign = {"_id": 1, "group_id": "g", "event": 1, "published_at": None}
    await transport.ensure_indexes()
    await transport._store.messages.insert([foreign])
    assert (await transport.repair(full=full)).repaired == 1
    assert (await transport.stats()).oldest_age is None
