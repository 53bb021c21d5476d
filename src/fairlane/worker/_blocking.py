"""Notice that the event loop of the handlers stands still, and name what blocks it."""

import asyncio
import logging
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup

from fairlane.worker._held import Held
from fairlane.worker._loops import in_loop, in_this_loop

__all__ = ("LoopItself", "OtherLoop", "ThisLoop", "Watch")

logger = logging.getLogger(__name__)

TOLERANCE = 0.1
"""Seconds by which something may be late without being worth a line."""

WEDGED = 10
"""So many visibilities without an answer are the end of renewals."""

ADVICE = "make a handler that blocks a plain function (`def`), which runs in a thread"


class Watch(Protocol):
    def note(self, due: float, held: Held[Any]) -> None:
        """A renewal was due then."""
        ...

    def is_wedged(self, held: Held[Any]) -> bool:
        """Whether the loop has stood still for so long that nobody should keep its leases."""
        ...


class LoopItself:
    """Watches the loop that it runs in: it sees afterwards that time went by."""

    def __init__(self) -> None:
        self._blocked_until = 0.0

    def note(self, due: float, held: Held[Any]) -> None:
        """Tell of each time that the loop stood still, once for all leases."""
        now = anyio.current_time()
        if now - due < _tolerance(held) or due < self._blocked_until:
            return
        self._blocked_until = now
        logger.warning(
            "the event loop was blocked for %.1f s or longer, so no lease could be renewed; %s",
            *(now - due, ADVICE),
            extra=held.log_extra,
        )

    def is_wedged(self, held: Held[Any]) -> bool:
        return False  # it is running


class ThisLoop:
    """An event loop and its thread, as others see them."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    @property
    def at_work(self) -> str:
        """Which task runs now, and where it is: told from outside, so it may be over by now."""
        task = None
        with suppress(RuntimeError):
            task = asyncio.current_task(self.loop)
        return f"{'a callback' if task is None else task.get_name()}, {self._place}"

    @property
    def _place(self) -> str:
        frame = sys._current_frames().get(self._thread)
        if frame is None:
            return "at an unknown place"
        (innermost,) = traceback.extract_stack(frame, limit=1)
        return f"at {innermost.filename}:{innermost.lineno} in {innermost.name}"


class OtherLoop:
    """Watches a loop from another thread: asks it for an answer, and tells who lets it wait."""

    def __init__(self, watched: ThisLoop, group: TaskGroup) -> None:
        self._watched = watched
        self._group = group
        self._asked_at: float | None = None

    def note(self, due: float, held: Held[Any]) -> None:
        if self._asked_at is None:
            self._asked_at = anyio.current_time()
            self._group.start_soon(self._ask, self._asked_at, held)

    def is_wedged(self, held: Held[Any]) -> bool:
        """A deadlock, or an endless loop: somebody else has to have its work some time."""
        if self._watched.loop.is_closed():
            return True
        if self._asked_at is None:
            return False
        return anyio.current_time() - self._asked_at > WEDGED * held.visibility

    async def _ask(self, asked_at: float, held: Held[Any]) -> None:
        answered = anyio.Event()
        in_loop(self._watched.loop, in_this_loop(answered.set))()
        try:
            with anyio.move_on_after(_tolerance(held)):
                await answered.wait()
                return
            logger.warning(
                "the event loop has been blocked for %.1f s or longer by %s; leases are renewed "
                "for up to %g s, but nothing else goes on: %s",
                *(anyio.current_time() - asked_at, self._watched.at_work),
                *(WEDGED * held.visibility, ADVICE),
            )
            await answered.wait()
            seconds = anyio.current_time() - asked_at
            logger.warning("the event loop was blocked for %.1f s or longer, and goes on", seconds)
        finally:
            self._asked_at = None


def _tolerance(held: Held[Any]) -> float:
    return max(TOLERANCE, held.visibility / 12)
