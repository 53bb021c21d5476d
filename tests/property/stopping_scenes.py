"""Small scenes of groups that a dead head stops."""

from property.actors import Actor, Program
from property.cast import attempted
from property.explorer import Scene
from property.programs import Programs, publish, redrive, work, work_ending_in
from property.scenes import died, leased
from property.world import Participant, World

__all__ = ("STOPPING",)


async def dying(world: World, *, messages: int) -> Program:
    """Return the program of somebody who lets the head of a group die."""
    world.stop_at_dead_heads()
    lease = await leased(world, await world.join(), messages=messages)

    async def die(actor: Actor, self: Participant) -> None:
        await actor.pause("dead_letter")
        await attempted(actor, self.dead_letter(lease))

    return die


async def stopped(world: World, *, messages: int) -> None:
    """Publish some messages to one group, and let the first one die."""
    world.stop_at_dead_heads()
    holder = await world.join()
    assert await holder.dead_letter(await leased(world, holder, messages=messages))


async def look(actor: Actor, self: Participant) -> None:
    """Read the dead letters: that completes what others have left half-done."""
    await actor.pause("dead_letters")
    await attempted(actor, self.dead_events())


async def look_and_stop_again_and_work(actor: Actor, self: Participant) -> None:
    await look(actor, self)
    await work_ending_in("dead_letter")(actor, self)
    await work(actor, self)


async def stopping_death_and_publish(world: World) -> Programs:
    return {"v": await dying(world, messages=1), "p": publish}


async def stopping_death_and_work(world: World) -> Programs:
    return {"v": await dying(world, messages=2), "w": work}


async def redrive_of_a_stopped_group_and_publish(world: World) -> Programs:
    await stopped(world, messages=1)
    return {"r": redrive, "p": publish}


async def redrive_of_a_stopped_group_and_work(world: World) -> Programs:
    await stopped(world, messages=2)
    return {"r": redrive, "w": work}


async def resume(actor: Actor, self: Participant) -> None:
    await actor.pause("resume")
    await attempted(actor, self.resume())


async def resume_and_redrive_of_a_stopped_group(world: World) -> Programs:
    """Whichever is first; what is behind the dead message may come before it now."""
    await stopped(world, messages=2)
    world.log.is_stopped_by_deaths = False
    return {"e": resume, "r": redrive}


async def resume_of_a_stopped_group_and_publish(world: World) -> Programs:
    """Nothing is behind the dead message until then."""
    await stopped(world, messages=1)
    world.log.is_stopped_by_deaths = False
    return {"e": resume, "p": publish, "w": work}


async def redrive_completed_twice_and_death_in_between(world: World) -> Programs:
    """The redrive died when all but its last steps were done: the group is stopped still."""
    await stopped(world, messages=2)
    await died(world, "locks.update_one", Participant.redrive)
    return {"r": look, "s": look_and_stop_again_and_work}


STOPPING: dict[str, Scene] = {
    scene.__name__: scene
    for scene in (
        stopping_death_and_publish,
        stopping_death_and_work,
        redrive_of_a_stopped_group_and_publish,
        redrive_of_a_stopped_group_and_work,
        resume_and_redrive_of_a_stopped_group,
        resume_of_a_stopped_group_and_publish,
        redrive_completed_twice_and_death_in_between,
    )
}
