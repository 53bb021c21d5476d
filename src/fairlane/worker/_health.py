"""How a pool is doing, for readiness checks and dashboards."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Literal

__all__ = ("Health", "State", "Vitals")

State = Literal["starting", "ok", "degraded", "draining", "stopped"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """A pool at one moment.

    Attributes:
        state: `starting` until the source has answered for the first time; `ok`; `degraded` while
            claims, renewals, repairs or settlements fail, or a claim waits for its answer and none
            was answered for three `poll_interval` and five seconds, or since something else failed;
            `draining` after `stop()`; `stopped` before and after `run()`.
        last_poll_at: when the source last answered a claim, or said when the next group is due, by
            this machine's clock; None if never.
        last_poll_age: seconds since then.
        running: handlers at work.
        leased: leases in hand: handlers at work, and settlements under way.
        is_watched: whether a change stream tells the pool of new work at the moment. Where it does
            not, the pool finds what others publish by its polls.
    """

    state: State
    last_poll_at: datetime | None
    last_poll_age: float | None
    running: int
    leased: int
    is_watched: bool = False


class Vitals:
    """Collects what `Health` shows. Reading it is safe from any thread."""

    def __init__(self, *, poll_interval: float) -> None:
        self.patience = 3 * poll_interval + 5.0
        self._polls = 0
        self._waits_since = 0.0
        self._failed_at = -math.inf
        self._phase: Literal["stopped", "running", "draining"] = "stopped"
        self._failing: set[str] = set()  # renewals add to it from a thread of their own
        self._polled: tuple[datetime, float] | None = None
        self._running = 0
        self._leased = 0
        self.is_watched = False

    @property
    def has_polled(self) -> bool:
        """Whether the source has answered since the start."""
        return self._polled is not None

    def start(self) -> None:
        self._phase, self._failing, self._polled = "running", set(), None
        self._failed_at = -math.inf

    def drain(self) -> None:
        self._phase = "draining"

    def stop(self) -> None:
        self._phase = "stopped"

    @contextmanager
    def polling(self) -> Iterator[None]:
        """A claim is on its way; it is answered unless this raises."""
        if not self._polls:
            self._waits_since = monotonic()
        self._polls += 1
        try:
            yield
        finally:
            self._polls -= 1
        self._waits_since = monotonic()
        self._polled = datetime.now(UTC), self._waits_since

    def watch(self, is_watched: bool) -> None:
        self.is_watched = is_watched

    def fail(self, what: str) -> None:
        self._failed_at = monotonic()
        self._failing.add(what)

    def recover(self, what: str) -> None:
        self._failing.discard(what)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1

    @contextmanager
    def leased(self) -> Iterator[None]:
        self._leased += 1
        try:
            yield
        finally:
            self._leased -= 1

    def snapshot(self) -> Health:
        polled = self._polled
        return Health(
            state=self._state(),
            last_poll_at=None if polled is None else polled[0],
            last_poll_age=None if polled is None else monotonic() - polled[1],
            running=self._running,
            leased=self._leased,
            is_watched=self.is_watched,
        )

    def _state(self) -> State:
        if self._phase != "running":
            return self._phase
        if not self.has_polled:
            return "starting"
        return "degraded" if self._failing or self._hangs() else "ok"

    def _hangs(self) -> bool:
        """Tell whether a claim has no answer for too long.

        Or since something failed: when a lease is lost because nobody could renew it, its renewal
        fails no more, though the server is as far away as before.
        """
        answered_at = -math.inf if self._polled is None else self._polled[1]
        is_late = monotonic() - self._waits_since > self.patience or self._failed_at > answered_at
        return self._polls > 0 and is_late
