"""Decide at every driver call which participant goes on, and what becomes of its call.

Only one participant moves at a time, from one of its driver calls to the next. All that is left to
chance is a sequence of choices, each one of n options: for instance
drawn from a seed (`Dice`). The same choices give the same run.
"""

import asyncio
import contextvars
import itertools
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from typing import Any

from pymongo.errors import AutoReconnect, OperationFailure

from property.script import Crashed, Outcome, outcome_of
from property.wire import Call, Conduct, Step
from property.world import Refused

__all__ = (
    "Actor",
    "Choose",
    "Dice",
    "Fate",
    "Scheduler",
    "cancel",
    "cancel_after",
    "crash_after",
    "crash_before",
    "go",
    "lose_reply",
    "number_ids",
    "own_hex",
    "refuse",
    "refuse_for_good",
)

Choose = Callable[[int], int]
"""Picks one of n options."""

Fate = Callable[["Actor", Call], Awaitable[Any]]
"""What becomes of a driver call."""


Turn = Callable[[list["Actor"]], Awaitable[object]]
"""Lets one of the participants that wait make a move."""


PAUSE = "pause"
IDS: contextvars.ContextVar[Iterator[int]] = contextvars.ContextVar("IDS")
"""The ids that a participant has not used yet."""


class NotSent(Refused, AutoReconnect):
    pass


class NotAllowed(Refused, OperationFailure):
    pass


class Dice:
    """Choices drawn from a seed."""

    def __init__(self, seed: object) -> None:
        self._random = random.Random(f"{seed}")

    def __call__(self, options: int) -> int:
        return self._random.randrange(options)


