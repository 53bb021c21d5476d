"""The way of one process into its event loop."""

import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Generic, TypeVar

from fairlane.errors import FairlaneError
from fairlane.sync._thread import LoopThread

__all__ = ("Portal",)

T = TypeVar("T")


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
        self._is_closed = is_closed
        self._lock = threading.RLock()  # reentrant: a signal handler may call `close`
        self._thread: LoopThread[T] | None = None

    def opened(self) -> LoopThread[T]:
        """Return the loop thread with its resource open, or raise what opening it raised."""
        thread = self._started()
        thread.opened()
        return thread

    def close(self, *, grace: float = 0.0) -> LoopThread[T] | None:
        """Begin to close, without waiting; return the thread that will end, if there is one."""
        with self._lock:
            self._is_closed = True
            if self._thread is not None:
                self._thread.retire(grace=grace)
            return self._thread

    def _started(self) -> LoopThread[T]:
        with self._lock:
            if self._is_closed:
                raise FairlaneError(f"this {self._name} is closed; make a new one")
            if self._thread is None or not self._thread.is_usable:
                self._thread = LoopThread(self._name, self._enter)
                self._thread.start()
            return self._thread
