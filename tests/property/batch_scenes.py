"""Small scenes of claims and settlements of several groups at once."""

from collections.abc import Callable
from functools import partial
from typing import Any

from fairlane import Lease
from property.actors import Program
from property.explorer import Scene
from property.programs import Programs, ack_together, claim_two, publish, settle_many, work
from property.scenes import EXPIRY, MANY_MOVES, MOVES
from property.world import Participant, World

__all__ = ("BATCHES", "two_leased")

Settle = Callable[[list[Lease[Any]]], Program]


async def two_leased(world: World) -> list[Lease[Any]]:
    """Lease two groups with one message each."""
    holder = await world.join()
    await holder.publish_many("g", "h")
    leases = await holder.claim_many(2)
    assert [lease.group_id for lease in leases] == ["g", "h"]
    return leases


async def one_lost(settle_both: Settle, world: World) -> Programs:
    """Both leases have run out, and somebody else has one of the groups by now."""
    leases = await two_leased(world)
    world.clock.advance(EXPIRY)
    new = await (await world.join()).claimed()

    async def settle(actor: Any, self: Participant) -> None:
        await actor.pause("ack")
        await actor.attempt(MOVES["ack"](self, new))

    return {"v": settle_both(leases), "w": settle}


async def both_late(verb: str, world: World) -> Programs:
    """Both leases have run out, and somebody claims while they are settled."""
    leases = await two_leased(world)
    world.clock.advance(EXPIRY)
    return {"v": settle_many(verb, leases), "w": work}


async def many_and_publish(verb: str, world: World) -> Programs:
    return {"v": settle_many(verb, await two_leased(world)), "p": publish}


async def ack_many_and_work(world: World) -> Programs:
    leases = await two_leased(world)
    await (await world.join()).publish("h")
    return {"v": settle_many("ack", leases), "w": work}


async def two_claims_of_two_of_three_groups(world: World) -> Programs:
    await (await world.join()).publish_many("g", "h", "i")
    return {"v": claim_two, "w": claim_two}


BATCHES: dict[str, Scene] = {
    scene.__name__: scene for scene in (ack_many_and_work, two_claims_of_two_of_three_groups)
}
BATCHES["acks_together_of_which_one_is_lost"] = partial(one_lost, ack_together)
for verb in MANY_MOVES:
    BATCHES[f"{verb}_many_of_which_one_is_lost"] = partial(one_lost, partial(settle_many, verb))
    BATCHES[f"late_{verb}_many_and_work"] = partial(both_late, verb)
    BATCHES[f"{verb}_many_and_publish"] = partial(many_and_publish, verb)
