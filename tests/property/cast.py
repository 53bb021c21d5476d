"""Programs for random schedules: publishers, workers, a janitor; each makes choices of its own."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from pymongo.errors import PyMongoError

from fairlane import Lease
from property.actors import Actor, Program
from property.explorer import Scene
from property.scenes import MANY_MOVES, MOVES
from property.scheduler import Choose, Dice
from property.script import Outcome
from property.world import Participant, World

__all__ = ("MOODS", "attempted", "crowd")

GROUPS = ("g", "h", "i")
MOODS = {
    "usual": ("ack",) * 6 + ("nack", "park", "release", "dead_letter", "extend", "keep"),
    "deadly": ("ack",) * 2 + ("dead_letter",) * 4 + ("nack", "keep"),
    "hesitant": ("ack",) * 2 + ("nack", "release", "extend", "keep", "keep"),
}
"""What workers do with their leases: each time one of these, in every run of a mood."""

RandomProgram = Callable[..., Coroutine[Any, Any, None]]
"""A program that also takes `choose`."""


async def publisher(actor: Actor, self: Participant, choose: Choose) -> None:
    for _ in range(1 + choose(3)):
        await attempted(actor, _publish(self, choose))


async def worker(manners: tuple[str, ...], actor: Actor, self: Participant, choose: Choose) -> None:
    """Claim and settle; now and then keep a lease for later, when it may have run out."""
    kept: list[Lease[Any]] = []
    for _ in range(2 + choose(4)):
        if kept and not choose(2):
            await attempted(actor, _settle(self, kept.pop(), choose))
        lease = (await attempted(actor, self.claim())).value
        if lease is not None:
            manner = manners[choose(len(manners))]
            if manner == "keep":
                kept.append(lease)
            else:
                await _deal_with(actor, self, lease, manner, choose)


async def batcher(actor: Actor, self: Participant, choose: Choose) -> None:
    """Claim many and settle some together; others are kept, and settled when they may be late."""
    self.walk(is_backwards=bool(choose(2)))
    kept: list[Lease[Any]] = []
    for _ in range(2 + choose(3)):
        kept += (await attempted(actor, self.claim_many(1 + choose(4)))).value or ()
        chosen = [lease for lease in kept if choose(4)]
        verb = ("ack", "ack", "nack")[choose(3)]
        await attempted(actor, MANY_MOVES[verb](self, chosen))
        if choose(8):  # else all are settled again, which must be refused
            kept = [lease for lease in kept if lease not in chosen]


async def janitor(actor: Actor, self: Participant, choose: Choose) -> None:
    for _ in range(1 + choose(2)):
        duty: Callable[[], Coroutine[Any, Any, object]] = (self.repair, self.dead_events)[choose(2)]
        await attempted(actor, duty())


async def redriver(actor: Actor, self: Participant, choose: Choose) -> None:
    for _ in range(1 + choose(2)):
        await attempted(actor, self.redrive())


def crowd(mood: str, seed: int, *, redrives: bool = False, stops: bool = False) -> Scene:
    """Return three publishers, three workers and one or two who look after the rest.

    One of the workers works on many groups at once. There are two partitions every other time.
    `stops`: a dead head stops its group.
    """
    programs: dict[str, RandomProgram] = {f"publisher-{number}": publisher for number in range(3)}
    for number in range(2):
        programs[f"worker-{number}"] = partial(worker, MOODS[mood])
    programs["batcher"] = batcher
    programs["janitor"] = janitor
    if redrives:
        programs["redriver"] = redriver

    async def scene(world: World) -> dict[str, Program]:
        await world.divide(1 + seed % 2)
        if stops:
            world.stop_at_dead_heads()
        return {
            name: partial(program, choose=Dice(f"{seed} {name}"))
            for name, program in programs.items()
        }

    return scene


async def attempted(actor: Actor, operation: Coroutine[Any, Any, Any]) -> Outcome:
    """Let an operation fail as it may: by an error of the driver or a cancellation."""
    outcome = await actor.attempt(operation)
    may_be = outcome.is_cancelled or isinstance(outcome.error, PyMongoError)
    if outcome.error is not None and not may_be:
        raise outcome.error
    return outcome


async def _deal_with(
    actor: Actor, self: Participant, lease: Lease[Any], manner: str, choose: Choose
) -> None:
    await attempted(actor, MOVES[manner](self, lease))
    if manner == "extend" or not choose(8):  # a second settlement, which must be refused
        await attempted(actor, _settle(self, lease, choose))


async def _settle(self: Participant, lease: Lease[Any], choose: Choose) -> bool:
    return await list(MOVES.values())[choose(len(MOVES))](self, lease)


async def _publish(self: Participant, choose: Choose) -> object:
    group_id = GROUPS[choose(len(GROUPS))]
    if choose(4):
        return await self.publish(group_id)
    return await self.publish_many(group_id, GROUPS[choose(len(GROUPS))], group_id)
