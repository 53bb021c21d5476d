"""The way of one process into its event loop."""

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from fairlane.sync._thread import LoopThread, refusal

__all__ = ("Portal",)

T = TypeVar("T")

AT_EXIT = 1.0
"""Seconds for which the end of the interpreter waits for calls to give back what they hold."""


class Portal(Generic[T]):
    """Opens a loop thread when it is first needed; closed once, it stays closed.

    A failed opening is not kept: the threads that waited for it share its error, and the next call
    tries again.
    """

    def __init__(
        self,
        name: str,
        enter: Callable[[], AbstractAsyncContextManager[T]],
        *,
        is_closed: bool = False,
    ) -> None:
        self._name = name
        self._enter = enter
        self._pid = os.getpid()
        self._lock = threading.RLock()  # reentrant: a signal handler may call `close`
        self._thread: LoopThread[T] | None = None
        self._is_closed = is_closed
        self._is_exiting = False

    def opened(self) -> LoopThread[T]:
        """Return the loop thread with its resource open, or raise what opening it raised."""
        thread = self._started()
        thread.opened()
        return thread

    def close(self, *, grace: float = 0.0, patience: float = 0.0) -> LoopThread[T] | None:
        """Begin to close, without waiting; return the thread that will end, if there is one."""
        with self._lock:
            self._is_closed = True
            atexit.unregister(self._exit)
            if self._thread is not None:
                self._thread.retire(grace=grace, patience=patience)
            return self._thread

    def _started(self) -> LoopThread[T]:
        with self._lock:
            if not self._is_closed:
                if self._thread is None:
                    atexit.register(self._exit)
                if self._thread is None or not self._thread.is_usable:
                    self._thread = LoopThread(self._name, self._enter)
                    self._thread.start()
                    if self._is_closed:  # by a signal handler, just now
                        self._thread.retire()
                return self._thread
        raise refusal(self._name, is_exiting=self._is_exiting)

    def _exit(self) -> None:
        if os.getpid() != self._pid:  # a child inherits what its parent has registered
            return
        with self._lock:
            self._is_closed = self._is_exiting = True
            thread = self._thread
        if thread is not None:
            thread.exit(AT_EXIT)
