"""Time. No deadline is computed from a machine's own wall clock (design section 4)."""

import math
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

__all__ = ("Clock", "ServerClock", "instant", "uptime")

Clock = Callable[[], float]
"""Returns epoch seconds."""

ReadServerTime = Callable[[], Awaitable[float | None]]
"""Asks the server for its time in epoch seconds; None where it cannot tell (in-process fakes)."""


def uptime() -> float:
    """Return seconds that only grow, also while the machine sleeps where it can tell."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


class ServerClock:
    """Epoch seconds on the server's clock, kept against this machine's monotonic clock.

    Two machines whose wall clocks differ by minutes agree on every lease, and a wall clock that
    jumps changes nothing. A reading is wrong by at most `error` seconds: half of the round trip it
    was learnt in, plus what the monotonic clock may have drifted since.
    """

    REFRESH_EVERY = 60.0
    PROBES = 3
    DRIFT = 1e-4

    def __init__(self, *, monotonic: Clock = uptime, wall: Clock = time.time) -> None:
        self._monotonic = monotonic
        self._wall = wall
        self._offset: float | None = None
        self._refresh_at = 0.0
        self._is_refreshing = False
        self._uncertainty = math.inf
        self._learnt_at = 0.0

    def __call__(self) -> float:
        """Return the server's time in epoch seconds; the local clock's before the first refresh."""
        if self._offset is None:
            return self._wall()
        return self._monotonic() + self._offset

    @property
    def error(self) -> float:
        """By how many seconds a reading may be wrong; infinity before the first refresh."""
        return self._uncertainty + self.DRIFT * (self._monotonic() - self._learnt_at)

    @property
    def is_due(self) -> bool:
        """Whether a refresh is due: never done, a minute old, or an error happened since."""
        return not self._is_refreshing and self._monotonic() >= self._refresh_at

    def expire(self) -> None:
        """Make the next use ask the server again: after an error it may be another server."""
        self._refresh_at = 0.0
        self._uncertainty = math.inf

    async def refresh(self, read_server_time: ReadServerTime) -> None:
        """Learn the server's time from the quickest of a few probes.

        What is known already stays if the probes were slow and tell less. Other callers go on
        with the old offset meanwhile. Errors of the driver pass through.
        """
        self._is_refreshing = True
        due, self._refresh_at = self._refresh_at, self._monotonic() + self.REFRESH_EVERY
        try:
            samples = [await self._probe(read_server_time) for _ in range(self.PROBES)]
        except BaseException:
            self._refresh_at = due
            raise
        finally:
            self._is_refreshing = False
        known = [sample for sample in samples if sample is not None]
        if known:
            self._learn(*min(known))

    def _learn(self, uncertainty: float, offset: float) -> None:
        has_stepped = (
            self._offset is not None and abs(offset - self._offset) > uncertainty + self.error
        )
        if has_stepped or uncertainty <= self.error:
            self._uncertainty, self._offset = uncertainty, offset
            self._learnt_at = self._monotonic()

    async def _probe(self, read_server_time: ReadServerTime) -> tuple[float, float] | None:
        sent = self._monotonic()
        server_time = await read_server_time()
        received = self._monotonic()
        if server_time is None:
            return None
        return (received - sent) / 2, server_time - (sent + received) / 2


def instant(seconds: float) -> datetime:
    """Return epoch seconds as an aware datetime."""
    return datetime.fromtimestamp(seconds, UTC)
