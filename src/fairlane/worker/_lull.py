"""How long it is of no use to ask where nothing was found. Here nothing is read or written."""

import math
import random

import anyio

__all__ = ("JITTER", "SLACK", "Lull")

JITTER = 0.2

SLACK = 0.002
"""What is due is not found a moment too early: clocks are not that exact."""

WIDEST = 0.1
"""Seconds that something new waits at most because so much was told that is of no concern."""


class Lull:
    """The time after a claim that found nothing, until another one may find something.

    It is over after an interval, when something is due, and when something new is told of. Where
    that may be of no concern, `apart` so many seconds pass between a claim and the next one, and
    twice as many after each that was told of and in vain.
    """

    def __init__(self, interval: float, *, apart: float = 0.0) -> None:
        self._interval = interval
        self._least = self._apart = apart
        self._asked_at = -math.inf
        self._ends_at = -math.inf
        self._due_at = math.inf
        self._is_told = self._was_told = False

    @property
    def until(self) -> float:
        return min(self._ends_at, self._due_at)

    @property
    def is_over(self) -> bool:
        return anyio.current_time() >= self.until

    def told(self, delay: float = 0.0) -> None:
        """There may be something in so many seconds; 0 is now."""
        now = anyio.current_time()
        if delay > 0:
            self._due_at = min(self._due_at, now + delay + SLACK)
        elif self._ends_at > now:
            self._is_told = True
            self._ends_at = min(self._ends_at, max(now, self._asked_at + self._apart))

    def end(self) -> None:
        """There is something, most likely."""
        self._ends_at = -math.inf

    def last(self, seconds: float) -> None:
        """Be over in so many seconds, an interval at least."""
        self._ends_at = anyio.current_time() + max(seconds, self._interval)

    def claim_begins(self) -> None:
        """Nobody else need ask, unless something is told from now on."""
        self._asked_at = now = anyio.current_time()
        self._ends_at = now + self._interval * random.uniform(1, 1 + JITTER)
        self._was_told, self._is_told = self._is_told, False
        if self._due_at <= now:
            self._due_at = math.inf

    def claim_ends(self, found: int) -> None:
        if found:
            self._apart = self._least
            self.end()
        elif self._was_told:
            self._apart = min(2 * self._apart, WIDEST)
