"""Explore a scene completely and tell what is wrong with it, by its smallest schedule.

Every order of moves is played, in the plainest way, so that nothing can be left out by mistake.
"""

import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from property.actors import Fate, Program, go
from property.known_subjects import SubjectStage
from property.scheduler import Choose, Lots, Seated, join, run
from property.world import World

__all__ = ("Cast", "Defect", "Scene", "defect_of", "expect_no_defect")


async def nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays in a scene.

    Attributes:
        programs: what each participant does, by name.
        ahead: by how many seconds the clocks of some participants' machines are ahead.
        fates: what may become of each driver call.
        epilogue: what happens when all programs have ended.
    """

    programs: Mapping[str, Program]
    ahead: Mapping[str, float] = field(default_factory=dict)
    fates: tuple[Fate, ...] = (go,)
    epilogue: Callable[[], Awaitable[object]] = nothing


Scene = Callable[[World], Awaitable[Cast]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """What exploration finds wrong.

    Attributes:
        violations: what the judge says of the schedules that are not right.
        schedule: the smallest of them, turn by turn: of those with the fewest changes of turn the
            first.
        found_by: the number of the schedule that was the first not to be right.
        convicting: how many are not right.
        schedules: how many there are.
    """

    violations: set[str]
    schedule: tuple[str, ...]
    found_by: int
    convicting: int
    schedules: int


async def defect_of(stage: SubjectStage, scene: Scene) -> Defect:
    """Play every schedule, whatever is wrong with them, and return what that is."""
    convicting: list[tuple[str, ...]] = []
    violations: set[str] = set()
    numbers = itertools.count(1)
    found_by = 0

    async def play(choose: Choose) -> None:
        nonlocal found_by
        number = next(numbers)
        trace, error = await perform(stage, scene, choose)
        if error is not None:
            found_by = found_by or number
            convicting.append(turns(trace))
            violations.update(f"{error}".partition("\nlog:")[0].split("\n"))

    schedules = await every_schedule(play)
    assert convicting, f"nothing is wrong in {schedules} schedules"
    return Defect(
        violations=violations,
        schedule=min(convicting, key=len),
        found_by=found_by,
        convicting=len(convicting),
        schedules=schedules,
    )


async def expect_no_defect(stage: SubjectStage, scene: Scene) -> None:
    """Play every schedule; raise for the first that is not right."""

    async def play(choose: Choose) -> None:
        trace, error = await perform(stage, scene, choose)
        if error is not None:
            error.add_note("\n".join(turns(trace)))
            raise error

    await every_schedule(play)


async def perform(
    stage: SubjectStage, scene: Scene, choose: Choose
) -> tuple[list[str], AssertionError | None]:
    """Play one schedule of the scene; return its moves and what is wrong with it."""
    world = await stage.fresh()
    cast = await scene(world)
    lots = Lots(choose, fates=cast.fates)
    programs: Seated = {}
    for name, program in cast.programs.items():
        actor, participant = await join(world, name)
        await stage.set_wall(participant, cast.ahead.get(name, 0.0))
        programs[actor] = program(actor, participant)
    try:
        await run(programs, lots.turn)
        await cast.epilogue()
        await world.check()
    except AssertionError as error:
        return lots.trace, error
    return lots.trace, None


def turns(trace: list[str]) -> tuple[str, ...]:
    """Put the moves of one participant from one change of turn to the next into one line."""
    moves = [move.removesuffix(" go").split(" ", 1) for move in trace]
    return tuple(
        f"{name}: {', '.join(step for _, step in turn)}"
        for name, turn in groupby(moves, key=itemgetter(0))
    )


class Walk:
    """Repeats a given beginning of choices, then takes the first option; notes all choices."""

    def __init__(self, beginning: list[int]) -> None:
        self._beginning = beginning
        self.made: list[tuple[int, int]] = []

    def __call__(self, options: int) -> int:
        number = len(self.made)
        choice = self._beginning[number] if number < len(self._beginning) else 0
        self.made.append((choice, options))
        return choice

    def next_beginning(self) -> list[int] | None:
        """Return the choices of the next schedule up to the first new one; None after the last."""
        made = list(self.made)
        while made and made[-1][0] + 1 == made[-1][1]:
            made.pop()
        if not made:
            return None
        return [choice for choice, _ in made[:-1]] + [made[-1][0] + 1]


async def every_schedule(play: Callable[[Choose], Awaitable[object]]) -> int:
    """Play every schedule there is, depth first; return how many there were."""
    number = 0
    beginning: list[int] | None = []
    while beginning is not None:
        walk = Walk(beginning)
        try:
            await play(walk)
        except Exception as error:
            error.add_note(f"choices: {[choice for choice, _ in walk.made]}")
            raise
        number += 1
        beginning = walk.next_beginning()
    return number
