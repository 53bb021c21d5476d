"""Let one trouble meet one operation in a fresh world, and judge what becomes of it."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from pymongo.errors import PyMongoError

from integration.wire.operations import Operation
from property.script import Outcome
from property.world import Participant, ServerStage, World

__all__ = ("JoinVictim", "Player", "Trouble")

JoinVictim = Callable[[World], Participant]
Trouble = Callable[[], AbstractAsyncContextManager[None]]
"""Enters the state in which commands of the victim fail; leaving it, all is well again."""


class Player:
    def __init__(self, stage: ServerStage, join_victim: JoinVictim) -> None:
        self._stage = stage
        self._join_victim = join_victim

    async def play(self, operation: Operation, trouble: Trouble) -> Outcome:
        """Return how the operation ended; whatever that is, the invariants must hold.

        An error must be the driver's. Then the caller goes on as if it did not know whether the
        operation took effect, and an hour later one claimer finds all there is.
        """
        world = await self._stage.fresh()
        victim = self._join_victim(world)
        subject = await operation.arrange(world, victim)
        async with trouble():
            outcome = await outcome_of(operation.act(victim, subject))
        await operation.then(victim, subject, outcome)
        await world.check()
        return outcome


async def outcome_of(act: Awaitable[Any]) -> Outcome:
    try:
        return Outcome(value=await act)
    except PyMongoError as error:
        return Outcome(error=error)
