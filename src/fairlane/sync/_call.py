"""What a blocked thread waits for, and the coroutine that brings it about."""

import asyncio
import contextlib
import math
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ("Call", "Reply")

T = TypeVar("T")
R = TypeVar("R")

PERIOD = 0.2
"""Seconds after which a waiting thread looks around. A signal handler may have forked: the child
waits on, for a thread that it has not got. And on Windows no signal ends a wait without an end.
"""


class Reply(Generic[R]):
    """A result or an error, to come from another thread; cancelled until something is known.

    Not a `threading.Event`: that holds a lock while it begins to wait. A signal handler may run
    just then, and what it does may need the other thread, which would need that lock.
    """

    def __init__(self) -> None:
        self.is_known = False
        self._pid = os.getpid()
        self._waiters: set[threading.Lock] = set()
        self._result: R
        self._error: BaseException | None = asyncio.CancelledError()

    @property
    def is_foreign(self) -> bool:
        """Whether it is to come in another process: this one is a forked child."""
        return os.getpid() != self._pid

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
        """Wait until it is known, or never will be because this is a forked child.

        Raises only what a signal handler raises meanwhile.
        """
        self.wait_up_to(math.inf)

    def wait_up_to(self, seconds: float) -> bool:
        """Wait as `wait` does for so many seconds at most; return whether it is known."""
        ends_at = time.monotonic() + seconds
        while not (self.is_known or self.is_foreign):
            left = ends_at - time.monotonic()
            if left <= 0:
                break
            self._wait_once(min(left, PERIOD))
        return self.is_known

    def _wait_once(self, seconds: float) -> None:
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.add(waiter)
        try:
            # In this order: `publish` first sets this and then looks for waiters.
            if not self.is_known:
                waiter.acquire(timeout=seconds)
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
