"""A switch that may be thrown from anywhere at any time."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ("Switch",)


class Switch:
    """Throwing it is safe from any thread and signal handler, before, during and after a run."""

    def __init__(self) -> None:
        self._is_on = False
        self._notify: Callable[[], None] | None = None

    @property
    def is_on(self) -> bool:
        return self._is_on

    def throw(self) -> None:
        self._is_on = True
        notify = self._notify
        if notify is not None:
            notify()

    def reset(self) -> None:
        self._is_on = False

    @contextmanager
    def connected(self, action: Callable[[], object]) -> Iterator[None]:
        """Call `action` (it may be called twice) in this event loop once the switch is on.

        Connect first, look second: a throw from another thread in between is not missed.
        """
        loop = asyncio.get_running_loop()

        def notify() -> None:
            with suppress(RuntimeError):  # the loop is closed: there is nothing left to switch
                loop.call_soon_threadsafe(action)

        self._notify = notify
        try:
            if self._is_on:
                action()
            yield
        finally:
            self._notify = None
            self.reset()
