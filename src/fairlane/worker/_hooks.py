"""Functions of an application that are asked, or told: they may raise, and do no harm."""

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any

import anyio

from fairlane.errors import ConfigurationError
from fairlane.jobs import Job
from fairlane.worker._cancellation import contained

__all__ = ("Guard", "GuardRefused", "Hook", "called", "guarded", "told")

logger = logging.getLogger(__name__)

Hook = Callable[..., Awaitable[Any] | Any]
Guard = Callable[[Job], AbstractAsyncContextManager[Any]]

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


@asynccontextmanager
async def guarded(guard: Guard | None, job: Job) -> AsyncIterator[None]:
    """Work under the guard. Raises `GuardRefused` if that cannot be entered.

    What goes wrong on the way out is logged: it changes nothing about the job.
    """
    if guard is None:
        yield
        return
    manager = await _entered(guard, job)
    try:
        yield
    except BaseException as error:
        await _left(manager, type(error), error, error.__traceback__)
        raise
    else:
        await _left(manager, None, None, None)


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
