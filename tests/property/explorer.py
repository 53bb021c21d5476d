"""Explore a small scene completely: every schedule, with at most so many faults anywhere.

Only moves are played of which it is not known yet what they do. What a move does depends on the
documents, on the clock, and on what the one who makes it has met, not on what others have read: so
it is known if it was made once where these were the same (`Tree.foreseen`).
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from unittest.mock import patch

from fairlane.jobs import _claim as job_claim
from fairlane.jobs import _enqueue
from fairlane.transport import _claim
from property.actors import Program, own_hex, own_key
from property.moments import Move, Outcome
from property.play import AnyScene, Play, PlayedStage
from property.schedule_tree import Arrival, Tree
from property.world import MemoryStage, World

__all__ = ("Explored", "Scene", "explore", "own_ids", "replay")

Scene = Callable[[World], Awaitable[Mapping[str, Program]]]
"""Prepares a world of transports and returns who acts in it: programs by their names."""


@dataclass(slots=True)
class Explored:
    """What an exploration has found, and how it ended each time.

    Attributes:
        schedules: how many came to their end, played or foreseen.
        redundant: how many were given up because all that could follow had been explored.
        endings: what tells the ends apart; each of them was judged.
    """

    schedules: int = 0
    redundant: int = 0
    endings: set[int] = field(default_factory=set)


async def explore(
    scene: AnyScene,
    *,
    stage: PlayedStage | None = None,
    is_recent: bool = True,
    faults: int = 1,
    is_pruned: bool = True,
) -> Explored:
    """Play every schedule with at most so many faults; raise what the judge finds, with its moves.

    Args:
        stage: where the world of the scene is set up; None for one of transports.
        is_recent: the server has the commands that not every server has.
        faults: how many may strike in one schedule.
        is_pruned: leave out schedules that differ only in the order of moves that do not meet.
    """
    stage = stage or MemoryStage(is_recent=is_recent)
    with own_ids():
        play = await Play.begun(stage, scene)
        tree = Tree(play.moment(faults), is_pruned=is_pruned)
        exploration = Exploration(tree, Player(stage, scene, play))
        await exploration.run()
    return exploration.explored


async def replay(
    scene: AnyScene,
    moves: str,
    *,
    stage: PlayedStage | None = None,
    is_recent: bool = True,
) -> None:
    """Play one schedule, given as `explore` prints it, and let it end without further faults."""
    with own_ids():
        play = await Play.begun(stage or MemoryStage(is_recent=is_recent), scene)
        for move in map(Move.parsed, moves.split()):
            await play.make(move)
        while waiting := play.waiting():
            await play.make(Move(waiting[0]))
        await play.judge()


@contextmanager
def own_ids() -> Iterator[None]:
    """Let random ids be the same in every play of the same moves."""
    keys = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=own_key()))
    with (
        patch.object(_claim, "uuid4", OwnId),
        patch.object(job_claim, "uuid4", OwnId),
        patch.object(_enqueue, "uuid", keys),
    ):
        yield


class OwnId:
    """Stands in for a random id: unique beside the name of its participant, and always the same."""

    def __init__(self) -> None:
        self.hex = own_hex()


class Player:
    """Plays what it is told to, and goes on from where it is if that lies on the way."""

    def __init__(self, stage: PlayedStage, scene: AnyScene, play: Play) -> None:
        self._stage = stage
        self._scene = scene
        self._play: Play | None = play
        self._moves: list[Move] = []

    async def outcome(self, moves: list[Move]) -> Outcome:
        """Make these moves and tell what the last of them has led to."""
        *before, last = moves
        play = await self._brought(before)
        self._moves.append(last)
        return await play.observe(last)

    async def judge(self, moves: list[Move]) -> None:
        """Judge the schedule that has these moves and no more."""
        play = await self._brought(moves)
        self._play = None
        await play.judge()

    async def end(self) -> None:
        if self._play is not None:
            await self._play.end()

    async def _brought(self, moves: list[Move]) -> Play:
        if self._play is None or self._moves != moves[: len(self._moves)]:
            await self.end()
            self._play, self._moves = await Play.begun(self._stage, self._scene), []
        for move in moves[len(self._moves) :]:
            self._moves.append(move)
            await self._play.make(move)
        return self._play


class Exploration:
    def __init__(self, tree: Tree, player: Player) -> None:
        self.explored = Explored()
        self._tree = tree
        self._player = player

    async def run(self) -> None:
        """Walk the whole tree; the moves of a schedule that is not right are told with it."""
        while self._tree.go_on():
            moves = self._tree.moves
            try:
                await self._make_last(moves)
            except Exception as error:
                error.add_note(f"moves: {' '.join(map(str, moves))}")
                raise
        await self._player.end()

    async def _make_last(self, moves: list[Move]) -> None:
        outcome = self._tree.foreseen() or await self._player.outcome(moves)
        arrival = self._tree.arrive(outcome)
        self.explored.redundant += arrival is Arrival.WHERE_ALL_IS_KNOWN
        if arrival is Arrival.AT_THE_END:
            self.explored.schedules += 1
            await self._end(moves, outcome.ending)

    async def _end(self, moves: list[Move], ending: int) -> None:
        """Judge this end unless one like it was judged already."""
        if ending not in self.explored.endings:
            self.explored.endings.add(ending)
            await self._player.judge(moves)
