"""A lease in the hands of this pool."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Generic

import anyio

from fairlane.worker._loops import in_loop
from fairlane.worker._outcome import FAULT, INTERRUPTED, RELEASE, Outcome
from fairlane.worker._work import W

if TYPE_CHECKING:
    from fairlane.worker._calling import ThreadCall
    from fairlane.worker.events import EventKind

__all__ = ("Held",)


class Held(Generic[W]):
    """A lease, how long it lasts at least, and how it is going to end.

    Times are seconds on the event loop's own clock, which no one can set: a lease lasts
    `visibility` from some moment after its claim or renewal was asked for, so counting from the
    asking errs on the safe side.

    Attributes:
        work: what is leased, as last renewed.
        taken_at: when its claim was answered.
        safe_until: until then nobody else can have the group. Moved by renewals, in any thread.
        outcome: what to settle it with; `FAULT` until it is known.
        lost: why the lease is no longer ours; None while it is.
        ending: what became of it; `unsettled` until it is known.
        was_lost: set when it is lost.
        working: the scope of its handler.
        has_ended: whether its handler has ended, so that a loss can harm nothing any more.
        is_over: set when it has been settled: nothing is to be renewed any more.
        is_gone: set when a renewal was refused.
        has_begun: whether its handler, or a middleware, was called in the event loop.
        thread: where a plain function works on the message; it cannot be stopped.
        lane: whose slot it has; see `Lanes`.
    """

    def __init__(self, work: W, *, asked_at: float, now: float) -> None:
        self.work = work
        self.visibility = visibility = work.visibility
        self.taken_at = now
        # A claim may take long and lease late; it promises to leave half of the visibility.
        self.safe_until = max(asked_at + visibility, now + visibility / 2)
        self.outcome: Outcome = FAULT
        self.lost: str | None = None
        self.ending: EventKind = "unsettled"
        self.was_lost = anyio.Event()
        self.working = anyio.CancelScope()
        self.has_begun = False
        self.has_ended = False
        self.is_over = False
        self.is_gone = False
        self.thread: ThreadCall | None = None
        self.lane = 0
        self._loop = asyncio.get_running_loop()
        self._guard: asyncio.TimerHandle | None = None

    @property
    def renew_at(self) -> float:
        """A third of the visibility after the last renewal."""
        return self.safe_until - self.visibility * 2 / 3

    @property
    def give_up_at(self) -> float:
        """Leaves the handler a sixth of the visibility to end before another worker can start."""
        return self.safe_until - self.visibility / 6

    @property
    def is_occupied(self) -> bool:
        """Whether a thread still works on the message, though nobody waits for its result."""
        return self.thread is not None and self.thread.is_at_work

    @property
    def interruption(self) -> Outcome:
        """How it ends if its handler does not end by itself, or has not even begun."""
        has_begun = self.has_begun or (self.thread is not None and self.thread.has_begun)
        return INTERRUPTED if has_begun else RELEASE

    def renewed(self, work: W, seconds: float, *, asked_at: float) -> None:
        self.work = work
        self.safe_until = max(self.safe_until, asked_at + seconds)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Cancel the handler in here in time, should no renewal move the end of the lease."""
        self._watch()
        try:
            yield
        finally:
            self.has_ended = True
            if self._guard is not None:
                self._guard.cancel()

    def _watch(self) -> None:
        # Looked up when the time has come: a loop that stood still hears late of renewals.
        if self._loop.time() < self.give_up_at:
            self._guard = self._loop.call_at(self.give_up_at, self._watch)
        else:
            self.take_away("it could not be renewed in time")

    def take_away_soon(self, why: str) -> None:
        """Do as `take_away`, from any thread."""
        in_loop(self._loop, partial(self.take_away, why))()

    def take_away(self, why: str) -> None:
        """Cancel the handler, unless it has ended."""
        if self.has_ended:
            return
        if self.lost is None:  # the handler may know it already, from an extension of its own
            self.lose(why)
        self.working.cancel()

    def lose(self, why: str) -> None:
        self.lost = why
        self.was_lost.set()

    @property
    def log_extra(self) -> dict[str, object]:
        return {**self.work.identity, "attempt": self.work.attempt}
