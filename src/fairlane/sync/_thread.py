"""An event loop in a thread of its own, with one asynchronous resource opened in it."""

import asyncio
import contextlib
import contextvars
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Generic, TypeVar

from fairlane.errors import ConfigurationError, FairlaneError
from fairlane.sync._call import Call, Outcome
from fairlane.sync._loop import Loop

__all__ = ("LoopThread", "Undo", "refusal")

T = TypeVar("T")
R = TypeVar("R")
Undo = Callable[[T, R], Awaitable[object]]
logger = logging.getLogger(__name__)

TIDY_UP = 1.0
"""Seconds for which an interrupted call may give back what it holds before it raises."""

CLOSING = 0.5
"""Seconds that closing the resource may take at interpreter exit."""


class LoopThread(Generic[T]):
    """Opens a resource, runs calls on it, and closes it, all in the loop of one thread.

    The thread is a daemon and never keeps a program alive. It belongs to one process: a forked
    child has not got the thread, and must not touch its connections.

    There is no lock here: a signal handler may run while its thread holds one, and `join` the loop
    thread that waits for it. Instead each side leaves its own mark before it looks for the other's:
    a call is added before `_is_stopping` is read, and that is set before calls are looked for.
    """

    def __init__(self, name: str, enter: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._name = name
        self._enter = enter
        self._pid = os.getpid()
        self._opening: Outcome[T] = Outcome()
        self._calls: set[Call[Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._is_stopping = self._is_exiting = False
        self._grace = self._patience = 0.0
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_mine(self) -> bool:
        """Whether this is the process that it was started in."""
        return os.getpid() == self._pid

    @property
    def is_usable(self) -> bool:
        # A signal can come between the making of it and its start: nobody must wait for it then.
        return self._thread.is_alive() and not self._is_stopping

    def start(self) -> None:
        """Begin to open the resource."""
        try:
            self._thread.start()
        except BaseException:  # no thread to be had, or a signal: nobody will wait for this one
            self.retire()
            raise

    def opened(self) -> T:
        """Wait until the resource is open and return it, or raise what opening it raised."""
        self._opening.wait()
        return self._got(self._opening)

    def call(self, verb: Callable[[T], Awaitable[R]], undo: Undo[T, R] | None = None) -> R:
        """Run a coroutine on the opened resource and wait for its outcome.

        Whatever a signal handler raises meanwhile cancels it. Did it come too late for that,
        `undo` gets the result, which nobody else will see.
        """
        if not self.is_mine:
            raise ConfigurationError(
                "this was begun before a fork, on connections of the parent process; "
                "begin it again in this process"
            )
        call = self._made(verb)
        try:
            self._submit(call)
            call.outcome.wait()
        except BaseException:
            self._abandon(call)
            if undo is not None and call.outcome.is_success:
                result = call.outcome.get()
                self.post(lambda resource: undo(resource, result)).wait_up_to(TIDY_UP)
            raise
        return self._got(call.outcome)

    def post(self, verb: Callable[[T], Awaitable[R]]) -> Outcome[R]:
        """Run a coroutine, if that can still be done, and return the place of its outcome."""
        call = self._made(verb)
        if self.is_mine:
            self._submit(call)
        return call.outcome

    def retire(self, *, grace: float = 0.0, patience: float = 0.0) -> None:
        """Begin to stop, without waiting.

        Calls may go on for `grace` seconds. Then they are cancelled, and have `patience` seconds
        to give back what they hold, before the resource is closed.
        """
        if self.is_mine and not self._is_stopping:
            self._grace, self._patience = grace, patience
            self._is_stopping = True
            self._tell(self._end)

    def join(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds for the end; return whether it has come."""
        if self.is_mine and self._thread.is_alive():
            self._thread.join(timeout)
            return not self._thread.is_alive()
        return True

    def exit(self, patience: float) -> None:
        """Stop because the interpreter ends: only daemon threads are left beside the main one."""
        self._is_exiting = True
        self.retire(patience=patience)
        self.join(patience + CLOSING)

    def _got(self, outcome: Outcome[R]) -> R:
        try:
            return outcome.get()
        except asyncio.CancelledError:
            raise refusal(self._name, is_exiting=self._is_exiting) from None

    def _made(self, verb: Callable[[T], Awaitable[R]]) -> Call[R]:
        return Call(lambda: verb(self._opening.get()), self._forget)

    def _submit(self, call: Call[Any]) -> None:
        """Hand the call to the loop; if it is too late for that, the call ends cancelled."""
        self._calls.add(call)
        if self._is_stopping:
            self._forget(call)
        else:
            self._tell(partial(self._begin, call), contextvars.copy_context())

    def _begin(self, call: Call[Any]) -> None:
        if self._stop.is_set():
            self._forget(call)
        else:
            call.begin()

    def _abandon(self, call: Call[Any]) -> None:
        if call in self._calls:
            self._tell(call.cancel)
            call.outcome.wait_up_to(TIDY_UP)

    def _tell(
        self, callback: Callable[[], object], context: contextvars.Context | None = None
    ) -> None:
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended; `_over` is about to run
                loop.call_soon_threadsafe(callback, context=context)

    def _forget(self, call: Call[Any]) -> None:
        self._calls.discard(call)
        call.outcome.publish()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=Loop) as runner:
                runner.run(self._live())
        except BaseException as error:
            if self._opening.is_known:
                logger.warning("the event loop of a %s failed", self._name, exc_info=True)
            else:
                self._opening.fail(error)
        finally:
            self._over()

    async def _live(self) -> None:
        self._main = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        if self._is_stopping:
            return
        async with self._enter() as resource:
            self._opening.succeed(resource)
            self._opening.publish()
            await self._stop.wait()
            await self._drain()

    def _end(self) -> None:
        self._stop.set()
        if self._main is not None and not self._opening.is_known:
            self._main.cancel()

    async def _drain(self) -> None:
        running = {call.task for call in tuple(self._calls) if call.task is not None}
        if running:
            _, running = await asyncio.wait(running, timeout=self._grace)
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=self._patience)

    def _over(self) -> None:
        """Leave nobody waiting, whatever happened in the loop."""
        self._is_stopping = True
        self._loop = None
        self._opening.publish()
        for call in tuple(self._calls):
            self._forget(call)


def refusal(name: str, *, is_exiting: bool) -> FairlaneError:
    """Return the error for a call on something closed.

    At interpreter exit a daemon thread ends quietly instead: the traceback would be the last words
    of a program in which nothing is wrong. It lets go of its locks, which others may wait for.
    """
    if is_exiting and threading.current_thread() is not threading.main_thread():
        raise SystemExit
    return FairlaneError(f"this {name} is closed; make a new one")
