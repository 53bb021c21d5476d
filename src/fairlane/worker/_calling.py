"""Call the handler: coroutine functions in the event loop, plain functions in threads."""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
from anyio import to_thread

from fairlane.errors import ConfigurationError
from fairlane.model import E, Lease

__all__ = ("Handler", "ThreadCall", "checked_handler")

Handler = Callable[[Lease[E]], Awaitable[None] | None]
"""`async def handle(lease)`, or `def handle(lease)`, which runs in a thread."""


def checked_handler(handler: Handler[E]) -> Handler[E]:
    """Refuse what would look like a handler and never do anything."""
    if not callable(handler):
        raise ConfigurationError(
            f"handler must be a function of one lease, not {type(handler).__name__}"
        )
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise ConfigurationError("handler must not contain `yield`: nobody would run its body")
    if not _takes_one_argument(handler):
        raise ConfigurationError(
            "handler must be a function that can be called with one argument, the lease"
        )
    return handler


def _takes_one_argument(handler: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):  # some functions written in C do not tell
        return True
    try:
        signature.bind(object())
    except TypeError:
        return False
    return True


class ThreadCall:
    """One call of a plain function in a thread: it can be abandoned, but not stopped."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._loop = asyncio.get_running_loop()
        # Whoever takes the ticket decides: the thread begins, or it never will.
        self._ticket: deque[None] = deque((None,))
        self.has_begun = False
        self._is_over = False
        self._results: list[Any] = []
        self.ended = anyio.Event()

    @property
    def is_at_work(self) -> bool:
        return self.has_begun and not self._is_over and not self._results

    async def run(self, threads: anyio.CapacityLimiter) -> Any:
        """Wait for the function. A cancelled wait leaves it running, if it has begun.

        What it has returned by then counts: it is not done again because nobody looked in time.
        """
        try:
            result = await to_thread.run_sync(
                self._in_thread, abandon_on_cancel=True, limiter=threads
            )
        except BaseException:
            self.has_begun = not self._take_ticket()
            if not self._results:
                raise
            (result,) = self._results
        if inspect.isawaitable(result):  # a plain function around a coroutine
            result = await result
        return result

    def _in_thread(self) -> Any:
        if not self._take_ticket():
            return None
        self.has_begun = True
        try:
            self._results.append(self._function())
        finally:
            self._is_over = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self.ended.set)
        return self._results[0]

    def _take_ticket(self) -> bool:
        try:
            self._ticket.pop()
        except IndexError:
            return False
        return True
