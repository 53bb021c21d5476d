"""Leases that are lost, settled or expired, used at every driver call of whoever uses them.

Statements 14 to 19; faults 7 and 8. The first driver call of a settlement decides: before it the
lease is as it was, after it the rest is clean-up.
"""

import pytest

from property.scenes import (
    EXPIRY,
    MOVES,
    PARKED_FOR,
    SETTLEMENTS,
    expired_and_claimed_by,
    expired_and_settled_by,
    expiry,
    is_decided,
    leased,
    park,
    snapshot,
)
from property.script import Script, at_every_point
from property.world import VISIBILITY, Stage

IN_MEMORY = pytest.mark.memory_only
ONE_OR_TWO = [1, pytest.param(2, marks=IN_MEMORY)]


@pytest.mark.parametrize("messages", ONE_OR_TWO)
async def test_stale_owner_changes_nothing_after_another_leased_the_group(
    stage: Stage, move: str, messages: int
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        stale, owner = await world.join(script), await world.join()
        lease = await leased(world, stale, messages=messages)
        script.happening = expired_and_claimed_by(owner, world)
        is_accepted = (await script.run(MOVES[move](stale, lease))).result()
        assert is_accepted == is_decided(script)
        await world.check()

    await at_every_point(None, scenario)


@pytest.mark.parametrize(
    "then", ["ack", *(pytest.param(then, marks=IN_MEMORY) for then in ("dead_letter", "nack"))]
)
async def test_stale_owner_changes_nothing_after_another_settled_the_message(
    stage: Stage, move: str, then: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        stale, owner = await world.join(script), await world.join()
        lease = await leased(world, stale)
        script.happening = expired_and_settled_by(owner, world, MOVES[then])
        is_accepted = (await script.run(MOVES[move](stale, lease))).result()
        assert is_accepted == is_decided(script)
        await world.check()

    await at_every_point(None, scenario)


async def test_refused_move_writes_nothing(stage: Stage, move: str) -> None:
    world = await stage.fresh()
    stale, owner = await world.join(), await world.join()
    lease = await leased(world, stale)
    world.clock.advance(EXPIRY)
    await owner.claimed()
    before = await snapshot(world)
    assert not await MOVES[move](stale, lease)
    assert await snapshot(world) == before


@IN_MEMORY
async def test_new_owner_keeps_the_group_whatever_the_stale_one_does(
    stage: Stage, move: str
) -> None:
    """The new owner settles between the stale owner's call and its return."""

    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        stale, owner = await world.join(script), await world.join()
        lease = await leased(world, stale)
        world.clock.advance(EXPIRY)
        owned = await owner.claimed()

        async def settle(_: Script) -> None:
            assert await owner.ack(owned)

        script.happening = settle
        assert not (await script.run(MOVES[move](stale, lease))).result()
        await world.check()

    await at_every_point(None, scenario)


@pytest.mark.parametrize(
    "second", ["ack", *(pytest.param(name, marks=IN_MEMORY) for name in SETTLEMENTS[1:])]
)
@pytest.mark.parametrize("first", SETTLEMENTS)
async def test_lease_settles_once_and_the_second_settlement_changes_nothing(
    stage: Stage, first: str, second: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, twin = await world.join(script), await world.join()
        lease = await leased(world, worker, messages=1)
        accepted: list[bool] = []

        async def settle_too(_: Script) -> None:
            before = await snapshot(world)
            accepted.append(await MOVES[second](twin, lease))
            assert accepted == [not is_decided(script)]
            if is_decided(script):
                assert await snapshot(world) == before

        script.happening = settle_too
        accepted.append((await script.run(MOVES[first](worker, lease))).result())
        assert accepted.count(True) == 1
        await world.check()

    await at_every_point(None, scenario)


async def test_settled_lease_cannot_be_extended(stage: Stage) -> None:
    for name in SETTLEMENTS:
        world = await stage.fresh()
        worker = await world.join()
        lease = await leased(world, worker)
        assert await MOVES[name](worker, lease)
        assert not await worker.extend(lease), name


async def test_parked_message_stays_parked_whatever_its_old_lease_is_used_for(
    stage: Stage, move: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, other = await world.join(script), await world.join()
        lease = await leased(world, worker)
        await park(other, lease)
        script.happening = expiry(world)
        assert not (await script.run(MOVES[move](worker, lease))).result()
        assert await other.claim() is None
        world.clock.jump(lease.expires_at - VISIBILITY + PARKED_FOR)
        assert (await other.claimed()).seq == lease.seq
        await world.check()

    await at_every_point(None, scenario)


async def test_move_after_expiry_succeeds_while_nobody_else_leased_the_group(
    stage: Stage, move: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker = await world.join(script)
        lease = await leased(world, worker)
        script.happening = expiry(world)
        assert (await script.run(MOVES[move](worker, lease))).result()
        await world.check()

    await at_every_point(None, scenario)


async def test_late_ack_reports_the_loss_and_the_new_owner_acks(stage: Stage) -> None:
    world = await stage.fresh()
    late, owner = await world.join(), await world.join()
    lease = await leased(world, late, messages=1)
    world.clock.advance(EXPIRY)
    owned = await owner.claimed()
    assert (await late.ack(lease), await late.extend(lease)) == (False, False)
    assert (owned.seq, owned.attempt, owned.epoch) == (lease.seq, 2, lease.epoch + 1)
    assert await owner.ack(owned)
    await world.check()
