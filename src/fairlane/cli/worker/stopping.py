"""Signals, in three steps: drain, cancel, leave at once."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum

from fairlane.cli.outcome import TERMINATED

__all__ = ("Step", "Steps", "leave_at_once")

logger: logging.Logger = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LAST_WORDS = 0.3
LEFT = "leaving at once with status %d: what is at work is delivered again when its lease ends"


class Step(IntEnum):
    WORK = 0
    DRAIN = 1
    CANCEL = 2
    LEAVE = 3


class Steps:
    """How far the end of a process has come: as far as its signals, or its supervisor, say.

    Args:
        act: called in the event loop when `DRAIN` or `CANCEL` is reached.
        leave: ends the process with the status that it gets. Called where the third signal, or
            the end of `kill_after`, finds the process, so that a loop that hangs cannot prevent it.
        kill_after: seconds from the first step to the last.
    """

    def __init__(
        self,
        act: Callable[[Step], None],
        *,
        leave: Callable[[int], object],
        kill_after: float | None = None,
    ) -> None:
        self.step: Step = Step.WORK
        self._signals = 0
        self._lock = threading.RLock()  # a signal may interrupt who holds it
        self._status = TERMINATED
        self._act = act
        self._leave = leave
        self._kill_after = kill_after
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def following_signals(self) -> Iterator[None]:
        """Handle the signals in the running loop. After a signal they stay handled for good.

        The process ends with a status of its own then, whatever else it is sent.
        """
        self._loop = asyncio.get_running_loop()
        # Not the loop's own handlers: those need a loop that turns, and go when it does.
        before = {number: signal.signal(number, self._on_signal) for number in SIGNALS}
        try:
            yield
        finally:
            if not self.step:
                for number, handler in before.items():
                    signal.signal(number, handler)

    def reach(self, step: Step, number: int = signal.SIGTERM) -> None:
        """Go on to a step, unless it is behind; safe from any thread."""
        with self._lock:
            if step <= self.step:
                return
            is_first, self.step = not self.step, step
        self._status = 128 + number
        if step is Step.LEAVE:
            self._leave(self._status)
            return
        if is_first and self._kill_after is not None:
            self.leave_in(self._kill_after, self._status)
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._act, step)

    def leave_in(self, seconds: float, status: int) -> None:
        """Leave after so many seconds, if the process has not ended by then.

        A status of 0 would say too much: then it is that of the last signal.
        """
        timer = threading.Timer(seconds, lambda: self._leave(status or self._status))
        timer.daemon = True
        timer.start()

    def _on_signal(self, number: int, _: object) -> None:
        # Not one step on from where it is: a supervisor may have passed on this very signal.
        self._signals += 1
        self.reach(Step(min(self._signals, Step.LEAVE)), number)


def leave_at_once(status: int) -> None:
    """End the process: no clean-up, leases run out by themselves.

    The last words have a thread of their own: whoever is interrupted here may hold up the log.
    """
    words = threading.Thread(target=logger.error, args=(LEFT, status), daemon=True)
    words.start()
    words.join(LAST_WORDS)
    os._exit(status)
