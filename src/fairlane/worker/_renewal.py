"""Keep leases alive while their handlers work; stop the handler of a lease that is lost."""

import logging
import math
import threading
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from typing import Generic

import anyio
from anyio.abc import TaskGroup

from fairlane.containing import contained
from fairlane.errors import LeaseLost
from fairlane.retry import Backoff
from fairlane.worker._blocking import LoopItself, Watch
from fairlane.worker._health import Vitals
from fairlane.worker._held import Held
from fairlane.worker._loops import in_this_loop
from fairlane.worker._work import ExtendMany, W

__all__ = ("Renewals",)

logger = logging.getLogger(__name__)

PAUSE = Backoff(base=0.05, cap=2.0)

TOGETHER = 200
"""So many leases are renewed in one command at most."""

SOON = 1 / 30
"""Leases that are due within this share of their visibility are renewed with those that are."""


class Renewals(Generic[W]):
    """The leases in hand, each renewed whenever it is due.

    `add` and `discard` are called in the event loop of the handlers; `run` runs in the same one or
    in that of another thread. A handler that ends before its first renewal wakes nobody.
    """

    def __init__(self, vitals: Vitals) -> None:
        self._vitals = vitals
        self._lock = threading.Lock()  # for what follows
        self._waiting: dict[Held[W], float] = {}
        self._failing: set[str] = set()  # tokens of leases
        self._looks_at = math.inf
        self._look_now: Callable[[], None] = lambda: None
        self.loop_itself = LoopItself()

    def add(self, held: Held[W]) -> None:
        """Renew from the next third of the visibility on, until the lease `is_over`."""
        due = max(held.renew_at, held.taken_at)
        with self._lock:
            # Race: it is discarded while the other thread adds it again.
            if held.is_over:
                return
            self._waiting[held] = due
            is_early = due < self._looks_at
        if is_early:
            self._look_now()

    def discard(self, held: Held[W]) -> None:
        with self._lock:
            held.is_over = True
            due = self._waiting.pop(held, None)
        if due is not None:  # a handler that blocked the loop up to its end
            self.loop_itself.note(due, held)
        self._end_of_trouble([held])

    async def run_singly(self, extend: Callable[[W, float], Awaitable[W]]) -> None:
        """Renew each lease by itself, in the event loop of the handlers, until cancelled."""

        async def extend_many(works: Sequence[W], seconds: float) -> Sequence[W | None]:
            try:
                return [await extend(work, seconds) for work in works]
            except LeaseLost:
                return [None]

        await self.run(extend_many, self.loop_itself, together=1)

    async def run(self, extend: ExtendMany[W], watch: Watch, *, together: int = TOGETHER) -> None:
        """Renew until cancelled, so many leases together at most."""
        async with anyio.create_task_group() as group:
            while True:
                wake = anyio.Event()
                with self._lock:
                    # What is added from here on, while this looks, is due before infinity, and
                    # wakes.
                    self._looks_at, self._look_now = math.inf, in_this_loop(wake.set)
                self._start_due(group, extend, together=together, watch=watch)
                with self._lock:
                    self._looks_at = min(self._waiting.values(), default=math.inf)
                with anyio.CancelScope(deadline=self._looks_at):
                    await wake.wait()

    def _start_due(
        self, group: TaskGroup, extend: ExtendMany[W], *, together: int, watch: Watch
    ) -> None:
        """Not in `run`, which would keep the last leases, with their messages, while it waits."""
        for batch in self._take_due(together, watch):
            group.start_soon(self._keep, batch, extend)

    def _take_due(self, together: int, watch: Watch) -> Iterator[list[Held[W]]]:
        """Take the leases that are due, and those that will be soon, in batches of one kind."""
        now = anyio.current_time()
        with self._lock:
            due = [
                (held, at)
                for held, at in self._waiting.items()
                if at <= now + held.visibility * SOON
            ]
            for held, _ in due:
                del self._waiting[held]
        alike = defaultdict[tuple[float, object], list[Held[W]]](list)
        for held, at in due:
            watch.note(at, held)
            if watch.is_wedged(held):
                continue
            if held.renew_at > now + held.visibility * SOON:  # its handler has extended it
                self.add(held)
            else:
                alike[held.visibility, held.work.origin].append(held)
        for batch in alike.values():
            yield from (batch[at : at + together] for at in range(0, len(batch), together))

    async def _keep(self, batch: Sequence[Held[W]], extend: ExtendMany[W]) -> None:
        """Renew until it is answered; then, or if this fails, let each wait for its next turn."""
        try:
            for attempt in count(1):
                batch = [held for held in batch if not held.is_over]
                if not batch or await self._try_once(batch, extend):
                    return
                await anyio.sleep(min(PAUSE.delay(attempt), batch[0].visibility / 12))
        finally:
            for held in batch:
                if not held.is_gone:
                    self.add(held)

    async def _try_once(self, batch: Sequence[Held[W]], extend: ExtendMany[W]) -> bool:
        asked_at, visibility = anyio.current_time(), batch[0].visibility
        try:
            # A reply that never comes must leave time for a second try, between a third and five
            # sixths of the visibility. The shorter, the more often a slow link is cut off.
            limit = visibility / 4
            with anyio.move_on_after(limit):
                works = await contained(extend([held.work for held in batch], visibility))
                for held, work in zip(batch, works, strict=True):
                    _tell(held, work, asked_at)
                self._end_of_trouble(batch)
                return True
        except Exception as error:
            self._note_trouble(batch, error)
        else:
            self._note_trouble(batch, TimeoutError(f"no answer within {limit:g} s"))
        return False

    def _note_trouble(self, batch: Sequence[Held[W]], error: Exception) -> None:
        """With all slots taken nothing is claimed, and only renewals can tell of an outage."""
        with self._lock:
            news = [
                held for held in batch if not held.is_over and held.work.token not in self._failing
            ]
            if not news:
                return
            self._failing.update(held.work.token for held in news)
            self._vitals.fail("renewing")
        first, *others = news
        logger.warning(
            "cannot renew the lease on %s%s, trying on: %r",
            first.work.name,
            f" and {len(others)} more" if others else "",
            error,
            extra=first.log_extra,
        )

    def _end_of_trouble(self, batch: Sequence[Held[W]]) -> None:
        with self._lock:
            if not self._failing:
                return
            self._failing.difference_update(held.work.token for held in batch)
            if not self._failing:
                self._vitals.recover("renewing")


def _tell(held: Held[W], work: W | None, asked_at: float) -> None:
    """Tell of a renewal; None for a lease that is lost."""
    if work is not None:
        held.renewed(work, held.visibility, asked_at=asked_at)
        return
    held.is_gone = True
    held.take_away_soon(
        "somebody else has it, or the handler settled it itself, which the pool does"
    )
