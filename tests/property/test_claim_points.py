"""Claim, disturbed at every driver call (statements 2, 33, 36, 44; faults 1, 7, 42)."""

from collections.abc import Awaitable, Callable

import pytest
from pymongo.errors import AutoReconnect

from property.scenes import EXPIRY, MOVES, died, expired_and_settled_by, expiry, leased
from property.script import (
    Happening,
    Point,
    Script,
    at_every_point,
    cancel,
    cancel_twice,
    crash,
    fail,
)
from property.world import Stage, World

CANCELLATIONS: dict[str, Happening] = {"once": cancel, "twice": cancel_twice}
IN_MEMORY = pytest.mark.memory_only
ENDINGS: dict[str, Happening] = {"crash": crash, "error": fail()}


async def one_message(world: World) -> None:
    await (await world.join()).publish()


async def two_messages(world: World) -> None:
    await one_message(world)
    await one_message(world)


async def settled_but_undeleted(world: World) -> None:
    """Settle the first of two messages and die before its clean-up."""
    lease = await leased(world, await world.join(), messages=2)
    await died(world, "messages.delete_one", lambda dying: dying.ack(lease))


async def noted_but_unburied(world: World) -> None:
    """Dead-letter the first of two messages and die before it is moved."""
    lease = await leased(world, await world.join(), messages=2)
    await died(world, "messages.find_one", lambda dying: dying.dead_letter(lease))


async def lock_without_messages(world: World) -> None:
    """Settle the only message and die before the lock is removed."""
    lease = await leased(world, await world.join(), messages=1)
    await died(world, "locks.delete_one", lambda dying: dying.ack(lease))


async def empty_group_first(world: World) -> None:
    await lock_without_messages(world)
    world.clock.advance(1.0)
    await (await world.join()).publish("h")


GROUPS: dict[str, Callable[[World], Awaitable[None]]] = {
    "one-message": one_message,
    "two-messages": two_messages,
    "settled-but-undeleted": settled_but_undeleted,
    "noted-but-unburied": noted_but_unburied,
    "lock-without-messages": lock_without_messages,
    "empty-group-first": empty_group_first,
}
ON_SERVERS = ("settled-but-undeleted", "lock-without-messages")
OTHERS = tuple(name for name in GROUPS if name not in ON_SERVERS)


@pytest.fixture(params=[*ON_SERVERS, *(pytest.param(name, marks=IN_MEMORY) for name in OTHERS)])
def arrange(request: pytest.FixtureRequest) -> Callable[[World], Awaitable[None]]:
    return GROUPS[request.param]


