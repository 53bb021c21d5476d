"""Functions of an application around each handler: the first one is the outermost."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Literal

from fairlane import checks
from fairlane.containing import deliver_cancellation, insist_on_cancellation
from fairlane.errors import ConfigurationError, FairlaneError
from fairlane.retry import heed

__all__ = ("CallNext", "Middleware", "checked_middleware", "passed")

CallNext = Callable[[Any], Coroutine[Any, Any, Any]]
"""`await call_next(work)` calls the next middleware, or the handler, and returns what it returns.

Once at most, and before the middleware returns: a delivery is one call of the handler.
"""

Middleware = Callable[[Any, CallNext], Awaitable[Any]]
"""`async def middleware(work, call_next)`; `work` is the `Lease`, or the `JobContext` of a job.

What it raises, or returns, counts as if the handler had done so.
"""

State = Literal["waiting", "asked", "running", "ended", "cancelled", "over"]


def checked_middleware(value: Any) -> tuple[Middleware, ...]:
    """Return the functions; raises `ConfigurationError` naming the first that is none."""
    if not isinstance(value, list | tuple):
        raise ConfigurationError(f"middleware must be a list of functions, not {value!r:.100}")
    return tuple(_checked(f"middleware[{index}]", each) for index, each in enumerate(value))


def _checked(name: str, value: Any) -> Middleware:
    if inspect.isclass(value):
        raise ConfigurationError(f"{name} must be a function: make an instance of {value.__name__}")
    function = checks.function(name, value, "work", "call_next")
    if not checks.is_async(function):
        raise ConfigurationError(f"{name} must be an `async def`: it runs in the event loop")
    return function


async def passed(middleware: Sequence[Middleware], work: Any, handler: CallNext) -> Any:
    """Return what the outermost middleware returns; without any, what the handler does.

    Raises:
        Retry, Snooze, Reject, Discard: that was the result.
        FairlaneError: a middleware has not waited for what it called.
        StrayCancellation: one has returned though what it called was cancelled.
    """
    call = handler
    for each in reversed(middleware):
        call = partial(_called, each, call)
    return heed(await call(work))


async def _called(middleware: Middleware, following: CallNext, work: Any) -> Any:
    call_next = Next(following, getattr(middleware, "__name__", type(middleware).__name__))
    try:
        answer = await middleware(work, call_next)
        await call_next.check()
    finally:
        call_next.close()
    return answer


class Next:
    """The one call of what follows a middleware.

    A middleware that returns has settled the work. So it must not have swallowed a cancellation, or
    forgotten to wait: work that is not finished would be lost.
    """

    def __init__(self, following: CallNext, name: str) -> None:
        self._following = following
        self._name = name
        self._state: State = "waiting"
        self._call: Coroutine[Any, Any, Any] | None = None

    def __call__(self, work: Any) -> Coroutine[Any, Any, Any]:
        if self._state != "waiting":
            raise FairlaneError(
                f"middleware {self._name} may call call_next(work) once, before it returns"
            )
        self._state = "asked"
        self._call = self._run(work)
        return self._call

    async def _run(self, work: Any) -> Any:
        self._state = "running"
        try:
            answer = heed(await self._following(work))
            await deliver_cancellation()  # later, it would be that of the middleware
        except asyncio.CancelledError:
            self._state = "cancelled"
            raise
        except BaseException:
            self._state = "ended"
            raise
        self._state = "ended"
        return answer

    async def check(self) -> None:
        """Refuse the answer of a middleware that has left its work unfinished."""
        if self._state in ("asked", "running"):
            raise FairlaneError(
                f"middleware {self._name} must await call_next(work) before it returns"
            )
        if self._state != "ended":
            await insist_on_cancellation(is_known=self._state == "cancelled")

    def close(self) -> None:
        if self._state == "asked" and self._call is not None:
            self._call.close()
        self._state = "over"
