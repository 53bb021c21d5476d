"""What every blocking facade does, whatever it stands in front of."""

import asyncio
import inspect
import logging
import os
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, ClassVar, Generic, Never, Self, TypeVar

from fairlane.errors import ConfigurationError
from fairlane.sync._thread import LoopThread, Undo

__all__ = ("Facade", "Factory")

T = TypeVar("T")
R = TypeVar("R")
logger = logging.getLogger(__name__)

Factory = Callable[[], Awaitable[T] | AbstractAsyncContextManager[T]]
"""Opens an asynchronous object in the event loop that it is called in."""


class Facade(Generic[T]):
    """An asynchronous object behind blocking calls, usable by any number of threads.

    Its loop threads are kept by process id. A forked child finds none of its own, starts one, and
    never looks at its parent's, whose connections are the parent's.
    """

    _kind: ClassVar[type[Any]]
    """The asynchronous class behind the facade."""

    _opener: ClassVar[str] = "from_url"
    """What opens it with a URL."""

    def __init__(self, factory: Factory[T], *more: Never, **options: Never) -> None:
        if more or options or not callable(factory):
            given = (type(argument).__name__ for argument in (factory, *more, *options.values()))
            raise ConfigurationError(
                f"{type(self).__name__} takes nothing but a function that opens an "
                f"{self._kind.__name__} in the event loop of the facade, not {', '.join(given)}; "
                f"with a URL, use {type(self).__name__}.{self._opener}(url, db_name)"
            )
        self._enter = partial(_entered, factory, self._kind, self._opener)
        self._is_closed = False
        self._threads: dict[int, LoopThread[T]] = {}
        weakref.finalize(self, _abandon, self._threads).atexit = False

    def __enter__(self) -> Self:
        """Open at once what the first call would open."""
        self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections and end the thread; may be called again, and by any thread.

        Calls of other threads may go on for five seconds; then they are cancelled, with the
        guarantees that cancellation has, and raise `FairlaneError`, as every later call does.
        At interpreter exit this happens by itself.
        """
        self._refuse_running_loop()
        self._is_closed = True
        if not self._thread().close():
            logger.warning("a %s was not closed in time", type(self).__name__)

    def _call(self, verb: Callable[[T], Awaitable[R]], undo: Undo[T, R] | None = None) -> R:
        return self._open().call(verb, undo)

    def _iterate(self, start: Callable[[T], AsyncIterator[R]]) -> Iterator[R]:
        self._refuse_running_loop()
        return self._each(start)

    def _each(self, start: Callable[[T], AsyncIterator[R]]) -> Iterator[R]:
        thread = self._open()
        items = start(thread.opened())
        try:
            while True:
                self._refuse_running_loop()
                try:
                    item = thread.call(lambda _: anext(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if isinstance(items, AsyncGenerator):
                # Not waited for: the garbage collector may do this, in any thread at any time.
                thread.post(lambda _: items.aclose())

    def _open(self) -> LoopThread[T]:
        self._refuse_running_loop()
        thread = self._thread()
        if not self._is_closed:
            thread.start()
        if self._is_closed:  # perhaps only now
            thread.retire()
        thread.opened()
        return thread

    def _thread(self) -> LoopThread[T]:
        """Return the thread of this process; without a lock, which a fork would copy as it is."""
        pid = os.getpid()
        thread = self._threads.get(pid)
        if thread is None:
            thread = LoopThread(type(self).__name__, self._enter)
            thread = self._threads.setdefault(pid, thread)
        self._threads[pid] = newest = thread.newest()
        return newest

    def _refuse_running_loop(self) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        raise ConfigurationError(
            f"{type(self).__name__} blocks, and an event loop is running in this thread (so it is "
            f"in a notebook, too): use {self._kind.__name__} and `await` here, or call this in "
            "another thread (`asyncio.to_thread`)"
        )


@asynccontextmanager
async def _entered(factory: Factory[T], kind: type[T], opener: str) -> AsyncIterator[T]:
    """Call the factory in the loop and keep open what it opens."""
    made: Any = factory()
    if inspect.isawaitable(made) and not isinstance(made, AbstractAsyncContextManager):
        made = await made
    if isinstance(made, AbstractAsyncContextManager):
        async with made as opened:
            if isinstance(opened, kind):
                yield opened
                return
        made = opened
    raise ConfigurationError(
        f"factory must return an awaitable or an asynchronous context manager that opens an "
        f"{kind.__name__} (as `{kind.__name__}.{opener}(...)` does), not {type(made).__name__}"
    )


def _abandon(threads: dict[int, LoopThread[Any]]) -> None:
    """Stop the loop of a facade that nobody refers to any more."""
    thread = threads.get(os.getpid())
    if thread is not None:
        thread.newest().retire()
