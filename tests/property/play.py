"""One schedule that is being played: moves are made one by one, and what they do is observed."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Protocol

from fairlane.testing import ManualClock
from property.actors import (
    Actor,
    Fate,
    cancel,
    cancel_after,
    crash_after,
    crash_before,
    go,
    lose_reply,
    number_ids,
    refuse,
    refuse_for_good,
)
from property.footprint import Footprint
from property.moments import JUMP, Moment, Move, Outcome, Stand
from property.scenes import EXPIRY
from property.scheduler import seat, start
from property.script import Crashed
from property.wire import Conduct

__all__ = ("AnyScene", "Play", "PlayedStage", "PlayedWorld")

AnyScene = Callable[
    [Any], Awaitable[Mapping[str, Callable[[Actor, Any], Coroutine[Any, Any, object]]]]
]
"""Prepares a world and returns who acts in it: programs by their names."""


class PlayedLog(Protocol):
    footprint: Footprint

    def state(self) -> object:
        """Return what the judgement of all that may follow depends on."""


class PlayedWorld(Protocol):
    clock: ManualClock

    @property
    def log(self) -> PlayedLog: ...

    async def join(self, conduct: Conduct) -> Any: ...

    def state(self) -> object:
        """Return what tells this world from others, its log and its documents included."""

    async def judge(self) -> None:
        """Raise if anything is wrong when everybody has ended."""


class PlayedStage(Protocol):
    """Where worlds are set up in which everything can be observed."""

    async def fresh(self) -> PlayedWorld: ...

    def observe(self) -> Footprint:
        """Return what was read and written since the last call."""


FAULTS = (crash_after, cancel, cancel_after, lose_reply, refuse, refuse_for_good)
FATES: dict[str, Fate] = {fate.__name__: fate for fate in (go, *FAULTS, crash_before)}


class Play:
    """A world in which everybody waits for the next move."""

    def __init__(self, stage: PlayedStage, world: PlayedWorld, cast: list[Actor]) -> None:
        self._stage = stage
        self._world = world
        self._cast = cast

    @classmethod
    async def begun(cls, stage: PlayedStage, scene: AnyScene) -> "Play":
        """Set the scene, and let everybody come to the first driver call."""
        number_ids()
        world = await stage.fresh()
        seated = await seat(world, await scene(world))
        play = cls(stage, world, list(seated))
        await start(seated)
        return play

    async def make(self, move: Move) -> None:
        """Make a move; raise what a program raised that it ended, unless it crashed."""
        if move == JUMP:
            self._world.clock.advance(EXPIRY)
            return
        actor = self._actor(move.actor)
        if actor is None or actor.parked_at is None:
            raise ValueError(f"{move.actor} has no move now")
        actor.note(self._world.clock())
        await actor.meet(FATES[move.fate])
        assert actor.task is not None
        if actor.task.done():
            with suppress(Crashed):
                actor.task.result()

    async def observe(self, move: Move) -> Outcome:
        """Make a move and tell what it has led to."""
        before = self._world.clock()
        self._stage.observe()
        self._world.log.footprint = Footprint()
        await self.make(move)
        footprint = self._stage.observe()
        footprint.add_notes(self._world.log.footprint)
        footprint.is_fault = move.is_fault
        footprint.is_seen_by_all = self._world.clock() != before
        mover = self._actor(move.actor)
        return Outcome(None if mover is None else _stand(mover), self._ending(), footprint)

    def moment(self, faults: int) -> Moment:
        """Return the present moment, in which so many faults may follow."""
        return Moment(faults, {actor.name: _stand(actor) for actor in self._cast}, self._ending())

    def waiting(self) -> list[str]:
        """Return the names of those who have not ended."""
        return [actor.name for actor in self._cast if actor.parked_at is not None]

    async def judge(self) -> None:
        await self._world.judge()

    async def end(self) -> None:
        """Let everybody die who is in the middle of something."""
        for actor in self._cast:
            while actor.parked_at is not None:
                await actor.meet(crash_before)
            assert actor.task is not None
            actor.task.exception()

    def _ending(self) -> int:
        """Return what tells this moment from others for somebody who has not seen how it came."""
        return hash((self._world.clock(), self._world.state()))

    def _actor(self, name: str) -> Actor | None:
        return next((actor for actor in self._cast if actor.name == name), None)


def _stand(actor: Actor) -> Stand:
    return Stand(actor.state(), tuple(_moves(actor)))


def _moves(actor: Actor) -> list[Move]:
    if actor.parked_at is None:
        return []
    moves = [Move(actor.name)]
    if not actor.is_paused:
        moves += [Move(actor.name, fate.__name__) for fate in FAULTS]
        if actor.calls == 1:  # else a crash before the call is one after the call before
            moves.append(Move(actor.name, crash_before.__name__))
    return moves
