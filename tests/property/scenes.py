"""What the interleaving tests have in common: operations, and things that happen to them."""

from collections.abc import Callable, Coroutine
from typing import Any

from fairlane import Lease
from property.script import Happening, Point, Script, crash
from property.world import VISIBILITY, Participant, World

__all__ = (
    "EXPIRY",
    "FINAL",
    "MANY_MOVES",
    "MOVES",
    "PARKED_FOR",
    "SETTLEMENTS",
    "Move",
    "died",
    "expired_and_claimed_by",
    "expired_and_settled_by",
    "expiry",
    "is_decided",
    "leased",
    "snapshot",
)

EXPIRY = VISIBILITY + 1.0
PARKED_FOR = 600.0

Move = Callable[[Participant, Lease[Any]], Coroutine[Any, Any, bool]]
"""Something done with a lease; returns whether it was still held."""

ManyMove = Callable[[Participant, list[Lease[Any]]], Coroutine[Any, Any, list[bool]]]
"""Something done with leases together; returns of each whether it was still held."""


async def park(worker: Participant, lease: Lease[Any]) -> bool:
    return await worker.nack(lease, PARKED_FOR)


MOVES: dict[str, Move] = {
    "ack": Participant.ack,
    "nack": Participant.nack,
    "park": park,
    "release": Participant.release,
    "dead_letter": Participant.dead_letter,
    "extend": Participant.extend,
}
MANY_MOVES: dict[str, ManyMove] = {
    "ack": Participant.ack_many,
    "nack": Participant.nack_many,
}
SETTLEMENTS = tuple(name for name in MOVES if name != "extend")
FINAL = ("ack", "dead_letter")


async def leased(
    world: World, worker: Participant, *, messages: int = 2, visibility: float = VISIBILITY
) -> Lease[Any]:
    """Publish some messages to one group and lease the first."""
    publisher = await world.join()
    for _ in range(messages):
        await publisher.publish()
    return await worker.claimed(visibility)


async def died(
    world: World, before: str, operation: Callable[[Participant], Coroutine[Any, Any, object]]
) -> None:
    """Let a participant die in the operation before its first driver call of that name."""
    script = Script(before, crash)
    await script.run(operation(await world.join(script)))
    assert script.is_dead, f"{script} was not reached"


def is_decided(script: Script) -> bool:
    """Whether the settlement had been written when the script struck, if it did."""
    return not script.has_struck or script.point != Point(0, is_after=False)


async def snapshot(world: World) -> list[list[Any]]:
    return [await world.stored(part) for part in ("messages", "locks", "dead")]


def expiry(world: World) -> Happening:
    """Return what lets every lease run out."""

    async def strike(_: Script) -> None:
        world.clock.advance(EXPIRY)

    return strike


def expired_and_claimed_by(worker: Participant, world: World) -> Happening:
    async def strike(_: Script) -> None:
        world.clock.advance(EXPIRY)
        await worker.claim()

    return strike


def expired_and_settled_by(worker: Participant, world: World, move: Move) -> Happening:
    async def strike(_: Script) -> None:
        world.clock.advance(EXPIRY)
        lease = await worker.claim()
        if lease is not None:
            await move(worker, lease)

    return strike
