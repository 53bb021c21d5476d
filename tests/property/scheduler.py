"""Decide at every driver call which participant goes on, and what becomes of its call.

Only one participant moves at a time, from one of its driver calls to the next. Who that is, a turn
decides: `Lots` does it by a sequence of choices, each one of n options, for instance drawn from a
seed (`Dice`). The same choices give the same run.
"""

import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from property.actors import Actor, Fate, go
from property.script import Crashed
from property.wire import Call, Conduct, Step

__all__ = ("Choose", "Dice", "Lots", "Seated", "join", "run", "seat", "start")


class Remembering(Protocol):
    """A process: it may remember something of its operations, of its own accord."""

    def memory(self) -> object: ...


P = TypeVar("P", bound=Remembering)
P_co = TypeVar("P_co", bound=Remembering, covariant=True)


class Joinable(Protocol[P_co]):
    """A world, which participants join."""

    async def join(self, conduct: Conduct) -> P_co: ...


Choose = Callable[[int], int]
"""Picks one of n options."""

Seated = dict[Actor, Coroutine[Any, Any, object]]
"""Who acts, and what each one will do when it is started."""

Turn = Callable[[list[Actor]], Awaitable[object]]
"""Lets one of the participants that wait make a move."""


class Dice:
    """Choices drawn from a seed."""

    def __init__(self, seed: object) -> None:
        self._random = random.Random(f"{seed}")

    def __call__(self, options: int) -> int:
        return self._random.randrange(options)


async def join(world: Joinable[P], name: str) -> tuple[Actor, P]:
    """Add a participant to the world, all of whose driver calls wait for their turn."""
    actor = Actor(name)
    participant = await world.join(_conduct(actor))
    actor.memory = participant.memory
    return actor, participant


async def seat(
    world: Joinable[P],
    programs: Mapping[str, Callable[[Actor, P], Coroutine[Any, Any, object]]],
) -> Seated:
    """Let a participant join for each program."""
    seated: Seated = {}
    for name, program in programs.items():
        actor, participant = await join(world, name)
        seated[actor] = program(actor, participant)
    return seated


async def run(programs: Seated, turn: Turn) -> None:
    """Run the programs, one driver call at a time, until all have ended; raise what one raised."""
    await start(programs)
    while parked := [actor for actor in programs if actor.parked_at is not None]:
        await turn(parked)
    for actor in programs:
        assert actor.task is not None
        with suppress(Crashed):
            await actor.task


async def start(programs: Seated) -> None:
    """Run each program to its first driver call."""
    for actor, program in programs.items():
        actor.start(program)
        await actor.rest()


def _conduct(actor: Actor) -> Conduct:
    """Return what makes the actor's driver calls."""

    async def park_and_call(step: Step, call: Call) -> Any:
        if actor.is_dead:
            raise Crashed
        if actor.task is None or actor.task.done():  # before and after the play
            return await call()
        fate = await actor.park(step)
        try:
            result = await fate(actor, call)
        except Exception as error:
            actor.note(error)
            raise
        actor.note(result)
        return result

    return park_and_call


class Lots:
    """Turns that are drawn by lot.

    Args:
        choose: makes every choice.
        fates: what may become of a call; one of them is chosen for each.
        interlude: called before each turn, with `choose`; for what happens to all (the clock).
    """

    def __init__(
        self,
        choose: Choose,
        *,
        fates: tuple[Fate, ...],
        interlude: Callable[[Choose], object] = lambda _: None,
    ) -> None:
        self.trace: list[str] = []
        self._choose = choose
        self._fates = fates
        self._interlude = interlude

    async def turn(self, parked: list[Actor]) -> None:
        self._interlude(self._choose)
        actor = parked[self._pick(len(parked))]
        fates = (go,) if actor.is_paused else self._fates
        fate = fates[self._pick(len(fates))]
        self.trace.append(f"{actor.name} {actor.parked_at} {getattr(fate, '__name__', fate)}")
        await actor.meet(fate)

    def _pick(self, options: int) -> int:
        return self._choose(options) if options > 1 else 0
