"""Telling whoever is interested that there may be work."""

import logging
from collections.abc import Callable
from typing import Protocol

__all__ = ("Announcer", "Sleeper")

logger: logging.Logger = logging.getLogger(__name__)


class Sleeper(Protocol):
    """Somebody who looks for work now and then, and hears in between of what others do."""

    def wake(self, delay: float) -> None:
        """There may be something to claim in so many seconds; 0 is now."""
        ...

    def look_soon(self) -> None:
        """There may be something which, most likely, others claim at once."""
        ...

    def watched(self, is_watched: bool) -> None:
        """Whether everything is told from now on."""
        ...


class Announcer:
    """Calls those who have subscribed; an error of theirs is theirs."""

    def __init__(self) -> None:
        self._callbacks: dict[object, Callable[[], object]] = {}

    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Return what ends the subscription; it may be called again."""
        key = object()
        self._callbacks[key] = callback
        return lambda: self._callbacks.pop(key, None) and None

    def announce(self) -> None:
        for callback in tuple(self._callbacks.values()):
            try:
                callback()
            except Exception:  # what was to be stored is stored
                logger.exception("%r could not be told of new work", callback)
