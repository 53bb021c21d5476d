"""Every way out of a lease, disturbed at every driver call.

Statements 14 to 19, 32 and 34; faults 1, 6, 7, 8, 10 and 42. The first driver call of each decides:
before it the lease is as it was, after it the rest is clean-up that cannot fail the settlement.
"""

from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from property.scenes import (
    EXPIRY,
    FINAL,
    MOVES,
    PARKED_FOR,
    SETTLEMENTS,
    expired_and_claimed_by,
    expired_and_settled_by,
    expiry,
    leased,
    park,
    snapshot,
)
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
from property.world import Participant, Stage, World

ENDINGS: dict[str, Happening] = {"crash": crash, "error": fail()}
CANCELLATIONS: dict[str, Happening] = {"once": cancel, "twice": cancel_twice}
IN_MEMORY = pytest.mark.memory_only
ONE_OR_TWO = [1, pytest.param(2, marks=IN_MEMORY)]


def is_decided(script: Script) -> bool:
    """Whether the settlement had been written when the script struck, if it did."""
    return not script.has_struck or script.point != Point(0, is_after=False)


@pytest.fixture(
    params=["ack", "dead_letter", "extend"]
    + [pytest.param(name, marks=IN_MEMORY) for name in ("nack", "park", "release")]
)
def move(request: pytest.FixtureRequest) -> str:
    return str(request.param)


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
        world.clock.jump(lease.expires_at - 30.0 + PARKED_FOR)
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


@pytest.mark.parametrize("ending", ["crash", pytest.param("error", marks=IN_MEMORY)])
@pytest.mark.parametrize("messages", ONE_OR_TWO)
async def test_interrupted_move_is_done_once_its_first_write_is_done(
    stage: Stage, move: str, ending: str, messages: int
) -> None:
    """Nothing is lost, nothing settled comes back, and the group recovers by itself."""

    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, other = await world.join(script), await world.join()
        lease = await leased(world, worker, messages=messages)
        await script.run(MOVES[move](worker, lease))
        world.clock.advance(PARKED_FOR)
        delivered = await world.drain(other)
        is_gone = move in FINAL and is_decided(script)
        assert delivered == list(range(is_gone, messages))
        await world.check()

    await at_every_point(ENDINGS[ending], scenario)


@IN_MEMORY
async def test_error_is_the_callers_only_if_the_settlement_itself_failed(
    stage: Stage, move: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker = await world.join(script)
        lease = await leased(world, worker)
        outcome = await script.run(MOVES[move](worker, lease))
        is_first = script.has_struck and script.point in (Point(0, False), Point(0, True))
        assert isinstance(outcome.error, AutoReconnect) == is_first
        assert outcome.value is (None if is_first else True)

    await at_every_point(fail(), scenario)


@pytest.mark.parametrize("times", ["once", pytest.param("twice", marks=IN_MEMORY)])
async def test_cancelled_move_is_finished(stage: Stage, move: str, times: str) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, twin = await world.join(script), await world.join()
        lease = await leased(world, worker, messages=1)
        outcome = await script.run(MOVES[move](worker, lease))
        assert outcome.is_cancelled == script.has_struck
        assert await _is_finished(world, move)
        assert await twin.ack(lease) == (move == "extend")
        await world.check()

    await at_every_point(CANCELLATIONS[times], scenario)


async def _is_finished(world: World, move: str) -> bool:
    messages, locks, dead = await snapshot(world)
    if move in FINAL:
        return not messages and not locks and len(dead) == (move == "dead_letter")
    (lock,) = locks
    return (lock["token"] is None) == (move != "extend")


async def test_message_published_while_its_group_is_settled_is_claimable(
    stage: Stage, move: str
) -> None:
    """Between the look for more and the removal of the lock, and everywhere else."""

    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, other = await world.join(script), await world.join()
        lease = await leased(world, worker, messages=1)
        script.happening = lambda _: other.publish()
        (await script.run(MOVES[move](worker, lease))).result()
        world.clock.advance(PARKED_FOR)
        last = len(world.log.stories) - 1
        if script.has_struck:
            assert (await world.drain(other))[-1] == last
        await world.check()

    await at_every_point(None, scenario)


@IN_MEMORY
async def test_group_that_is_claimed_while_it_is_cleaned_up_delivers_what_is_next(
    stage: Stage, move: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, other = await world.join(script), await world.join()
        lease = await leased(world, worker)

        async def next_one(_: Script) -> None:
            if found := await other.claim():
                assert await other.ack(found)

        script.happening = next_one
        assert (await script.run(MOVES[move](worker, lease))).result()
        await world.check()

    await at_every_point(None, scenario)


@IN_MEMORY
async def test_group_drained_and_begun_anew_by_another_is_left_alone_by_a_slow_clean_up(
    stage: Stage, move: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, other = await world.join(script), await world.join()
        lease = await leased(world, worker, messages=1)

        async def other_life(_: Script) -> None:
            await world.drain(other)
            await other.publish()
            await other.publish()
            await other.claim()

        script.happening = other_life
        assert (await script.run(MOVES[move](worker, lease))).result()
        await world.check()

    await at_every_point(None, scenario)


async def test_repair_during_a_settlement_neither_reopens_nor_loses_the_message(
    stage: Stage, move: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, other = await world.join(script), await world.join()
        lease = await leased(world, worker, messages=1)

        async def repair(_: Script) -> None:
            world.clock.advance(10.0)
            await other.repair()

        script.happening = repair
        assert (await script.run(MOVES[move](worker, lease))).result()
        await world.check()

    await at_every_point(None, scenario)


async def test_ack_matches_after_the_reply_of_an_extension_was_lost(stage: Stage) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, other = await world.join(script), await world.join()
        lease = await leased(world, worker)
        await script.run(worker.extend(lease))
        assert await other.ack(lease)
        assert lease.event not in await world.drain(other)
        await world.check()

    await at_every_point(fail(), scenario)


async def test_late_ack_reports_the_loss_and_the_new_owner_acks(stage: Stage) -> None:
    world = await stage.fresh()
    late, owner = await world.join(), await world.join()
    lease = await leased(world, late, messages=1)
    world.clock.advance(EXPIRY)
    owned: Any = await owner.claimed()
    assert (await late.ack(lease), await late.extend(lease)) == (False, False)
    assert (owned.seq, owned.attempt, owned.epoch) == (lease.seq, 2, lease.epoch + 1)
    assert await owner.ack(owned)
    await world.check()


def test_moves_are_all_that_a_participant_can_do_with_a_lease() -> None:
    names = {"ack", "nack", "release", "dead_letter", "extend"}
    assert names == set(MOVES) - {"park"}
    assert all(hasattr(Participant, name) for name in names)
