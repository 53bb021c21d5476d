"""Keep leases alive while their handlers work; stop the handler of a lease that is lost."""

import logging
import math
from itertools import count
from typing import TYPE_CHECKING, Generic

import anyio

from fairlane.errors import LeaseLost
from fairlane.retry import Backoff
from fairlane.worker._blocking import OwnLoop, Watch
from fairlane.worker._cancellation import contained
from fairlane.worker._health import Vitals
from fairlane.worker._held import Held
from fairlane.worker._loops import in_this_loop
from fairlane.worker._work import Extend, W

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ("Renewals",)

logger = logging.getLogger(__name__)

PAUSE = Backoff(base=0.05, cap=2.0)


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
        if due < self._looks_at:
            self._look_now()

    def discard(self, held: Held[W]) -> None:
        held.is_over = True
        due = self._waiting.pop(held, None)
        if due is not None:  # a handler that blocked the loop up to its end
            self.own_loop.note(due, held)
        self._end_of_trouble(held)

    async def run(self, extend: Extend[W], watch: Watch) -> None:
        """Renew until cancelled."""
        async with anyio.create_task_group() as group:
            while True:
                wake = anyio.Event()
                self._look_now = in_this_loop(wake.set)
                # Race: a lease is added while this looks. What the look misses is due before
                # infinity, and wakes.
                self._looks_at = math.inf
                for held, due in self._take_due():
                    watch.note(due, held)
                    group.start_soon(self._keep, held, extend, watch)
                await self._sleep_until_due(wake)

    def _take_due(self) -> list[tuple[Held[W], float]]:
        now = anyio.current_time()
        due = [(held, at) for held, at in tuple(self._waiting.items()) if at <= now]
        return [(held, at) for held, at in due if self._waiting.pop(held, None) is not None]

    async def _sleep_until_due(self, wake: anyio.Event) -> None:
        self._looks_at = min(tuple(self._waiting.values()), default=math.inf)
        with anyio.CancelScope(deadline=self._looks_at):
            await wake.wait()

    async def _keep(self, held: Held[W], extend: Extend[W], watch: Watch) -> None:
        try:
            while not held.is_over:
                await self._renew(held, extend)
                due = max(held.renew_at, anyio.current_time())
                await anyio.sleep_until(due)
                watch.note(due, held)
        except LeaseLost:
            held.take_away_soon(
                "somebody else has it, or the handler settled it itself, which the pool does"
            )
        finally:
            self._end_of_trouble(held)

    async def _renew(self, held: Held[W], extend: Extend[W]) -> None:
        for attempt in count(1):
            if await self._try_once(held, extend) or held.is_over:
                self._end_of_trouble(held)
                return
            await anyio.sleep(min(PAUSE.delay(attempt), held.visibility / 12))

    async def _try_once(self, held: Held[W], extend: Extend[W]) -> bool:
        asked_at = anyio.current_time()
        try:
            # A reply that never comes must leave time for a second try.
            limit = held.visibility / 6
            with anyio.move_on_after(limit):
                work = await contained(extend(held.work, held.visibility))
                held.renewed(work, held.visibility, asked_at=asked_at)
                return True
        except LeaseLost:
            raise
        except Exception as error:
            self._note_trouble(held, error)
        else:
            self._note_trouble(held, TimeoutError(f"no answer within {limit:g} s"))
        return False

    def _note_trouble(self, held: Held[W], error: Exception) -> None:
        """With all slots taken nothing is claimed, and only renewals can tell of an outage."""
        if held.is_over or held.work.token in self._failing:
            return
        self._failing.add(held.work.token)
        self._vitals.fail("renewing")
        logger.warning(
            "cannot renew the lease on %s, trying on: %r",
            held.work.name,
            error,
            extra=held.log_extra,
        )

    def _end_of_trouble(self, held: Held[W]) -> None:
        self._failing.discard(held.work.token)
        if not self._failing:
            self._vitals.recover("renewing")
