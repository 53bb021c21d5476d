"""An event loop in a thread of its own, with one asynchronous resource opened in it."""

import asyncio
import atexit
import contextlib
import contextvars
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, Generic, TypeVar

from fairlane.errors import ConfigurationError, FairlaneError
from fairlane.sync._call import Call, Reply
from fairlane.sync._loop import Loop

__all__ = ("LoopThread", "Undo")

T = TypeVar("T")
R = TypeVar("R")
Undo = Callable[[T, R], Awaitable[object]]
logger = logging.getLogger(__name__)

GRACE = 5.0
"""Seconds for which `close` lets calls go on before it cancels them."""

PATIENCE = 4.0
"""Seconds for which cancelled calls may finish what they have begun; then the resource is closed.
The transport takes two (`fairlane.shield.DEADLINE`), and one more where the driver hangs."""

HURRY = 1.0
"""The same for an interrupted call, and at interpreter exit."""

CLOSING = 1.0
"""Seconds that closing the resource may take."""


class LoopThread(Generic[T]):
    """Opens a resource, runs calls on it, and closes it, all in the loop of one thread.

    The thread is a daemon and never keeps a program alive. It belongs to one process: a forked
    child has not got the thread, and must not touch its connections.

    There is no lock here: a signal handler may run while its thread holds one, and wait for the
    loop thread that waits for it. Instead each side leaves its own mark before it looks for the
    other's: a call is added before `is_closed` is read, and that is set before calls are looked
    for.
    """

    def __init__(self, name: str, enter: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self._name = name
        self._enter = enter
        self._ticket = [None]  # who takes it runs the loop, or has ended before that began
        self._opening: Reply[T] = Reply()
        self._end: Reply[None] = Reply()
        self._calls: set[Call[T, Any]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._is_retired = self._is_over = self._is_exiting = False
        self._grace = self._patience = 0.0
        self._successors: dict[None, LoopThread[T]] = {}

    @property
    def is_closed(self) -> bool:
        """Whether no call can begin any more; to a forked child its parent's is closed."""
        return self._is_retired or self._is_over or self._opening.is_foreign

    def newest(self) -> "LoopThread[T]":
        """Return the one to use: a failed opening is not kept, the next call tries again."""
        thread = self
        while thread._is_over and not thread._is_retired:
            fresh = LoopThread(self._name, self._enter)
            thread = thread._successors.setdefault(None, fresh)
        return thread

    def start(self) -> None:
        """Begin to open the resource, unless that has begun.

        Every user calls this: a signal may have kept any of the others from it.
        """
        if self._ticket:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def opened(self) -> T:
        """Wait until the resource is open and return it, or raise what opening it raised."""
        self._opening.wait()
        resource = self._got(self._opening)
        if self._is_retired:
            raise self._refusal()
        return resource

    def call(self, verb: Callable[[T], Awaitable[R]], undo: Undo[T, R] | None = None) -> R:
        """Run a coroutine on the opened resource and wait for its outcome.

        Whatever a signal handler raises meanwhile cancels it. Did it come too late for that,
        `undo` gets the result, which nobody else will see.
        """
        call = Call(verb, self._opening)
        try:
            self._submit(call)
            call.wait()
        except BaseException:
            if call.is_foreign:  # a signal handler forked and raised: it is the parent's call
                raise
            if call in self._calls:
                self._tell(partial(self._cancel, call))
                call.wait_up_to(HURRY)
            if undo is not None and call.is_success:
                result = call.get()
                self.post(lambda resource: undo(resource, result)).wait_up_to(HURRY)
            raise
        return self._got(call)

    def post(self, verb: Callable[[T], Awaitable[R]]) -> Reply[R]:
        """Run a coroutine, if that can still be done, and return the place of its outcome."""
        call = Call(verb, self._opening)
        self._submit(call)
        return call

    def retire(self, *, grace: float = 0.0, patience: float = PATIENCE) -> None:
        """Begin to stop, without waiting.

        Calls may go on for `grace` seconds. Then they are cancelled, and have `patience` seconds
        to give back what they hold, before the resource is closed.
        """
        if self._is_retired:
            return
        self._grace, self._patience = grace, patience
        self._is_retired = True
        if self._takes_ticket():
            self._conclude()
        else:
            self._tell(self._quit)

    def close(self) -> bool:
        """Stop, and wait for the end; return whether it has come in time."""
        self.retire(grace=GRACE)
        return self._end.wait_up_to(GRACE + PATIENCE + CLOSING) or self._end.is_foreign

    def _exit(self) -> None:
        """Stop because the interpreter ends: only daemon threads are left beside the main one."""
        if not self.is_closed:
            self._is_exiting = True
            self.retire(patience=HURRY)
            self._end.wait_up_to(HURRY + CLOSING)

    def _got(self, reply: Reply[R]) -> R:
        if reply.is_foreign:  # known or not, it is for the parent: a lease would have two holders
            raise self._refusal()
        try:
            return reply.get()
        except asyncio.CancelledError:
            raise self._refusal() from None

    def _refusal(self) -> FairlaneError:
        """Return the error for a call on something closed.

        At interpreter exit a daemon thread ends quietly instead: the traceback would be the last
        words of a program in which nothing is wrong. It lets go of its locks, which others may
        wait for.
        """
        if self._opening.is_foreign:
            return ConfigurationError(
                "this was begun before a fork, on connections of the parent process; "
                "begin it again in this process"
            )
        if self._is_exiting and threading.current_thread() is not threading.main_thread():
            raise SystemExit
        return FairlaneError(f"this {self._name} is closed; make a new one")

    def _submit(self, call: Call[T, Any]) -> None:
        """Hand the call to the loop; if it is too late for that, the call ends cancelled."""
        self._calls.add(call)
        if self.is_closed:
            self._forget(call)
        else:
            self._tell(partial(self._begin, call), contextvars.copy_context())

    def _begin(self, call: Call[T, Any]) -> None:
        if self._stop.is_set():
            self._forget(call)
        elif call in self._calls:  # not cancelled before it could begin
            call.task = asyncio.get_running_loop().create_task(call.run())
            # Not at the end of `run`: a task that is cancelled before its first step never runs.
            call.task.add_done_callback(lambda _: self._forget(call))

    def _cancel(self, call: Call[T, Any]) -> None:
        if call.task is None:
            self._forget(call)
        else:
            call.task.cancel()

    def _forget(self, call: Call[T, Any]) -> None:
        self._calls.discard(call)
        call.publish()

    def _tell(
        self, callback: Callable[[], object], context: contextvars.Context | None = None
    ) -> None:
        loop = self._loop
        if loop is not None and not self._opening.is_foreign:
            with contextlib.suppress(RuntimeError):  # it has just ended: `_conclude` is next
                loop.call_soon_threadsafe(callback, context=context)

    def _takes_ticket(self) -> bool:
        with contextlib.suppress(IndexError):
            self._ticket.pop()
            return True
        return False

    def _run(self) -> None:
        if not self._takes_ticket():
            return
        atexit.register(self._exit)
        try:
            with asyncio.Runner(loop_factory=Loop) as runner:
                runner.run(self._live())
        except BaseException as error:
            if self._opening.is_known:
                logger.warning("the event loop of a %s failed", self._name, exc_info=True)
            else:
                self._opening.fail(error)
        finally:
            self._conclude()

    async def _live(self) -> None:
        self._main = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        if self._is_retired:
            return
        async with self._enter() as resource:
            self._opening.succeed(resource)
            self._opening.publish()
            await self._stop.wait()
            await self._drain()

    def _quit(self) -> None:
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

    def _conclude(self) -> None:
        """Leave nobody waiting, whatever happened in the loop."""
        self._is_over = True
        self._loop = None
        self._opening.publish()
        for call in tuple(self._calls):
            self._forget(call)
        if not self._is_exiting:
            atexit.unregister(self._exit)
        self._end.publish()
