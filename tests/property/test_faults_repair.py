"""Repair that stands still at any of its driver calls while others go on (fault 10)."""

from collections.abc import Awaitable, Callable

import pytest

from property.scenes import EXPIRY, MOVES, died, leased
from property.script import Script, at_every_point
from property.world import Participant, Stage, World

Meanwhile = Callable[[World, Participant], Awaitable[object]]

OLD = 10.0
"""Seconds: longer than repair gives a publish in progress."""
IN_MEMORY = pytest.mark.memory_only


async def claimed(_: World, worker: Participant) -> None:
    await worker.claim()


async def repaired(_: World, worker: Participant) -> None:
    await worker.repair()


async def lived(world: World, worker: Participant) -> None:
    """Let the group be drained and begin anew."""
    await world.drain(worker)
    await worker.publish()


async def expired_and_claimed(world: World, worker: Participant) -> None:
    world.clock.advance(EXPIRY)
    await worker.claim()


OTHERS: dict[str, Meanwhile] = {
    "claim": claimed,
    "repair": repaired,
    "life": lived,
    "expiry": expired_and_claimed,
}


@pytest.fixture(params=["claim", *(pytest.param(name, marks=IN_MEMORY) for name in [*OTHERS][1:])])
def meanwhile(request: pytest.FixtureRequest) -> Meanwhile:
    return OTHERS[request.param]


async def test_settlement_in_the_middle_of_a_repair_stands(stage: Stage, move: str) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        reaper, worker = await world.join(script), await world.join()
        lease = await leased(world, worker)
        world.clock.advance(OLD)

        async def settle(_: Script) -> None:
            assert await MOVES[move](worker, lease)

        script.happening = settle
        (await script.run(reaper.repair())).result()
        if script.has_struck:
            assert await worker.ack(lease) == (move == "extend")
        await world.check()

    await at_every_point(None, scenario)


async def test_repair_disturbs_nobody_who_works_on_meanwhile(
    stage: Stage, meanwhile: Meanwhile
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        reaper, worker = await world.join(script), await world.join()
        await leased(world, worker)
        await worker.publish("h")
        world.clock.advance(OLD)
        script.happening = lambda _: meanwhile(world, worker)
        (await script.run(reaper.repair())).result()
        await world.check()

    await at_every_point(None, scenario)


async def test_two_repairs_of_one_stranded_message_make_one_group(
    stage: Stage, meanwhile: Meanwhile
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        reaper, worker = await world.join(script), await world.join()
        await died(world, "locks.upsert", Participant.publish)
        world.clock.advance(OLD)
        script.happening = lambda _: meanwhile(world, worker)
        (await script.run(reaper.repair())).result()
        await world.check()

    await at_every_point(None, scenario)
