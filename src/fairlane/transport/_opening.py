"""A transport about to be opened: awaited or entered, and a clear error for anything else."""

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from fairlane.errors import ConfigurationError

__all__ = ("Opening",)


class Closable(Protocol):
    async def close(self) -> None: ...


T = TypeVar("T", bound=Closable)


class Opening(Generic[T]):
    """A transport about to be opened: `await` it, or enter it with `async with`."""

    HOW = (
        "this transport is not open yet: "
        "`async with AsyncMongoTransport.from_url(...) as transport:`, or `await` it"
    )

    def __init__(self, opened: Callable[[], Awaitable[T]]) -> None:
        self._opened = opened
        self._transport: T | None = None

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"no {name!r} here; {self.HOW}")

    def __enter__(self) -> NoReturn:
        raise ConfigurationError(self.HOW)

    def __exit__(self, *_: object) -> None:
        """Let `with` say how to do it, instead of what is missing."""

    def __await__(self) -> Generator[Any, None, T]:
        return self._opened().__await__()

    async def __aenter__(self) -> T:
        self._transport = await self._opened()
        return self._transport

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._transport is not None:
            await self._transport.close()
