"""Small scenes in two partitions: group g is in the first one, groups h and i in the second.

Claimers walk the partitions there and back (`walks`): some from the first one, some from the last.
"""

from functools import partial

from fairlane.lease.settings import REREAD, SWITCH
from fairlane.schema import partition_of
from property.actors import Program
from property.explorer import Scene
from property.programs import (
    Programs,
    backwards,
    claim_two,
    passage,
    publish_to,
    reconcile_twice,
    repartition,
    work,
    work_on_two,
    work_twice,
)
from property.world import World

__all__ = ("PARTITIONED",)

assert [partition_of(group_id, 2) for group_id in "ghi"] == [0, 1, 1]


async def divided(world: World, *group_ids: str) -> None:
    await world.divide(2)
    await (await world.join()).publish_many(*group_ids)


async def two(program: Program, other: Program, world: World) -> Programs:
    await divided(world, "g", "h")
    return {"v": program, "w": other}


async def two_on_three_groups(program: Program, other: Program, world: World) -> Programs:
    await divided(world, "g", "h", "i")
    return {"v": program, "w": other}


async def work_twice_and_publish(world: World) -> Programs:
    """Two messages of one group, then one of another: the claimer ends a round and begins one."""
    await divided(world, "g", "g")
    return {"v": work_twice, "p": publish_to("h")}


async def claim_two_and_publish_into_the_other_partition(world: World) -> Programs:
    await divided(world, "h")
    return {"v": claim_two, "p": publish_to("g")}


async def repartition_and_publish_and_work(world: World) -> Programs:
    """From one partition to two; time passes until others know of it, and until it is done."""
    await world.divide(1, is_followed=True)
    time = passage(world, REREAD, SWITCH)
    return {"r": repartition(2), "p": publish_to("h"), "w": work, "time": time}


async def repartition_and_work_twice(world: World) -> Programs:
    """As above: what was placed by the old number moves when it is settled."""
    await world.divide(1, is_followed=True)
    await (await world.join()).publish_many("h", "h")
    return {"r": repartition(2), "w": work_twice, "time": passage(world, REREAD, SWITCH)}


async def narrowing(world: World, **programs: Program) -> Programs:
    """From two partitions to one: decided a while ago, so that `reconcile` may finish it."""
    await world.divide(2, is_followed=True)
    publisher = await world.join()
    await publisher.publish_many("g", "h")
    await publisher.repartition(1)
    world.clock.advance(SWITCH)
    return {**programs, "r": reconcile_twice, "time": passage(world, SWITCH)}


PARTITIONED: dict[str, Scene] = {
    scene.__name__: scene
    for scene in (
        work_twice_and_publish,
        claim_two_and_publish_into_the_other_partition,
        repartition_and_publish_and_work,
        repartition_and_work_twice,
    )
}
PARTITIONED |= {
    "two_workers_apart": partial(two, work, backwards(work)),
    "two_workers_alike": partial(two, work, work),
    "claim_in_two_partitions_and_publish": partial(two, work_on_two, publish_to("h")),
    "claim_in_two_partitions_and_work": partial(two, work_on_two, work),
    "claims_of_two_of_three_apart": partial(two_on_three_groups, claim_two, backwards(claim_two)),
    "claims_of_two_of_three_alike": partial(two_on_three_groups, claim_two, claim_two),
    "reconcile_and_work": partial(narrowing, w=work),
    "reconcile_and_publish": partial(narrowing, p=publish_to("h")),
}
