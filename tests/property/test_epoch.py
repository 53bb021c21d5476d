"""The fencing number over all lives of a group (statement 45)."""

import pytest

from property.scheduler import join, start
from property.script import Happening, Script, at_every_point
from property.world import ALL_PLACES, Participant, Stage, World


@pytest.fixture(params=ALL_PLACES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def whole_life(world: World, other: Participant) -> Happening:
    async def strike(_: Script) -> None:
        await other.publish()
        await world.drain(other)

    return strike


def repaired_and_drained(world: World, other: Participant) -> Happening:
    async def strike(_: Script) -> None:
        world.clock.advance(10.0)
        await other.repair()
        await world.drain(other)

    return strike


async def test_epoch_grows_when_a_publish_is_overtaken_by_a_whole_life_of_its_group(
    stage: Stage,
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        late, other = await world.join(script), await world.join()
        script.happening = whole_life(world, other)
        (await script.run(late.publish())).result()
        await world.check()

    await at_every_point(None, scenario)


async def test_epoch_grows_when_repair_makes_the_lock_before_the_publish_does(
    stage: Stage,
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        late, other = await world.join(script), await world.join()
        script.happening = repaired_and_drained(world, other)
        (await script.run(late.publish())).result()
        await late.publish()
        await world.check()

    await at_every_point(None, scenario)


async def test_epoch_grows_when_a_late_head_is_released_before_the_removal_of_its_lock(
    stage: Stage,
) -> None:
    """The removal must not forget an epoch that was given out after the floor was raised."""
    world = await stage.fresh()
    late, publisher = await join(world, "late")
    acker, worker = await join(world, "acker")
    other, releaser = await join(world, "other")
    await start({late: publisher.publish(), acker: _life(worker)})
    await late.reach("messages.insert")
    await acker.reach("locks.delete_one")
    await late.reach("locks.upsert")
    await start({other: _claim_and_release(releaser)})
    for actor in (other, acker, late):
        await actor.finish()
    await world.check()


async def _life(self: Participant) -> None:
    await self.publish()
    await self.ack(await self.claimed())


async def _claim_and_release(self: Participant) -> None:
    await self.release(await self.claimed())
