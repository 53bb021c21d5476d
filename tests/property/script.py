"""Make one thing happen at one point of an operation, and do so at every point of it.

A point is before or after a driver call. What can happen there is a plain coroutine function that
gets the `Script`: it may run other operations, raise, cancel, crash, or move the clock.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from pymongo.errors import AutoReconnect

from property.wire import Call, Step

__all__ = (
    "Crashed",
    "Happening",
    "Outcome",
    "Point",
    "Script",
    "at_every_point",
    "cancel",
    "cancel_twice",
    "crash",
    "fail",
    "outcome_of",
)


class Crashed(BaseException):
    """The process is dead: it is no `Exception`, and nothing reaches the database after it."""


@dataclass(frozen=True, slots=True)
class Point:
    """Before or after the driver call with this number, counted from 0."""

    number: int
    is_after: bool

    def __str__(self) -> str:
        return f"{'after' if self.is_after else 'before'} call {self.number}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an operation ended."""

    value: Any = None
    error: BaseException | None = None

    @property
    def is_cancelled(self) -> bool:
        return isinstance(self.error, asyncio.CancelledError)

    def result(self) -> Any:
        """Return what it returned, or raise what it raised."""
        if self.error is not None:
            raise self.error
        return self.value


def outcome_of(operation: asyncio.Future[Any]) -> Outcome:
    """Return how an operation ended that is done."""
    if operation.cancelled():
        return Outcome(error=asyncio.CancelledError())
    error = operation.exception()
    return Outcome(error=error) if error else Outcome(value=operation.result())


Happening = Callable[["Script"], Awaitable[object]]


class Script:
    """Counts the driver calls of an operation and lets `happening` strike at `point`.

    What the same transport does before and after that operation is no part of the play. Instead of
    a point there may be the name of a driver call: the happening strikes before the first of them.
    """

    def __init__(
        self, point: Point | str | None = None, happening: Happening | None = None
    ) -> None:
        self.point = point
        self.happening = happening
        self.steps: list[Step] = []
        self.has_struck = False
        self.is_dead = False
        self.operation: asyncio.Future[Any] | None = None

    async def __call__(self, step: Step, call: Call) -> Any:
        if self.is_dead:
            raise Crashed
        if self.operation is None or self.operation.done():
            return await call()
        number = len(self.steps)
        self.steps.append(step)
        await self._reach(Point(number, False), str(step))
        try:
            result = await call()
        except Exception:
            await self._reach(Point(number, True))
            raise
        await self._reach(Point(number, True))
        return result

    async def run(self, operation: Coroutine[Any, Any, Any]) -> Outcome:
        """Run the operation under this script to its end, whatever that is."""
        self.operation = asyncio.ensure_future(operation)
        await asyncio.wait((self.operation,))
        return outcome_of(self.operation)

    def rearm(self, point: Point | str, happening: Happening) -> None:
        """Let one more thing happen, later in the same operation."""
        self.point, self.happening, self.has_struck = point, happening, False

    async def _reach(self, point: Point, name: str | None = None) -> None:
        if self.has_struck or self.happening is None or self.point is None:
            return
        if self.point in (point, name):
            self.has_struck = True
            await self.happening(self)

    def __str__(self) -> str:
        calls = ", ".join(str(step) for step in self.steps)
        return f"{self.point or 'nowhere'} of [{calls}]"


async def at_every_point(
    happening: Happening | None, scenario: Callable[[Script], Awaitable[object]]
) -> int:
    """Play the scenario once for each point of its operation; return how many points there were.

    Up to the point a run does what the undisturbed one does, so a point that is not reached lies
    behind the end. The last run, in which nothing happens, is the undisturbed one.
    """
    for number in itertools.count():
        point = Point(number // 2, is_after=bool(number % 2))
        script = Script(point, happening)
        try:
            await scenario(script)
        except Exception as error:
            error.add_note(f"{script}")
            raise
        if not script.has_struck:
            assert number, "the operation makes no driver call"
            return number
    raise AssertionError


async def crash(script: Script) -> None:
    """Let the process die: this call does not go on, and no later one reaches the database."""
    script.is_dead = True
    raise Crashed


async def cancel(script: Script) -> None:
    """Cancel the operation; if the call is not shielded, this is where it ends."""
    assert script.operation is not None
    script.operation.cancel()
    await asyncio.sleep(0)


async def cancel_twice(script: Script) -> None:
    """Cancel an operation again while it deals with the first cancellation."""
    await cancel(script)
    for _ in range(5):  # until the first one has arrived at whatever shields the call
        await asyncio.sleep(0)
    await cancel(script)


def fail(error: Callable[[], Exception] = lambda: AutoReconnect("connection closed")) -> Happening:
    """Return what makes the driver report an error: after the call, its reply was lost."""

    async def strike(_: Script) -> None:
        raise error()

    return strike