class Actor:
    """A participant's program: a task that is parked at its driver calls until it may go on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self._history = 0
        self.parked_at: Step | None = None
        self.task: asyncio.Future[object] | None = None
        self._operation: asyncio.Future[Any] | None = None
        self._is_cancelled = False
        self._go_on: asyncio.Future[Fate] | None = None
        self._changed = asyncio.Event()

    async def attempt(self, operation: Coroutine[Any, Any, Any]) -> Outcome:
        """Run an operation that may be cancelled; only a crash ends the program as well."""
        self._operation = asyncio.ensure_future(operation)
        await asyncio.wait((self._operation,))
        outcome = outcome_of(self._operation)
        if isinstance(outcome.error, Crashed):
            raise outcome.error
        self._is_cancelled = False
        self.note(outcome)
        return outcome

    async def park(self, step: Step) -> Fate:
        """Wait for a turn; return what is to become of the call."""
        self._go_on = asyncio.get_running_loop().create_future()
        self.parked_at = step
        self._changed.set()
        try:
            return await self._go_on
        finally:
            self.parked_at = None

    async def move(self, fate: Fate) -> None:
        """Let the call happen and the program run on to its next one, or to its end."""
        assert self._go_on is not None
        self._changed.clear()
        self._go_on.set_result(fate)
        await self.rest()

    async def meet(self, fate: Fate) -> None:
        """Make a move, or be cancelled where it stands."""
        await (self.cancel() if fate is cancel else self.move(fate))

    async def reach(self, step: str) -> None:
        """Go on to the next driver call of that name."""
        while self.parked_at is not None and str(self.parked_at) != step:
            await self.move(go)
        assert self.parked_at is not None, f"{self.name} has ended before {step}"

    async def finish(self) -> None:
        """Go on to the end."""
        while self.parked_at is not None:
            await self.move(go)

    async def cancel(self) -> None:
        """Cancel the operation at work. A call that is not shielded ends here."""
        self._changed.clear()
        self.be_cancelled()
        if self._is_cancelled_here():
            await self.rest()

    def be_cancelled(self) -> None:
        assert self._operation is not None
        self._is_cancelled = True
        self._operation.cancel()

    def note(self, fact: object) -> None:
        """Add to the history what the program has met."""
        self._history = hash((self._history, repr(fact)))

    def state(self) -> object:
        """Return what the program goes on from: while it lives, all that it has met."""
        assert self.task is not None
        if self.is_dead or self.task.done():
            return None
        return self._history, str(self.parked_at), self._is_cancelled

    @property
    def is_paused(self) -> bool:
        """Whether it waits outside of an operation."""
        return self.parked_at is not None and self.parked_at.collection == PAUSE

    async def pause(self, before: str) -> None:
        """Wait for a turn outside of the driver calls, before an operation begins."""
        fate = await self.park(Step(PAUSE, before))
        await fate(self, nothing)

    async def rest(self) -> None:
        """Wait until the program is parked or has ended."""
        await self._changed.wait()
        while self.parked_at is not None and self._is_cancelled_here():
            self._changed.clear()
            await self._changed.wait()

    def _is_cancelled_here(self) -> bool:
        return self._go_on is not None and self._go_on.cancelled()

    def start(self, program: Coroutine[Any, Any, object]) -> None:
        context = contextvars.copy_context()
        context.run(number_ids)
        self.task = asyncio.get_running_loop().create_task(program, context=context)
        self.task.add_done_callback(lambda _: self._changed.set())


class Scheduler:
    """Runs programs to their end, one driver call at a time.

    Args:
        choose: makes every choice.
        fates: what may become of a call; one of them is chosen for each.
        interlude: called before each turn, with `choose`; for what happens to all (the clock).
    """

    def __init__(
        self,
        choose: Choose,
        *,
        fates: tuple[Fate, ...] = (),
        interlude: Callable[[Choose], object] = lambda _: None,
    ) -> None:
        self.trace: list[str] = []
        self._choose = choose
        self._fates = fates or (go,)
        self._interlude = interlude

    def conduct(self, actor: Actor) -> Conduct:
        """Return what makes the actor's driver calls; to be put on its wire."""

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

    async def run(
        self, programs: Mapping[Actor, Coroutine[Any, Any, object]], turn: Turn | None = None
    ) -> None:
        """Run the programs until all have ended; raise what any of them raised."""
        await self.start(programs)
        while parked := [actor for actor in programs if actor.parked_at is not None]:
            await (turn or self.turn)(parked)
        for actor in programs:
            assert actor.task is not None
            with suppress(Crashed):
                await actor.task

    async def start(self, programs: Mapping[Actor, Coroutine[Any, Any, object]]) -> None:
        """Run each program to its first driver call."""
        for actor, program in programs.items():
            actor.start(program)
            await actor.rest()

    async def turn(self, parked: list[Actor]) -> None:
        self._interlude(self._choose)
        actor = parked[self._pick(len(parked))]
        fates = (go,) if actor.is_paused else self._fates
        fate = fates[self._pick(len(fates))]
        self.trace.append(f"{actor.name} {actor.parked_at} {getattr(fate, '__name__', fate)}")
        await actor.meet(fate)

    def _pick(self, options: int) -> int:
        return self._choose(options) if options > 1 else 0


def number_ids() -> None:
    """Begin to number the ids of this participant."""
    IDS.set(itertools.count())


def own_hex() -> str:
    """Return an id that this participant has not had before, and has in every run."""
    return f"{next(IDS.get()):032x}"


async def nothing() -> None:
    """Stands for the driver call where there is none."""


async def go(_: Actor, call: Call) -> Any:
    return await call()


async def crash_before(actor: Actor, _: Call) -> Any:
    actor.is_dead = True
    raise Crashed


async def crash_after(actor: Actor, call: Call) -> Any:
    await call()
    actor.is_dead = True
    raise Crashed


async def refuse(_: Actor, __: Call) -> Any:
    raise NotSent("connection closed before the command was sent")


async def refuse_for_good(_: Actor, __: Call) -> Any:
    raise NotAllowed("not authorized", 13)


async def lose_reply(_: Actor, call: Call) -> Any:
    await call()
    raise AutoReconnect("connection closed before the reply came")


async def cancel(_: Actor, __: Call) -> Any:
    """Stands for a cancellation of the operation; the call itself waits for another turn."""
    raise AssertionError


async def cancel_after(actor: Actor, call: Call) -> Any:
    """Cancel the operation when the server has applied the call, before it knows of it."""
    result = await call()
    actor.be_cancelled()
    return result
