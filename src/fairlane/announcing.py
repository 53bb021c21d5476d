"""Telling whoever is interested that there may be work, within a process."""

import logging
from collections.abc import Callable

__all__ = ("Announcer",)

logger: logging.Logger = logging.getLogger(__name__)


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
