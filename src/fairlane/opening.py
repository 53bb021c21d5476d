"""Something about to be opened: awaited or entered, and a clear error for anything else."""

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from fairlane import checks
from fairlane.checks import Seconds
from fairlane.driver import close, connect
from fairlane.errors import ConfigurationError

__all__ = ("Opening", "by_url")


class _Closable(Protocol):
    async def close(self) -> None: ...


T = TypeVar("T", bound=_Closable)


class Opening(Generic[T]):
    """Something about to be opened: `await` it, or enter it with `async with`."""

    def __init__(self, call: str, opened: Callable[[], Awaitable[T]]) -> None:
        """`call` is what the user has written, without its arguments."""
        self._how = f"this is not open yet: `async with {call}(...) as opened:`, or `await` it"
        self._opened = opened
        self._entered: T | None = None

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"no {name!r} here; {self._how}")

    def __enter__(self) -> NoReturn:
        raise ConfigurationError(self._how)

    def __exit__(self, *_: object) -> None:
        """Let `with` say how to do it, instead of what is missing."""

    def __await__(self) -> Generator[Any, None, T]:
        return self._opened().__await__()

    async def __aenter__(self) -> T:
        self._entered = await self._opened()
        return self._entered

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._entered is not None:
            await self._entered.close()


def by_url(
    call: str,
    url: str,
    ready: Callable[[Any], Awaitable[T]],
    *,
    driver: str,
    connect_timeout: Seconds,
    options: dict[str, Any],
) -> Opening[T]:
    """Open a client, and with it what `ready` makes of it, which closes it from then on."""
    timeout = checks.positive_seconds("connect_timeout", connect_timeout)

    async def opened() -> T:
        client = await connect(
            url,
            driver=driver,
            connect_timeout=timeout,
            options=options,
            owner=call.partition(".")[0],
        )
        try:
            return await ready(client)
        except BaseException:
            await close(client)
            raise

    return Opening(call, opened)
