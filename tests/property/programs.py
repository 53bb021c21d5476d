"""What somebody does in a small scene.

A participant pauses before each operation, so that everything else may happen between two of them.
"""

from typing import Any

from fairlane import Lease
from property.actors import Actor, Program
from property.cast import attempted
from property.scenes import EXPIRY, MANY_MOVES, MOVES, leased
from property.world import VISIBILITY, Participant, World

__all__ = (
    "Programs",
    "ack_together",
    "backwards",
    "claim",
    "claim_two",
    "expiry",
    "held",
    "passage",
    "publish",
    "publish_many",
    "publish_to",
    "publish_together",
    "reconcile",
    "reconcile_twice",
    "redrive",
    "repair",
    "repartition",
    "settle_many",
    "work",
    "work_ending_in",
    "work_on_two",
    "work_twice",
)

Programs = dict[str, Program]


def publish_to(group_id: str) -> Program:
    async def publish(actor: Actor, self: Participant) -> None:
        await actor.pause("publish")
        await attempted(actor, self.publish(group_id))

    return publish


publish = publish_to("g")


async def publish_many(actor: Actor, self: Participant) -> None:
    await actor.pause("publish_many")
    await attempted(actor, self.publish_many("g", "h", "g"))


async def publish_together(actor: Actor, self: Participant) -> None:
    await actor.pause("publish")
    await attempted(actor, self.publish_together("g", "h", "g"))


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


async def claim_two(actor: Actor, self: Participant) -> None:
    await actor.pause("claim_many")
    await attempted(actor, self.claim_many(2))


async def work_twice(actor: Actor, self: Participant) -> None:
    await work(actor, self)
    await work(actor, self)


def backwards(program: Program) -> Program:
    """Return the program of one who walks the partitions in the other order."""

    async def walk(actor: Actor, self: Participant) -> None:
        self.walk(is_backwards=True)
        await program(actor, self)

    return walk


async def repair(actor: Actor, self: Participant) -> None:
    await actor.pause("repair")
    await attempted(actor, self.repair())


async def redrive(actor: Actor, self: Participant) -> None:
    await actor.pause("redrive")
    await attempted(actor, self.redrive())


async def held(world: World, *verbs: str, visibility: float = VISIBILITY) -> Program:
    """Return the program of somebody who holds a lease, and who is in no hurry to end it."""
    lease = await leased(world, await world.join(), messages=1, visibility=visibility)

    async def settle(actor: Actor, self: Participant) -> None:
        for verb in verbs:
            await actor.pause(verb)
            await attempted(actor, MOVES[verb](self, lease))

    return settle


def settle_many(verb: str, leases: list[Lease[Any]]) -> Program:
    """Return the program of somebody who holds these leases, and ends them together."""

    async def settle(actor: Actor, self: Participant) -> None:
        await actor.pause(f"{verb}_many")
        await attempted(actor, MANY_MOVES[verb](self, leases))

    return settle


def ack_together(leases: list[Lease[Any]]) -> Program:
    """Return the program of somebody whose tasks acknowledge these leases at one time."""

    async def settle(actor: Actor, self: Participant) -> None:
        await actor.pause("ack")
        await attempted(actor, self.ack_together(leases))

    return settle


def repartition(partitions: int) -> Program:
    async def change(actor: Actor, self: Participant) -> None:
        await actor.pause("repartition")
        await attempted(actor, self.repartition(partitions))

    return change


async def reconcile(actor: Actor, self: Participant) -> None:
    await actor.pause("reconcile")
    await attempted(actor, self.reconcile())


async def reconcile_twice(actor: Actor, self: Participant) -> None:
    await reconcile(actor, self)
    await reconcile(actor, self)


def passage(world: World, *steps: float) -> Program:
    """Return the program of the time, which passes in these steps."""

    async def pass_by(actor: Actor, _: Participant) -> None:
        for seconds in steps:
            await actor.pause(f"{seconds:g} seconds")
            world.clock.advance(seconds)

    return pass_by


def expiry(world: World) -> Program:
    return passage(world, EXPIRY)
