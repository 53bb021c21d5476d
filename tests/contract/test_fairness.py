"""Which group is next: statements 23 to 27, 30 and 46."""

import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Lease
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Claim = Callable[..., Awaitable[Lease[Any]]]


async def test_acked_group_yields_to_one_that_was_published_earlier(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    """Statement 23."""
    await transport.publish_many([("a", 1), ("a", 2), ("b", 3)])
    lease = await claim()
    clock.advance(1)
    await transport.ack(lease)
    assert {lease.group_id, (await claim()).group_id} == {"a", "b"}


async def test_acked_group_yields_to_one_published_after_the_ack_at_the_same_moment(
    transport: Transport, claim: Claim
) -> None:
    """Statement 24."""
    await transport.publish_many([("a", 1), ("a", 2)])
    await transport.ack(await claim())
    await transport.publish("b", 3)
    assert (await claim()).group_id == "b"


async def test_acked_group_yields_to_one_published_within_the_credit(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    """Statement 24."""
    await transport.publish_many([("a", 1), ("a", 2)])
    await transport.ack(await claim())
    clock.advance(59)
    await transport.publish("b", 3)
    assert (await claim()).group_id == "b"


async def test_groups_are_served_round_robin(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    """Statement 23."""
    await transport.publish_many([(group, turn) for turn in range(3) for group in "abc"])
    served = []
    for _ in range(9):
        lease = await claim()
        served.append(lease.group_id)
        clock.advance(0.01)
        await transport.ack(lease)
    assert [sorted(served[turn : turn + 3]) for turn in (0, 3, 6)] == [["a", "b", "c"]] * 3


async def test_claim_never_returns_a_group_below_the_floor(
    transport: Transport, claim: Claim
) -> None:
    """Statement 25."""
    await transport.publish_many([(f"g{priority}", priority, priority) for priority in range(5)])
    for floor in (4, 3, 2, 1, 0):
        assert (await claim(min_priority=floor)).priority == floor


async def test_claim_with_a_floor_returns_none_if_only_lower_groups_exist(
    transport: Transport, claim: Claim
) -> None:
    """Statement 25."""
    await transport.publish("low", 1, 1)
    assert await transport.claim("w", min_priority=2) is None
    assert (await claim()).group_id == "low"


async def test_claim_serves_priorities_alike_unless_asked(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    """Statement 25: "fair" is round robin, over all priorities."""
    await transport.publish("low", 1, 0)
    clock.advance(1)
    await transport.publish("high", 2, 4)
    assert (await claim()).group_id == "low"


async def test_claim_by_priority_serves_the_highest_first(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    for group, priority in (("low", 0), ("high", 4), ("middle", 2), ("high too", 4)):
        await transport.publish(group, None, priority)
        clock.advance(1)
    served = [(await claim(order="priority")).group_id for _ in range(4)]
    assert served == ["high", "high too", "middle", "low"]


async def test_first_publish_fixes_the_priority_of_a_group(
    transport: Transport, claim: Claim
) -> None:
    """Statement 26."""
    await transport.publish("g", 1, 1)
    await transport.publish("g", 2, 4)
    assert await transport.claim("w", min_priority=2) is None
    await transport.ack(await claim())
    assert (await claim()).priority == 1


async def test_drained_group_takes_the_priority_of_its_next_publish(
    transport: Transport, claim: Claim
) -> None:
    """Statement 26."""
    await transport.publish("g", 1, 1)
    await transport.ack(await claim())
    await transport.publish("g", 2, 4)
    assert (await claim(min_priority=4)).priority == 4


async def test_publish_many_fixes_the_priority_by_the_first_item_of_a_group(
    transport: Transport, claim: Claim
) -> None:
    """Statement 26."""
    await transport.publish_many([("g", 1, 2), ("g", 2, 4), ("h", 3, 3)])
    assert sorted([(await claim()).priority, (await claim()).priority]) == [2, 3]


async def test_high_priority_group_behind_many_low_ones_is_found_at_once(
    transport: Transport, claim: Claim
) -> None:
    """Statement 27."""
    await transport.publish_many([(f"low{number}", number, 0) for number in range(96)])
    await transport.publish("high", "now", 2)
    assert (await claim(min_priority=1)).event == "now"


async def waits_of_old_group(
    transport: Transport, clock: ManualClock, claims: int
) -> tuple[int, float]:
    """Publish one new group before each claim, one second apart.

    Return how often the group with the backlog was served, and its longest wait in seconds.
    One claim a second serves one new group a second and nothing more, so every turn of the old
    group leaves one more new group waiting: by that second the next wait is longer.
    """
    await transport.publish_many([("old", number) for number in range(50)])
    served, since, longest = 0, clock(), 0.0
    for number in range(claims):
        await transport.publish(f"new{number}", number)
        lease = await transport.claim("w")
        assert lease is not None
        if lease.group_id == "old":
            served += 1
            longest = max(longest, clock() - since)
            since = clock()
        clock.advance(1)
        await transport.ack(lease)
    return served, max(longest, clock() - since)


async def test_backlog_is_not_starved_by_a_steady_flow_of_new_groups(
    transport: Transport, clock: ManualClock
) -> None:
    """Statement 30."""
    served, longest = await waits_of_old_group(transport, clock, 400)
    assert served >= 6
    assert longest <= 60 + served + 1


async def test_shorter_credit_serves_the_backlog_sooner(
    make_transport: MakeTransport, clock: ManualClock
) -> None:
    """Statement 30."""
    transport = make_transport(new_group_credit=5)
    served, longest = await waits_of_old_group(transport, clock, 60)
    assert served >= 6
    assert longest <= 5 + served + 1


async def test_infinite_credit_always_serves_new_groups_first(
    make_transport: MakeTransport, clock: ManualClock
) -> None:
    """Statement 30: as in the original design."""
    transport = make_transport(new_group_credit=math.inf)
    await transport.publish("old", 0)
    await transport.ack(await transport.claim("w"))  # type: ignore[arg-type]
    clock.advance(3_600)
    await transport.publish_many([("old", 1), ("old", 2)])
    await transport.ack(await transport.claim("w"))  # type: ignore[arg-type]
    for number in range(20):
        clock.advance(3_600)
        await transport.publish(f"new{number}", number)
        lease = await transport.claim("w")
        assert lease is not None
        assert lease.group_id != "old"
        await transport.ack(lease)


async def test_infinite_credit_stores_what_the_original_design_does(
    make_transport: MakeTransport, database: Any
) -> None:
    """Statement 30."""
    await make_transport(new_group_credit=math.inf).publish("g", 1)
    (lock,) = await database["fairlane_locks"].find().to_list(None)
    assert lock["available_at"] == 0.0


async def test_credit_does_not_reach_back_before_the_epoch(
    make_transport: MakeTransport, database: Any
) -> None:
    await make_transport(clock=ManualClock(5.0)).publish("g", 1)
    (lock,) = await database["fairlane_locks"].find().to_list(None)
    assert lock["available_at"] == 0.0


@pytest.mark.parametrize("tick", [0.0, 0.001], ids=["clock stands", "clock moves"])
async def test_head_that_always_fails_does_not_keep_new_groups_waiting(
    transport: Transport, clock: ManualClock, tick: float
) -> None:
    """Statement 46."""
    await transport.publish_many([("bad", 0), *((f"good{n}", n) for n in range(4))])
    served = []
    for _ in range(6):
        lease = await transport.claim("w")
        assert lease is not None
        served.append(lease.group_id)
        clock.advance(tick)
        await (transport.nack if lease.group_id == "bad" else transport.ack)(lease)
    assert {f"good{n}" for n in range(4)} <= set(served[:5])


async def test_head_that_always_fails_leaves_the_others_their_turns(
    transport: Transport, clock: ManualClock
) -> None:
    """Statement 46: groups with a backlog, which queue up again after every ack."""
    groups = ["bad", "a", "b", "c", "d"]
    await transport.publish_many([(group, turn) for turn in range(8) for group in groups])
    served = []
    for _ in range(40):
        lease = await transport.claim("w")
        assert lease is not None
        served.append(lease.group_id)
        clock.advance(0.001)
        await (transport.nack if lease.group_id == "bad" else transport.ack)(lease)
    for start in range(35):
        assert set(groups) == set(served[start : start + 5])


async def test_worker_that_always_dies_leaves_the_others_their_turns(
    transport: Transport, clock: ManualClock
) -> None:
    """Statement 46: an expired lease queues up by the end of its visibility."""
    await transport.publish_many([(group, turn) for turn in range(6) for group in ("bad", "good")])
    served = []
    for _ in range(12):
        lease = await transport.claim("w", 30)
        assert lease is not None
        served.append(lease.group_id)
        clock.advance(31)
        if lease.group_id != "bad":
            await transport.ack(lease)
    assert served.count("good") == 6
