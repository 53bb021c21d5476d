"""All schedules of small scenes: whatever the order of driver calls, the invariants hold."""

import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from property.scenes import EXPIRY, MOVES, died, leased
from property.scheduler import Actor, Choose, Scheduler, every_schedule
from property.wire import Step
from property.world import MemoryStage, Participant, World

Program = Callable[[Actor, Participant], Coroutine[Any, Any, object]]
Programs = tuple[Program, ...]


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="fairlane")


async def publish(_: Actor, self: Participant) -> None:
    await self.publish()


async def claim(_: Actor, self: Participant) -> None:
    await self.claim()


async def work(_: Actor, self: Participant) -> None:
    if lease := await self.claim():
        await self.ack(lease)


async def repair(_: Actor, self: Participant) -> None:
    await self.repair()


def settlement(lease: Any, move: str, _: Actor, self: Participant) -> Coroutine[Any, Any, object]:
    return MOVES[move](self, lease)


async def expiry(world: World, actor: Actor, _: Participant) -> None:
    await actor.park(Step("clock", "advance"))
    world.clock.advance(EXPIRY)


async def ack_and_publish(world: World) -> Programs:
    lease = await leased(world, await world.join(), messages=1)
    return partial(settlement, lease, "ack"), publish


async def ack_and_two_publishes(world: World) -> Programs:
    return *await ack_and_publish(world), publish


async def nack_and_publish_and_work(world: World) -> Programs:
    lease = await leased(world, await world.join(), messages=1)
    return partial(settlement, lease, "nack"), publish, work


async def release_and_publish_and_work(world: World) -> Programs:
    lease = await leased(world, await world.join(), messages=1)
    return partial(settlement, lease, "release"), publish, work


async def dead_letter_and_publish(world: World) -> Programs:
    lease = await leased(world, await world.join(), messages=1)
    return partial(settlement, lease, "dead_letter"), publish


async def two_publishes_of_a_new_group(world: World) -> Programs:
    return publish, publish


async def publish_and_work(world: World) -> Programs:
    return publish, work


async def publish_into_a_group_found_empty(world: World) -> Programs:
    lease = await leased(world, await world.join(), messages=1)
    await died(world, "locks.delete_one", lambda dying: dying.ack(lease))
    return claim, publish


async def two_workers_on_one_group(world: World) -> Programs:
    await (await world.join()).publish()
    return work, work


async def two_workers_on_two_groups(world: World) -> Programs:
    await (await world.join()).publish_many("g", "h")
    return work, work


async def late_ack_and_new_owner(world: World) -> Programs:
    lease = await leased(world, await world.join(), messages=1)
    return partial(settlement, lease, "ack"), work, partial(expiry, world)


async def slow_claim_and_new_owner(world: World) -> Programs:
    await (await world.join()).publish()
    return claim, work, partial(expiry, world)


async def repair_and_publish(world: World) -> Programs:
    return repair, publish, partial(expiry, world)


async def repair_and_ack(world: World) -> Programs:
    lease = await leased(world, await world.join(), messages=1)
    world.clock.advance(10.0)
    return repair, partial(settlement, lease, "ack")


SCENES = (
    ack_and_publish,
    ack_and_two_publishes,
    nack_and_publish_and_work,
    release_and_publish_and_work,
    dead_letter_and_publish,
    two_publishes_of_a_new_group,
    publish_and_work,
    publish_into_a_group_found_empty,
    two_workers_on_one_group,
    two_workers_on_two_groups,
    late_ack_and_new_owner,
    slow_claim_and_new_owner,
    repair_and_publish,
    repair_and_ack,
)

LARGE = (ack_and_two_publishes, two_workers_on_two_groups)
CASES = [
    pytest.param(scene, is_recent, id=f"{scene.__name__}-{'recent' if is_recent else 'old'}")
    for scene in SCENES
    for is_recent in (True, False)
    if is_recent or scene not in LARGE
]


@pytest.mark.parametrize(("scene", "is_recent"), CASES)
async def test_every_schedule_keeps_the_invariants(
    scene: Callable[[World], Awaitable[Programs]], is_recent: bool
) -> None:
    stage = MemoryStage(is_recent=is_recent)

    async def play(choose: Choose) -> None:
        world = await stage.fresh()
        programs = await scene(world)
        scheduler = Scheduler(choose)
        cast: dict[Actor, Coroutine[Any, Any, Any]] = {}
        for number, program in enumerate(programs):
            actor = Actor(f"{program}-{number}")
            cast[actor] = program(actor, await world.join(scheduler.conduct(actor)))
        await scheduler.run(cast)
        await world.check()

    assert await every_schedule(play) > 1
