"""Explore a small scene completely: every schedule, with at most so many faults anywhere."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from unittest.mock import patch

from fairlane.transport import _claim
from property.actors import (
    Actor,
    Fate,
    Program,
    cancel,
    cancel_after,
    crash_after,
    crash_before,
    go,
    lose_reply,
    number_ids,
    own_hex,
    refuse,
    refuse_for_good,
)
from property.footprint import Footprint
from property.scenes import EXPIRY
from property.schedule_tree import Move, Node, Redundant, Tree
from property.scheduler import run, seat
from property.world import MemoryStage, World

__all__ = ("Explored", "Scene", "explore", "replay")

Scene = Callable[[World], Awaitable[Mapping[str, Program]]]
"""Prepares a world and returns who acts in it: programs by their names."""

FAULTS = (crash_after, cancel, cancel_after, lose_reply, refuse, refuse_for_good)
FATES: dict[str, Fate] = {fate.__name__: fate for fate in (go, *FAULTS, crash_before)}
JUMP = Move("clock", "jump")
"""The clock jumps past every lease: a fault like the others."""


@dataclass(slots=True)
class Explored:
    """What an exploration has played, and how it ended each time."""

    schedules: int = 0
    redundant: int = 0
    endings: set[int] = field(default_factory=set)


async def explore(
    scene: Scene, *, is_recent: bool = True, faults: int = 1, is_pruned: bool = True
) -> Explored:
    """Play every schedule with at most so many faults; raise what the judge finds, with its moves.

    Args:
        is_recent: the server has the commands that not every server has.
        faults: how many may strike in one schedule.
        is_pruned: leave out schedules that differ only in the order of moves that do not meet.
    """
    stage, tree = MemoryStage(is_recent=is_recent), Tree(is_pruned=is_pruned)
    explored = Explored()
    is_more = True
    with patch.object(_claim, "uuid4", OwnId):
        while is_more:
            play = Play(stage, tree, faults=faults)
            try:
                explored.endings.add(await play.run(scene))
                explored.schedules += 1
            except Redundant:
                explored.redundant += 1
            is_more = tree.go_on()
    return explored


async def replay(scene: Scene, moves: str, *, is_recent: bool = True) -> None:
    """Play one schedule, given as `explore` prints it, and let it end without further faults."""
    tree = Tree()
    tree.path = [Node([move], {}, move=move) for move in map(Move.parsed, moves.split())]
    await Play(MemoryStage(is_recent=is_recent), tree, faults=0).run(scene)


class OwnId:
    """Stands in for a random id: unique beside the name of its participant, and always the same."""

    def __init__(self) -> None:
        self.hex = own_hex()


class Play:
    """One schedule: first the path of the tree, then always the first move that is new."""

    def __init__(self, stage: MemoryStage, tree: Tree, *, faults: int) -> None:
        self._stage = stage
        self._tree = tree
        self._faults = faults
        self._number = 0
        self._asleep: dict[Move, Footprint] = {}
        self._cast: list[Actor] = []

    async def run(self, scene: Scene) -> int:
        """Play and judge; return what tells this ending from others."""
        number_ids()
        self._world = await self._stage.fresh()
        programs = await seat(self._world, await scene(self._world))
        self._cast = list(programs)
        try:
            await run(programs, self._turn)
            ending = self._ending()
            await self._world.expect_stats_agree()
            await self._world.check()
        except Redundant:
            await self._end()
            raise
        except Exception as error:
            error.add_note(f"moves: {' '.join(str(node.move) for node in self._tree.path)}")
            raise
        return ending

    async def _turn(self, parked: list[Actor]) -> None:
        if self._number == len(self._tree.path):
            self._tree.arrive(self._state(), self._options(parked), self._asleep)
        node = self._tree.path[self._number]
        self._number += 1
        assert node.move is not None
        footprint = await self._make(node.move)
        node.made[node.move] = footprint
        self._asleep = node.asleep_after(footprint)

    def _options(self, parked: list[Actor]) -> list[Move]:
        options = []
        for actor in parked:
            options.append(Move(actor.name))
            if self._faults and not actor.is_paused:
                options += [Move(actor.name, fate.__name__) for fate in FAULTS]
                if actor.calls == 1:  # else a crash before the call is one after the call before
                    options.append(Move(actor.name, crash_before.__name__))
        return [*options, JUMP] if self._faults else options

    async def _make(self, move: Move) -> Footprint:
        before = self._world.clock()
        self._stage.observe()
        self._world.log.footprint = Footprint()
        await self._perform(move)
        footprint = self._stage.observe()
        footprint.add_notes(self._world.log.footprint)
        footprint.is_fault = move.is_fault
        footprint.is_seen_by_all = self._world.clock() != before
        return footprint

    async def _perform(self, move: Move) -> None:
        self._faults -= move.is_fault
        if move == JUMP:
            self._world.clock.advance(EXPIRY)
            return
        actor = next((actor for actor in self._cast if actor.name == move.actor), None)
        if actor is None or actor.parked_at is None:
            raise ValueError(f"{move.actor} has no move now")
        actor.note(self._world.clock())
        await actor.meet(FATES[move.fate])

    def _state(self) -> int:
        """Return what all that can still happen depends on, and what the judge will say of it."""
        actors = tuple(actor.state() for actor in self._cast)
        return hash((self._faults, actors, self._ending()))

    def _ending(self) -> int:
        """Return what tells this moment from others for somebody who has not seen how it came."""
        log, clock = self._world.log.state(), self._world.clock()
        return hash((log, clock, self._world.lookout.state(), self._stage.contents()))

    async def _end(self) -> None:
        """Let everybody die who is in the middle of something."""
        for actor in self._cast:
            while actor.parked_at is not None:
                await actor.meet(crash_before)
            assert actor.task is not None
            actor.task.exception()
