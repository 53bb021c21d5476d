"""Tell the cancellation of the pool from every other one.

A task of a group that ends with `CancelledError` cancels the whole group, and no error is left that
could tell of it. So what applications and sources run must not let one out, unless the pool itself
is being cancelled. `Task.cancelling()` does not tell: the task may have cancelled itself.
"""

import asyncio
import math
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

import anyio

__all__ = (
    "Owner",
    "StrayCancellation",
    "contained",
    "deliver_cancellation",
    "insist_on_cancellation",
)

T = TypeVar("T")


class StrayCancellation(RuntimeError):
    """A cancellation that does not come from the pool, as an error like any other."""

    def __init__(self) -> None:
        super().__init__("the task, or something that it waited for, was cancelled from elsewhere")


class Owner:
    """The task that runs the pool, which its application may cancel."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._before = self._cancellations

    @property
    def is_cancelled(self) -> bool:
        return self._cancellations > self._before

    @property
    def _cancellations(self) -> int:
        return 0 if self._task is None else self._task.cancelling()


async def contained(work: Awaitable[T]) -> T:
    """Wait for `work`. Raises `CancelledError` only if a scope of the pool around it is cancelled.

    Every other one becomes a `StrayCancellation`, and the task is left as if nobody had cancelled
    it. A result wins over a cancellation that has not been delivered yet.
    """
    try:
        result = await work
    except asyncio.CancelledError as error:
        if _is_scope_cancelled():
            raise
        await _shed_cancellation()
        raise StrayCancellation from error
    except (Exception, SystemExit):
        await _shed_cancellation()
        raise
    await _shed_cancellation()
    return result


async def deliver_cancellation() -> None:
    """Raise `CancelledError` if this task has cancelled itself and not waited since."""
    task = asyncio.current_task()
    if task is not None and task.cancelling() and not _is_scope_cancelled():
        with anyio.CancelScope(shield=True):  # a scope's cancellation can wait for its turn
            await asyncio.sleep(0)


async def insist_on_cancellation(*, is_known: bool) -> None:
    """Let a cancellation go on that somebody has swallowed, if there was one.

    `is_known` says that there was. Raises `CancelledError` if a scope around it is cancelled, and
    `StrayCancellation` for every other one.
    """
    if _is_scope_cancelled():
        await anyio.sleep_forever()
    task = asyncio.current_task()
    if is_known or (task is not None and task.cancelling()):
        raise StrayCancellation


async def _shed_cancellation() -> None:
    task = asyncio.current_task()
    if task is None or not task.cancelling() or _is_scope_cancelled():
        return
    with suppress(asyncio.CancelledError):
        await deliver_cancellation()  # before Python 3.13 `uncancel` does not take that back
    while task.cancelling():
        task.uncancel()


def _is_scope_cancelled() -> bool:
    return anyio.current_effective_deadline() == -math.inf
