"""Scenes that are small enough to be explored completely. Each returns who acts in it.

A participant pauses before each operation, so that everything else may happen between two of them.
"""

from functools import partial

from property.actors import Actor, Program
from property.cast import attempted
from property.explorer import Scene
from property.scenes import EXPIRY, MOVES, SETTLEMENTS, died, leased
from property.world import VISIBILITY, Participant, World

__all__ = ("LARGE", "SCENES")

Programs = dict[str, Program]


async def publish(actor: Actor, self: Participant) -> None:
    await actor.pause("publish")
    await attempted(actor, self.publish())


async def publish_many(actor: Actor, self: Participant) -> None:
    await actor.pause("publish_many")
    await attempted(actor, self.publish_many("g", "h", "g"))


async def claim(actor: Actor, self: Participant) -> None:
    await actor.pause("claim")
    await attempted(actor, self.claim())


def work_ending_in(verb: str) -> Program:
    async def work(actor: Actor, self: Participant) -> None:
        await actor.pause("claim")
        if lease := (await attempted(actor, self.claim())).value:
            await actor.pause(verb)
            await attempted(actor, MOVES[verb](self, lease))

    return work


work = work_ending_in("ack")


async def work_on_two(actor: Actor, self: Participant) -> None:
    await actor.pause("claim_many")
    for lease in (await attempted(actor, self.claim_many(2))).value or ():
        await actor.pause("ack")
        await attempted(actor, self.ack(lease))


async def repair(actor: Actor, self: Participant) -> None:
    await actor.pause("repair")
    await attempted(actor, self.repair())


async def held(world: World, *verbs: str, visibility: float = VISIBILITY) -> Program:
    """Return the program of somebody who holds a lease, and who is in no hurry to end it."""
    lease = await leased(world, await world.join(), messages=1, visibility=visibility)

    async def settle(actor: Actor, self: Participant) -> None:
        for verb in verbs:
            await actor.pause(verb)
            await attempted(actor, MOVES[verb](self, lease))

    return settle


def expiry(world: World) -> Program:
    async def pass_by(actor: Actor, _: Participant) -> None:
        await actor.pause("expiry")
        world.clock.advance(EXPIRY)

    return pass_by


async def two_publishes_and_work(_: World) -> Programs:
    return {"p": publish, "q": publish, "w": work}


async def work_and_publish_and_work(world: World) -> Programs:
    await (await world.join()).publish()
    return {"v": work, "p": publish, "w": work}


async def nack_and_publish_and_work(world: World) -> Programs:
    await (await world.join()).publish()
    return {"v": work_ending_in("nack"), "p": publish, "w": work}


async def release_and_publish_and_work(world: World) -> Programs:
    return {"v": await held(world, "release"), "p": publish, "w": work}


async def dead_letter_and_publish(world: World) -> Programs:
    return {"v": await held(world, "dead_letter"), "p": publish}


async def ack_and_two_publishes(world: World) -> Programs:
    return {"v": await held(world, "ack"), "p": publish, "q": publish}


async def late(verb: str, world: World) -> Programs:
    return {"v": await held(world, verb), "w": work, "time": expiry(world)}


async def late_dead_letter_and_repair(world: World) -> Programs:
    return {"v": await held(world, "dead_letter"), "r": repair, "time": expiry(world)}


async def second_settlement(first: str, world: World) -> Programs:
    return {"v": await held(world, first, "ack"), "w": work}


async def slow_claim_and_new_owner(world: World) -> Programs:
    await (await world.join()).publish()
    return {"v": claim, "w": work, "time": expiry(world)}


async def repair_and_publish(world: World) -> Programs:
    return {"r": repair, "p": publish, "time": expiry(world)}


async def repair_and_ack(world: World) -> Programs:
    """A publisher died half-way during a long lease; repair sees the lock, and passes it by."""
    settle = await held(world, "ack", visibility=3_000.0)
    await died(world, "locks.upsert", Participant.publish)
    world.clock.advance(70.0)
    return {"r": repair, "v": settle}


async def publish_into_a_group_found_empty(world: World) -> Programs:
    lease = await leased(world, await world.join(), messages=1)
    await died(world, "locks.delete_one", lambda dying: dying.ack(lease))
    return {"v": claim, "p": publish}


async def two_workers_on_one_group(world: World) -> Programs:
    await (await world.join()).publish()
    return {"v": work, "w": work}


async def two_workers_on_two_groups(world: World) -> Programs:
    await (await world.join()).publish_many("g", "h")
    return {"v": work, "w": work}


async def claim_of_two_groups_and_publish(world: World) -> Programs:
    await (await world.join()).publish_many("g", "h")
    return {"v": work_on_two, "p": publish}


async def claim_of_two_groups_and_work(world: World) -> Programs:
    await (await world.join()).publish_many("g", "h")
    return {"v": work_on_two, "w": work}


async def publish_many_and_work(_: World) -> Programs:
    return {"p": publish_many, "w": work}


SCENES: dict[str, Scene] = {
    scene.__name__: scene
    for scene in (
        two_publishes_and_work,
        work_and_publish_and_work,
        nack_and_publish_and_work,
        release_and_publish_and_work,
        dead_letter_and_publish,
        ack_and_two_publishes,
        slow_claim_and_new_owner,
        repair_and_publish,
        repair_and_ack,
        publish_into_a_group_found_empty,
        two_workers_on_one_group,
        two_workers_on_two_groups,
        claim_of_two_groups_and_publish,
        claim_of_two_groups_and_work,
        publish_many_and_work,
    )
}
SCENES |= {f"late_{verb}_and_new_owner": partial(late, verb) for verb in MOVES}
SCENES |= {f"ack_after_{verb}_and_work": partial(second_settlement, verb) for verb in SETTLEMENTS}

LARGE: dict[str, Scene] = {
    "late_dead_letter_and_repair": late_dead_letter_and_repair,
    **{
        name: SCENES.pop(name)
        for name in ("late_dead_letter_and_new_owner", "ack_after_dead_letter_and_work")
    },
}
"""Scenes in which two move the same dead letter: with faults there are very many schedules."""
