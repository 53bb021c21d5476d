"""What a web application has open while it runs, whatever its framework."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from fairlane import checks
from fairlane.errors import ConfigurationError
from fairlane.integrations._background import Background
from fairlane.worker import Health, State, WorkerPool

__all__ = ("MakePool", "Open", "Service", "ServiceHealth", "Serving")

S = TypeVar("S")

Open = Callable[[], AbstractAsyncContextManager[S]]
"""Opens what an application works with, as `AsyncMongoTransport.from_url` does."""

MakePool = Callable[[S], WorkerPool[Any]]
"""Makes the pool that works on what has been opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceHealth:
    """A service at one moment.

    Attributes:
        state: that of the pool, or `failed` once the pool has ended by an error. Without a pool
            `ok` from opening to closing, `stopped` afterwards.
        pool: more about the pool; None without one.
        error: what the pool failed with.
    """

    state: State | Literal["failed"]
    pool: Health | None
    error: BaseException | None

    @property
    def is_ready(self) -> bool:
        """Whether requests should come here, which is so in state `ok` only."""
        return self.state == "ok"

    @property
    def status(self) -> int:
        """The HTTP status of a readiness route, 200 or 503."""
        return 200 if self.is_ready else 503

    def document(self) -> dict[str, str | int | float | None]:
        """Return what a readiness route shows. No text of an error: it may name hosts."""
        if self.pool is None:
            return {"state": self.state}
        return {
            "state": self.state,
            "running": self.pool.running,
            "leased": self.pool.leased,
            "last_poll_age": self.pool.last_poll_age,
        }


class Service(Generic[S]):
    """What one application has open.

    Attributes:
        source: what has been opened: a transport, a queue, or what else `open` gives.
    """

    def __init__(self, source: S, background: Background | None) -> None:
        self.source = source
        self._background = background
        self._is_open = True

    @property
    def is_open(self) -> bool:
        """Whether the application still serves."""
        return self._is_open

    @property
    def pool(self) -> WorkerPool[Any] | None:
        """The pool at work in the background, if there is one."""
        return None if self._background is None else self._background.pool

    @property
    def health(self) -> ServiceHealth:
        """How the service is doing now."""
        background = self._background
        if background is None:
            return ServiceHealth(state="ok" if self._is_open else "stopped", pool=None, error=None)
        pool, error = background.pool.health, background.failure
        return ServiceHealth(state="failed" if error else pool.state, pool=pool, error=error)

    def close(self) -> None:
        """Note that the application has ended; done at its shutdown."""
        self._is_open = False


class Serving(Generic[S]):
    """Knows how to open a service. It is no open service itself, and may be shared by many."""

    def __init__(self, open: Open[S], *, pool: MakePool[S] | None = None) -> None:
        self._open: Open[S] = _checked_open(open)
        self._make_pool: MakePool[S] | None = checks.optional_function("pool", pool, "source")

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Service[S]]:
        """Open a service; leaving drains its pool and closes its source."""
        async with _manager(self._open()) as source:
            background = None
            if self._make_pool is not None:
                background = Background(_checked_pool(self._make_pool(source)))
            service = Service(source, background)
            try:
                if background is None:
                    yield service
                    return
                async with background:
                    yield service
            finally:
                service.close()


def _checked_open(open: Any) -> Any:
    if not callable(open) or checks.is_async(open):
        raise ConfigurationError(
            "open must be a plain function that returns an asynchronous context manager, such as "
            f"`lambda: AsyncMongoTransport.from_url(url)`, not {open!r:.100}"
        )
    return checks.function("open", open)


def _manager(made: Any) -> Any:
    if not isinstance(made, AbstractAsyncContextManager):
        raise ConfigurationError(
            "open must return an asynchronous context manager, as AsyncMongoTransport.from_url "
            f"and AsyncJobQueue.connect do, not {type(made).__name__}"
        )
    return made


def _checked_pool(made: Any) -> WorkerPool[Any]:
    if not isinstance(made, WorkerPool):
        raise ConfigurationError(f"pool must return a WorkerPool, not {type(made).__name__}")
    if made.signals:
        raise ConfigurationError(
            "a pool in a web application must not have signals=True: the web server owns the "
            "signals, and the pool is drained when it shuts the application down"
        )
    return made
