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
from typing import Any, ClassVar, Generic, Self, TypeVar

from fairlane.errors import ConfigurationError
from fairlane.sync._portal import Portal
from fairlane.sync._thread import LoopThread, Undo

__all__ = ("Facade", "Factory")

T = TypeVar("T")
R = TypeVar("R")
logger = logging.getLogger(__name__)

Factory = Callable[[], Awaitable[T] | AbstractAsyncContextManager[T]]
"""Opens an asynchronous object in the event loop that it is called in."""

GRACE = 5.0
"""Seconds for which `close()` lets calls of other threads go on before it cancels them."""

PATIENCE = 12.0
"""Seconds after which it closes the connections of cancelled calls: they may take ten to finish."""

CLOSING = 5.0
"""Seconds that this may take."""


class Facade(Generic[T]):
    """An asynchronous object behind blocking calls, usable by any number of threads.

    Its portals are kept by process id. A forked child finds none of its own, opens one, and never
    looks at its parent's, whose locks may be held and whose connections are the parent's.
    """

    _kind: ClassVar[type[Any]]
    """The asynchronous class behind the facade."""

    def __init__(self, factory: Factory[T]) -> None:
        if not callable(factory):
            raise ConfigurationError(
                f"factory must be a function that opens an {self._kind.__name__} in the event loop "
                f"of the facade, not {factory!r:.100}; or use {type(self).__name__}.from_url(...)"
            )
        self._enter = partial(_entered, factory, self._kind)
        self._is_closed = False
        self._portals: dict[int, Portal[T]] = {}
        weakref.finalize(self, _abandon, self._portals).atexit = False

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
        thread = self._portal().close(grace=GRACE, patience=PATIENCE)
        if thread is not None and not thread.join(GRACE + PATIENCE + CLOSING):
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
        return self._portal().opened()

    def _portal(self) -> Portal[T]:
        pid = os.getpid()
        portal = self._portals.get(pid)
        if portal is None:
            # No lock of our own: a fork would copy it as it is, held by a thread that is not there.
            made = Portal(type(self).__name__, self._enter, is_closed=self._is_closed)
            portal = self._portals.setdefault(pid, made)
        return portal

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
async def _entered(factory: Factory[T], kind: type[T]) -> AsyncIterator[T]:
    """Call the factory in the loop and keep open what it opens."""
    made: Any = factory()
    if inspect.isawaitable(made) and not isinstance(made, AbstractAsyncContextManager):
        made = await made
    if not isinstance(made, AbstractAsyncContextManager):
        raise ConfigurationError(_no_opening(made, kind))
    async with made as opened:
        if not isinstance(opened, kind):
            raise ConfigurationError(_no_opening(opened, kind))
        yield opened


def _no_opening(made: object, kind: type[Any]) -> str:
    return (
        f"factory must return an awaitable or an asynchronous context manager that opens an "
        f"{kind.__name__} (as `{kind.__name__}.from_url(...)` does), not {made!r:.100}"
    )


def _abandon(portals: dict[int, Portal[Any]]) -> None:
    """Stop the loop of a facade that nobody refers to any more."""
    portal = portals.get(os.getpid())
    if portal is not None:
        portal.close(patience=PATIENCE)
