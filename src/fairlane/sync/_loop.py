"""An event loop that neither holds up the end of the interpreter nor stops working before it.

Motor runs every command in an executor, and both drivers look up addresses in one. The executors of
`concurrent.futures` are joined when the main thread ends, before anything can cancel what they do,
and from then on they refuse work, though other threads of the program may go on for long.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import TypeVar, TypeVarTuple

__all__ = ("DaemonThreads", "Loop")

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MAX_THREADS = 100
"""As many as a client has connections, by default: more could only wait for one."""


class DaemonThreads:
    """Runs blocking functions in daemon threads, started as they are needed. For one submitter."""

    def __init__(self, max_threads: int = MAX_THREADS) -> None:
        self._max_threads = max_threads
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._number = 0

    def submit(self, function: Callable[[], T]) -> "Future[T]":
        future: Future[T] = Future()
        self._jobs.put(partial(_perform, future, function))
        if not self._idle.acquire(blocking=False) and self._number < self._max_threads:
            self._start_thread()
        return future

    def close(self) -> None:
        """Let the threads end once they have done what they do; does not wait for them."""
        for _ in range(self._number):
            self._jobs.put(None)

    def _start_thread(self) -> None:
        try:
            threading.Thread(target=self._work, name="fairlane-command", daemon=True).start()
        except RuntimeError:  # no more threads to be had; the job waits for one that there is
            if self._number == 0:
                raise
        else:
            self._number += 1

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job  # it holds the result, which would live until the next job
            self._idle.release()


class Loop(asyncio.SelectorEventLoop):
    """An event loop that does blocking work in daemon threads of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._threads = DaemonThreads()

    def run_in_executor(
        self,
        executor: Executor | None,
        func: Callable[[*Ts], T],
        *args: *Ts,
    ) -> asyncio.Future[T]:
        """Run `func` in a thread of this loop, whichever executor is asked for."""
        return asyncio.wrap_future(self._threads.submit(partial(func, *args)), loop=self)

    def close(self) -> None:
        super().close()
        self._threads.close()


def _perform(future: "Future[T]", function: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
