"""Claims and settlements of several groups at once, disturbed at every driver call.

A bulk is sent one document at a time, so that things happen between two of them as well.
"""

import pytest

from property.batch_scenes import two_leased
from property.scenes import EXPIRY, MANY_MOVES
from property.script import Happening, Script, at_every_point, cancel, cancel_twice, crash, fail
from property.world import VISIBILITY, Stage, World

ENDINGS: dict[str, Happening] = {
    "crash": crash,
    "error": fail(),
    "cancellation": cancel,
    "two cancellations": cancel_twice,
}
LATE = VISIBILITY / 2 + 1.0
"""Seconds after which a lease is too short to be handed out, and is held still."""


@pytest.fixture(params=sorted(MANY_MOVES))
def verb(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def long_moment(world: World) -> Happening:
    async def strike(_: Script) -> None:
        world.clock.advance(LATE)

    return strike


@pytest.mark.parametrize("ending", ENDINGS)
async def test_interrupted_settlement_of_many_is_done_or_not_of_each(
    stage: Stage, verb: str, ending: str
) -> None:
    """Nothing is lost, nothing settled comes back, and the groups recover by themselves."""

    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        leases = await two_leased(world)
        worker, other = await world.join(script), await world.join()
        await script.run(MANY_MOVES[verb](worker, leases))
        world.clock.advance(EXPIRY)
        expected = await world.live_events()
        assert sorted(await world.drain(other)) == expected
        await world.check()

    await at_every_point(ENDINGS[ending], scenario)


async def test_cancelled_settlement_of_many_is_finished(stage: Stage, verb: str) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        leases = await two_leased(world)
        worker, twin = await world.join(script), await world.join()
        await script.run(MANY_MOVES[verb](worker, leases))
        assert await twin.ack_many(leases) == [False, False]
        await world.check()

    await at_every_point(cancel, scenario)


async def test_message_published_while_many_are_settled_is_claimable(
    stage: Stage, verb: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        leases = await two_leased(world)
        worker, other = await world.join(script), await world.join()
        script.happening = lambda _: other.publish_many("g", "h")
        assert (await script.run(MANY_MOVES[verb](worker, leases))).result() == [True, True]
        assert len(await world.drain(other)) == 2 * (verb == "nack") + 2 * script.has_struck
        await world.check()

    await at_every_point(None, scenario)


async def test_settlement_of_many_tells_which_were_lost_and_changes_nothing_of_these(
    stage: Stage, verb: str
) -> None:
    world = await stage.fresh()
    leases = await two_leased(world)
    worker, new_owner = await world.join(), await world.join()
    world.clock.advance(EXPIRY)
    new = await new_owner.claimed()
    before = [lock for lock in await world.stored("locks") if lock["_id"] == new.group_id]
    told = await MANY_MOVES[verb](worker, leases)
    assert told == [lease.group_id != new.group_id for lease in leases]
    after = [lock for lock in await world.stored("locks") if lock["_id"] == new.group_id]
    assert after == before
    assert await new_owner.ack(new)
    await world.check()


async def test_claim_of_many_that_comes_late_keeps_only_what_it_hands_out(stage: Stage) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await (await world.join()).publish_many("g", "h")
        claimer = await world.join(script)
        script.happening = long_moment(world)
        leases = (await script.run(claimer.claim_many(2))).result()
        locks = await world.stored("locks")
        held = {lock["_id"]: lock["token"] for lock in locks if lock["token"] is not None}
        assert held == {lease.group_id: lease.token for lease in leases}
        assert [lock["attempts"] for lock in locks] == [lock["_id"] in held for lock in locks]
        await world.check()

    await at_every_point(None, scenario)


async def test_claim_of_many_looks_on_when_others_took_all_that_it_found(stage: Stage) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        await (await world.join()).publish_many("g", "h", "i")
        claimer, other = await world.join(script), await world.join()
        script.happening = lambda _: other.claim_many(2)
        leases = (await script.run(claimer.claim_many(2))).result()
        assert leases
        await world.check()

    await at_every_point(None, scenario)
