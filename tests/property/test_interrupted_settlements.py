"""Settlements that are interrupted, and what others do meanwhile, at every driver call.

Statements 32 and 34; faults 1, 6, 10 and 42. The first driver call of a settlement decides: what
comes after it is clean-up, which nothing can turn into a failure.
"""

import pytest
from pymongo.errors import AutoReconnect

from property.scenes import FINAL, MOVES, PARKED_FOR, is_decided, leased, snapshot
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

ENDINGS: dict[str, Happening] = {"crash": crash, "error": fail()}
CANCELLATIONS: dict[str, Happening] = {"once": cancel, "twice": cancel_twice}
IN_MEMORY = pytest.mark.memory_only
ONE_OR_TWO = [1, pytest.param(2, marks=IN_MEMORY)]


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
async def test_error_is_the_callers_only_if_the_command_of_the_settlement_failed(
    stage: Stage, move: str
) -> None:
    """The clean-up of an ack is in the same command: what was done of it the driver cannot say."""

    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker = await world.join(script)
        lease = await leased(world, worker)
        outcome = await script.run(MOVES[move](worker, lease))
        is_whole = move == "ack" and worker.transport._store.driver.has_cross_collection_bulk
        is_first = is_whole or script.point in (Point(0, False), Point(0, True))
        assert isinstance(outcome.error, AutoReconnect) == (script.has_struck and is_first)
        assert outcome.value is (None if outcome.error else True)

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
