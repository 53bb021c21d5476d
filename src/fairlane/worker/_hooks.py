"""Functions of an application that are asked, or told: they may raise, and do no harm."""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any

import anyio

from fairlane.containing import contained
from fairlane.errors import ConfigurationError, FairlaneError
from fairlane.jobs import Job

__all__ = ("Guard", "GuardRefused", "Hook", "Stay", "called", "guarded", "told")

logger = logging.getLogger(__name__)

Hook = Callable[..., Awaitable[Any] | Any]
Guard = Callable[[Job], AbstractAsyncContextManager[Any]]
Leave = Callable[[], Coroutine[Any, Any, None]]

SECONDS = 5.0
"""How long a function that is told of something may take, or the way out of a guard."""


class GuardRefused(Exception):
    """The guard of a job raised before its handler was called."""


async def called(hook: Hook, *arguments: Any) -> Any:
    """Call a function, plain or async. A plain one is called in the event loop."""
    answer = hook(*arguments)
    return await answer if inspect.isawaitable(answer) else answer


async def told(what: str, hook: Hook, *arguments: Any, is_shielded: bool = True) -> None:
    """Tell an application of something; shielded, it hears the end of it, whoever cancels."""
    try:
        with anyio.move_on_after(SECONDS, shield=is_shielded) as scope:
            await contained(called(hook, *arguments))
        if scope.cancelled_caught:
            logger.error("%s took longer than %g s and was cancelled", what, SECONDS)
    except Exception:
        logger.exception("%s raised", what)


class Stay:
    """The time under a guard. A thread that nobody waits for any more is still there.

    Loop and thread take tickets, without a lock that could hold up the loop: that of the beginning
    goes to the thread, unless the loop has ended the stay before; of the two that come to the end
    the second one finds none, and leaves the guard.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._beginning: deque[None] = deque((None,))
        self._end: deque[None] = deque((None,))
        self._leave: Leave | None = None

    def around(self, function: Callable[[], Any]) -> Callable[[], Any]:
        """Return what to call in a thread instead of `function`."""

        def call() -> Any:
            if not _taken(self._beginning):
                raise FairlaneError("its guard has been left: it must not begin any more")
            try:
                return function()
            finally:
                if not _taken(self._end):
                    self._leave_from_thread()

        return call

    async def end(self, leave: Leave) -> None:
        """Leave the guard, now or when the thread has ended."""
        self._leave = leave
        if _taken(self._beginning) or not _taken(self._end):
            await leave()

    def _leave_from_thread(self) -> None:
        assert self._leave is not None
        leaving = self._leave()
        try:
            left = asyncio.run_coroutine_threadsafe(leaving, self._loop)
        except RuntimeError:  # the loop is closed
            leaving.close()
            logger.warning("the guard of a job could not be left: its event loop has ended")
            return
        with suppress(Exception):  # the loop ends meanwhile
            left.result(SECONDS + 1)


def _taken(tickets: deque[None]) -> bool:
    try:
        tickets.pop()
    except IndexError:
        return False
    return True


@asynccontextmanager
async def guarded(guard: Guard | None, job: Job) -> AsyncIterator[Stay | None]:
    """Work under the guard. Raises `GuardRefused` if that cannot be entered.

    What goes wrong on the way out is logged: it changes nothing about the job.
    """
    if guard is None:
        yield None
        return
    manager, stay = await _entered(guard, job), Stay()
    try:
        yield stay
    except BaseException as error:
        await stay.end(partial(_left, manager, type(error), error, error.__traceback__))
        raise
    else:
        await stay.end(partial(_left, manager, None, None, None))


async def _entered(guard: Guard, job: Job) -> AbstractAsyncContextManager[Any]:
    try:
        manager = guard(job)
        if not hasattr(manager, "__aenter__"):
            raise ConfigurationError(
                f"guard must return an async context manager, not {manager!r:.100}"
            )
        await manager.__aenter__()
    except Exception as error:
        raise GuardRefused(repr(error)) from error
    return manager


async def _left(
    manager: AbstractAsyncContextManager[Any],
    kind: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
) -> None:
    try:
        with anyio.move_on_after(SECONDS, shield=True):
            await manager.__aexit__(kind, error, traceback)
    except BaseException as failure:
        if failure is not error:  # a generator lets it through
            logger.exception("the guard of a job raised on the way out")
