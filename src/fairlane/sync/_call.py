"""What a blocked thread waits for, and the coroutine that brings it about."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ("Call", "Reply")

T = TypeVar("T")
R = TypeVar("R")

# On Windows no signal ends a wait that has no end of its own.
WAIT = 0.2 if os.name == "nt" else -1.0


class Reply(Generic[R]):
    """A result or an error, to come from another thread; cancelled until something is known.

    Not a `threading.Event`: that holds a lock while it begins to wait. A signal handler may run
    just then, and what it does may need the other thread, which would need that lock.
    """

    def __init__(self) -> None:
        self.is_known = False
        self._waiters: set[threading.Lock] = set()
        self._result: R
        self._error: BaseException | None = asyncio.CancelledError()

    @property
    def is_success(self) -> bool:
        return self.is_known and self._error is None

    def succeed(self, result: R) -> None:
        self._result, self._error = result, None

    def fail(self, error: BaseException) -> None:
        self._error = error

    def publish(self) -> None:
        """Wake those who wait; what was set before is final. May be called again."""
        self.is_known = True
        while self._waiters:
            with contextlib.suppress(KeyError):  # two threads publish, or a waiter has just left
                self._waiters.pop().release()

    def wait(self) -> None:
        """Wait until it is known. Raises only what a signal handler raises meanwhile."""
        while not self.is_known:
            self.wait_up_to(WAIT)

    def wait_up_to(self, seconds: float) -> bool:
        """Wait for so many seconds at most (-1: for ever); return whether it is known."""
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.add(waiter)
        try:
            # In this order: `publish` first sets this and then looks for waiters.
            return self.is_known or waiter.acquire(timeout=seconds)
        finally:
            self._waiters.discard(waiter)

    def get(self) -> R:
        """Return the result, or raise the error with the traceback it has."""
        try:
            if self._error is not None:
                raise self._error
            return self._result
        finally:
            del self  # the error's traceback holds this frame: a cycle


class Call(Reply[R], Generic[T, R]):
    """A coroutine on the resource that `opening` brings, and its outcome."""

    def __init__(self, verb: Callable[[T], Awaitable[R]], opening: Reply[T]) -> None:
        super().__init__()
        self.task: asyncio.Task[None] | None = None
        self._verb = verb
        self._opening = opening

    async def run(self) -> None:
        try:
            self.succeed(await self._verb(self._opening.get()))
        except BaseException as error:  # SystemExit too: it is for the caller, not for the loop
            self.fail(error)
