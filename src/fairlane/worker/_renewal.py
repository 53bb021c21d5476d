"""Keep leases alive while their handlers work; stop the handler of a lease that is lost."""

import logging
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from typing import Generic

import anyio

from fairlane.errors import LeaseLost
from fairlane.retry import Backoff
from fairlane.worker._blocking import OwnLoop, Watch
from fairlane.worker._cancellation import contained
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
        # To other threads each use of a dict below is one step.
        self._waiting: dict[Held[W], float] = {}
        self._looks_at = math.inf
        self._look_now: Callable[[], None] = lambda: None
        self._failing: set[str] = set()  # tokens of leases
        self.own_loop = OwnLoop()

    def add(self, held: Held[W]) -> None:
        """Renew from the next third of the visibility on, until the lease `is_over`."""
        due = max(held.renew_at, held.taken_at)
        self._waiting[held] = due
        # Race: it is discarded in another thread while this adds it again. One of both sees that.
        if held.is_over:
            self._waiting.pop(held, None)
        elif due < self._looks_at:
            self._look_now()

    def discard(self, held: Held[W]) -> None:
        held.is_over = True
        due = self._waiting.pop(held, None)
        if due is not None:  # a handler that blocked the loop up to its end
            self.own_loop.note(due, held)
        self._end_of_trouble(held)

    async def run_singly(self, extend: Callable[[W, float], Awaitable[W]]) -> None:
        """Renew each lease by itself, in the event loop of the handlers, until cancelled."""

        async def extend_many(works: Sequence[W], seconds: float) -> Sequence[W | None]:
            try:
                return [await extend(work, seconds) for work in works]
            except LeaseLost:
                return [None]

        await self.run(extend_many, self.own_loop, together=1)

    async def run(self, extend: ExtendMany[W], watch: Watch, *, together: int = TOGETHER) -> None:
        """Renew until cancelled, so many leases together at most."""
        async with anyio.create_task_group() as group:
            while True:
                wake = anyio.Event()
                self._look_now = in_this_loop(wake.set)
                # Race: a lease is added while this looks. What the look misses is due before
                # infinity, and wakes.
                self._looks_at = math.inf
                for batch in self._take_due(together, watch):
                    group.start_soon(self._keep, batch, extend)
                self._looks_at = min(tuple(self._waiting.values()), default=math.inf)
                with anyio.CancelScope(deadline=self._looks_at):
                    await wake.wait()

    def _take_due(self, together: int, watch: Watch) -> Iterator[list[Held[W]]]:
        """Take the leases that are due, and those that will be soon, in batches of one length."""
        now = anyio.current_time()
        by_visibility = defaultdict[float, list[Held[W]]](list)
        for held, due in tuple(self._waiting.items()):
            if due > now + held.visibility * SOON or self._waiting.pop(held, None) is None:
                continue
            watch.note(due, held)
            if held.renew_at > now + held.visibility * SOON:  # its handler has extended it
                self.add(held)
            else:
                by_visibility[held.visibility].append(held)
        for batch in by_visibility.values():
            yield from (batch[at : at + together] for at in range(0, len(batch), together))

    async def _keep(self, batch: Sequence[Held[W]], extend: ExtendMany[W]) -> None:
        """Renew until it is answered; then let each wait for its next turn."""
        for attempt in count(1):
            batch = [held for held in batch if not held.is_over]
            if not batch or await self._try_once(batch, extend):
                return
            await anyio.sleep(min(PAUSE.delay(attempt), batch[0].visibility / 12))

    async def _try_once(self, batch: Sequence[Held[W]], extend: ExtendMany[W]) -> bool:
        asked_at, visibility = anyio.current_time(), batch[0].visibility
        try:
            # A reply that never comes must leave time for a second try.
            limit = visibility / 6
            with anyio.move_on_after(limit):
                works = [held.work for held in batch]
                for held, work in zip(
                    batch, await contained(extend(works, visibility)), strict=True
                ):
                    self._answered(held, work, asked_at)
                return True
        except Exception as error:
            self._note_trouble(batch, error)
        else:
            self._note_trouble(batch, TimeoutError(f"no answer within {limit:g} s"))
        return False

    def _answered(self, held: Held[W], work: W | None, asked_at: float) -> None:
        self._end_of_trouble(held)
        if work is None:
            held.take_away_soon(
                "somebody else has it, or the handler settled it itself, which the pool does"
            )
            return
        held.renewed(work, held.visibility, asked_at=asked_at)
        self.add(held)

    def _note_trouble(self, batch: Sequence[Held[W]], error: Exception) -> None:
        """With all slots taken nothing is claimed, and only renewals can tell of an outage."""
        news = [each for each in batch if not each.is_over and each.work.token not in self._failing]
        if not news:
            return
        self._failing.update(each.work.token for each in news)
        self._vitals.fail("renewing")
        first, *others = news
        logger.warning(
            "cannot renew the lease on %s%s, trying on: %r",
            first.work.name,
            f" and {len(others)} more" if others else "",
            error,
            extra=first.log_extra,
        )

    def _end_of_trouble(self, held: Held[W]) -> None:
        self._failing.discard(held.work.token)
        if not self._failing:
            self._vitals.recover("renewing")
