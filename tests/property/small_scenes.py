"""Scenes that are small enough to be explored completely. Each returns who acts in it."""

from functools import partial

from property.batch_scenes import BATCHES
from property.explorer import Scene
from property.partition_scenes import PARTITIONED
from property.programs import (
    Programs,
    claim,
    expiry,
    held,
    publish,
    publish_many,
    publish_together,
    repair,
    work,
    work_ending_in,
    work_on_two,
)
from property.scenes import MOVES, SETTLEMENTS, died, leased
from property.stopping_scenes import STOPPING
from property.world import Participant, World

__all__ = ("LARGE", "SCENES")


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


async def publishes_together_and_work(_: World) -> Programs:
    return {"p": publish_together, "w": work}


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
        publishes_together_and_work,
    )
}
SCENES |= {f"late_{verb}_and_new_owner": partial(late, verb) for verb in MOVES}
SCENES |= BATCHES | PARTITIONED | STOPPING
SCENES |= {f"ack_after_{verb}_and_work": partial(second_settlement, verb) for verb in SETTLEMENTS}

LARGE: dict[str, Scene] = {
    "late_dead_letter_and_repair": late_dead_letter_and_repair,
    **{
        name: SCENES.pop(name)
        for name in (
            "late_dead_letter_and_new_owner",
            "ack_after_dead_letter_and_work",
            "two_claims_of_two_of_three_groups",
            "claims_of_two_of_three_alike",
            "claim_in_two_partitions_and_work",
            "reconcile_and_work",
            "repartition_and_publish_and_work",
            "repartition_and_work_twice",
            "redrive_completed_twice_and_death_in_between",
        )
    },
}
"""Scenes of which there are very many schedules with faults."""