@pytest.mark.parametrize("times", ["once", pytest.param("twice", marks=IN_MEMORY)])
async def test_cancelled_claim_blocks_no_group_and_charges_no_attempt(
    stage: Stage, arrange: Callable[[World], Awaitable[None]], times: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await arrange(world)
        claimer = await world.join(script)
        outcome = await script.run(claimer.claim())
        assert outcome.is_cancelled == script.has_struck
        if script.has_struck:
            await _expect_all_claimable(world, attempt=1)
        await world.check()

    await at_every_point(CANCELLATIONS[times], scenario)


async def test_cancelled_claim_many_gives_back_all_that_it_leased(stage: Stage) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        claimer, other = await world.join(script), await world.join()
        await other.publish_many("a", "b", "c")
        outcome = await script.run(claimer.claim_many(3))
        if outcome.is_cancelled:
            leases = await other.claim_many(3)
            assert [lease.attempt for lease in leases] == [1, 1, 1]
        await world.check()

    await at_every_point(cancel, scenario)


async def test_claim_many_that_fails_gives_back_all_that_it_knows_of(stage: Stage) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        claimer, other = await world.join(script), await world.join()
        await other.publish_many("a", "b", "c")
        outcome = await script.run(claimer.claim_many(3))
        if script.has_struck:
            assert isinstance(outcome.error, AutoReconnect)
            leases = await other.claim_many(3)
            assert len(leases) == 3 - _is_reply_of_claim_lost(script)
        await world.check()

    await at_every_point(fail(), scenario)


@pytest.mark.parametrize("ending", ["crash", pytest.param("error", marks=IN_MEMORY)])
async def test_interrupted_claim_delays_the_group_by_the_visibility_at_most(
    stage: Stage, arrange: Callable[[World], Awaitable[None]], ending: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await arrange(world)
        claimer, other = await world.join(script), await world.join()
        await script.run(claimer.claim())
        world.clock.advance(EXPIRY)
        expected = await world.live_events()
        assert sorted(await world.drain(other)) == expected
        await world.check()

    await at_every_point(ENDINGS[ending], scenario)


async def test_failed_claim_gives_the_group_back_at_once_if_it_knows_that_it_has_it(
    stage: Stage, arrange: Callable[[World], Awaitable[None]]
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await arrange(world)
        claimer = await world.join(script)
        outcome = await script.run(claimer.claim())
        is_unknown = _is_reply_of_claim_lost(script)
        if script.has_struck and not is_unknown and outcome.error is not None:
            await _expect_all_claimable(world, attempt=1)
        await world.check()

    await at_every_point(fail(), scenario)


async def test_message_published_while_its_group_is_claimed_is_delivered(
    stage: Stage, arrange: Callable[[World], Awaitable[None]]
) -> None:
    """Between the empty head read and the removal of the lock, and everywhere else."""

    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await arrange(world)
        claimer, other = await world.join(script), await world.join()
        script.happening = lambda _: other.publish()
        lease = (await script.run(claimer.claim())).result()
        if lease is not None:
            await claimer.ack(lease)
        if script.has_struck:
            assert await world.live_events() == sorted(await world.drain(other))
        await world.check()

    await at_every_point(None, scenario)


async def test_two_claims_get_two_groups(
    stage: Stage, arrange: Callable[[World], Awaitable[None]]
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await arrange(world)
        claimer, other = await world.join(script), await world.join()
        await other.publish("other")
        found = []

        async def claim_too(_: Script) -> None:
            found.append(await other.claim())

        script.happening = claim_too
        found.append((await script.run(claimer.claim())).result())
        groups = [lease.group_id for lease in found if lease is not None]
        assert len(set(groups)) == len(groups)
        await world.check()

    await at_every_point(None, scenario)


async def test_claim_that_took_too_long_hands_out_nothing_that_is_settled(
    stage: Stage, arrange: Callable[[World], Awaitable[None]]
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await arrange(world)
        claimer, other = await world.join(script), await world.join()
        script.happening = expired_and_settled_by(other, world, MOVES["ack"])
        lease = (await script.run(claimer.claim())).result()
        if lease is not None:
            assert lease.event in await world.live_events()
        await world.check()

    await at_every_point(None, scenario)


@pytest.mark.parametrize("part", [0.4, 0.6])
async def test_lease_is_handed_out_only_with_half_of_its_visibility_left(
    stage: Stage, part: float
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await two_messages(world)
        claimer = await world.join(script)

        async def pass_time(_: Script) -> None:
            world.clock.advance(part * 30.0)

        script.happening = pass_time
        lease = (await script.run(claimer.claim())).result()
        assert lease is not None
        assert lease.expires_at - world.clock() >= 15.0
        assert lease.attempt == 1
        await world.check()

    await at_every_point(None, scenario)


async def test_claim_survives_expiry_at_any_point(
    stage: Stage, arrange: Callable[[World], Awaitable[None]]
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await arrange(world)
        claimer = await world.join(script)
        script.happening = expiry(world)
        (await script.run(claimer.claim())).result()
        await world.check()

    await at_every_point(None, scenario)


async def test_repair_during_a_claim_neither_loses_nor_repeats_a_message(
    stage: Stage, arrange: Callable[[World], Awaitable[None]]
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await arrange(world)
        world.clock.advance(10.0)
        claimer, other = await world.join(script), await world.join()
        script.happening = lambda _: other.repair()
        lease = (await script.run(claimer.claim())).result()
        if lease is not None:
            assert await claimer.ack(lease)
        await world.check()

    await at_every_point(None, scenario)


def _is_reply_of_claim_lost(script: Script) -> bool:
    assert isinstance(script.point, Point)
    number = script.point.number
    if number >= len(script.steps):
        return False
    return script.point.is_after and script.steps[number].verb == "find_one_and_update"


async def _expect_all_claimable(world: World, *, attempt: int) -> None:
    other = await world.join()
    heads = await world.live_heads()
    leases = [lease for lease in [await other.claim() for _ in range(len(heads) + 1)] if lease]
    assert sorted(lease.event for lease in leases) == sorted(heads)
    assert {lease.attempt for lease in leases} <= {attempt}


async def test_settled_message_is_not_delivered_again_when_late_ones_come_before_it(
    stage: Stage,
) -> None:
    """Its document is left over, and the claims do not see it behind the late ones."""
    world = await stage.fresh()
    script = Script("messages.insert")
    late, other = await world.join(script), await world.join()

    async def settle_one_and_die(_: Script) -> None:
        await other.publish()
        lease = await other.claimed()
        await died(world, "messages.delete_one", lambda dying: dying.ack(lease))

    script.happening = settle_one_and_die
    late_events = (await script.run(late.publish_many("g", "g", "g"))).result()
    assert await world.drain(other) == late_events
    await world.check()
