"""What a blocked thread waits for, and the call in the event loop that brings it about."""

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

__all__ = ("Call", "Outcome")

R = TypeVar("R")

# On Windows no signal ends a wait that has no end of its own.
WAIT = 0.2 if os.name == "nt" else -1.0


class Outcome(Generic[R]):
    """A result or an error, to come from another thread; cancelled until something is known.

    Not a `threading.Event`: that holds a lock while it begins to wait. A signal handler may run
    just then, and what it does may need the other thread, which would need that lock.
    """

    def __init__(self) -> None:
        self._is_known = False
        self._waiters: list[threading.Lock] = []
        self._result: R
        self._error: BaseException | None = asyncio.CancelledError()

    @property
    def is_known(self) -> bool:
        return self._is_known

    @property
    def is_success(self) -> bool:
        return self.is_known and self._error is None

    def succeed(self, result: R) -> None:
        self._result, self._error = result, None

    def fail(self, error: BaseException) -> None:
        self._error = error

    def publish(self) -> None:
        """Wake those who wait; what was set before is final. May be called again."""
        self._is_known = True
        while self._waiters:
            with contextlib.suppress(IndexError):  # two threads publish at once
                self._waiters.pop().release()

    def wait(self) -> None:
        """Wait until it is known. Raises only what a signal handler raises meanwhile."""
        while not self._is_known:
            self.wait_up_to(WAIT)

    def wait_up_to(self, seconds: float) -> None:
        """Wait until it is known, or for so many seconds; -1 is for ever."""
        waiter = threading.Lock()
        waiter.acquire()
        self._waiters.append(waiter)
        # In this order: `publish` first sets this and then looks for waiters.
        if not self._is_known:
            waiter.acquire(timeout=seconds)

    def get(self) -> R:
        """Return the result, or raise the error with the traceback it has."""
        try:
            if self._error is not None:
                raise self._error
            return self._result
        finally:
            del self  # the error's traceback holds this frame: a cycle


class Call(Generic[R]):
    """A coroutine for the loop, which may be cancelled at any moment, begun or not.

    A signal can come between any two steps of the thread that calls, also before it knows how far
    its call has got. All methods are called in the loop; `on_end` is called there, once.
    """

    def __init__(self, start: Callable[[], Awaitable[R]], on_end: Callable[["Call[R]"], None]):
        self.outcome: Outcome[R] = Outcome()
        self.task: asyncio.Task[None] | None = None
        self._start = start
        self._on_end = on_end
        self._is_cancelled = False

    def begin(self) -> None:
        if self._is_cancelled:
            return
        self.task = asyncio.get_running_loop().create_task(self._run())
        # Not at the end of `_run`: a task that is cancelled before its first step never runs.
        self.task.add_done_callback(lambda _: self._on_end(self))

    def cancel(self) -> None:
        self._is_cancelled = True
        if self.task is None:
            self._on_end(self)
        else:
            self.task.cancel()

    async def _run(self) -> None:
        try:
            self.outcome.succeed(await self._start())
        except BaseException as error:  # SystemExit too: it is for the caller, not for the loop
            self.outcome.fail(error)
