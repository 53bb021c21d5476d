"""A participant that is parked at each of its driver calls, and what may become of such a call."""

import asyncio
import contextvars
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

from pymongo.errors import AutoReconnect, OperationFailure

from fairlane import Lease
from property.script import Crashed, Outcome, outcome_of
from property.wire import Call, Step
from property.world import Participant, Refused

__all__ = (
    "Actor",
    "Fate",
    "Program",
    "cancel",
    "cancel_after",
    "crash_after",
    "crash_before",
    "go",
    "lose_reply",
    "number_ids",
    "own_hex",
    "own_key",
    "refuse",
    "refuse_for_good",
)

Fate = Callable[["Actor", Call], Awaitable[Any]]
"""What becomes of a driver call."""

Program = Callable[["Actor", Participant], Coroutine[Any, Any, object]]

PAUSE = "pause"
IDS: contextvars.ContextVar[tuple[str, Iterator[int]]] = contextvars.ContextVar("IDS")
"""The name of a participant, and the numbers of ids that it has not used yet."""


class NotSent(Refused, AutoReconnect):
    pass


class NotAllowed(Refused, OperationFailure):
    pass


class Actor:
    """A participant's program: a task that is parked at its driver calls until it may go on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.memory: Callable[[], object] = lambda: None
        """What its process remembers beside the program."""
        self.is_dead = False
        self._history = 0
        self.parked_at: Step | None = None
        self.task: asyncio.Future[object] | None = None
        self.calls = 0
        """Driver calls of the operation at work, with the one at which it is parked."""
        self._operation: asyncio.Future[Any] | None = None
        self._is_cancelled = False
        self._go_on: asyncio.Future[Fate] | None = None
        self._changed = asyncio.Event()

    async def attempt(self, operation: Coroutine[Any, Any, Any]) -> Outcome:
        """Run an operation that may be cancelled; only a crash ends the program as well.

        The program must not care which error it was, nor how the operation came to its end: those
        ends are taken for the same from which it goes on alike.
        """
        history, self.calls = self._history, 0
        self._operation = asyncio.ensure_future(operation)
        await asyncio.wait((self._operation,))
        outcome = outcome_of(self._operation)
        if isinstance(outcome.error, Crashed):
            raise outcome.error
        self._is_cancelled = False
        self._history = history
        self.note((outcome.error is None, told(outcome.value), self.memory()))
        return outcome

    async def park(self, step: Step) -> Fate:
        """Wait for a turn; return what is to become of the call."""
        self._go_on = asyncio.get_running_loop().create_future()
        self.parked_at = step
        self.calls += 1
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
        context.run(number_ids, self.name)
        self.task = asyncio.get_running_loop().create_task(program, context=context)
        self.task.add_done_callback(lambda _: self._changed.set())


def told(value: Any) -> object:
    """Return all that the caller is told, which is more than its representation where it leases."""
    if isinstance(value, Lease):
        return value, value._seen
    return [told(each) for each in value] if isinstance(value, list) else value


def number_ids(name: str = "") -> None:
    """Begin to number the ids of this participant."""
    IDS.set((name, itertools.count()))


def own_hex() -> str:
    """Return an id that this participant has not had before, and has in every run."""
    return f"{next(IDS.get()[1]):032x}"


def own_key() -> str:
    """Return such an id that nobody else has either."""
    name, numbers = IDS.get()
    return f"{next(numbers)}-{name}"


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
