"""One life of a pool: its task groups, from the first claim to the last settlement."""

import logging
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Generic

import anyio
from anyio.abc import TaskGroup

from fairlane.containing import Owner, contained
from fairlane.errors import FairlaneError
from fairlane.worker._fetching import Fetching
from fairlane.worker._handling import Handling
from fairlane.worker._health import Vitals
from fairlane.worker._held import Held
from fairlane.worker._loops import in_this_loop, name_this_task
from fairlane.worker._outage import Outage
from fairlane.worker._outcome import RELEASE
from fairlane.worker._renewal import Renewals
from fairlane.worker._renewal_thread import renewing
from fairlane.worker._settings import Settings
from fairlane.worker._settling import Settling
from fairlane.worker._switch import Switch
from fairlane.worker._work import Chore, TellSleeper, W, WorkSource
from fairlane.worker.events import Reporter

__all__ = ("Run",)

logger = logging.getLogger(__name__)

CLAIM_SECONDS = 1.0
"""How long a claim in flight may still take once the pool stops. Then it is cancelled.

An `AsyncMongoTransport` that hears nothing from its server takes two seconds to end then
(`fairlane.shield.DEADLINE`): an idle pool is gone after three.
"""

WATCH_SECONDS = 10.0
"""So long after a fault the source is watched again."""

REPAIR_SECONDS = 10.0
RECONCILE_SECONDS = 60.0


class Run(Generic[W]):
    def __init__(
        self,
        source: WorkSource[W],
        settings: Settings,
        *,
        vitals: Vitals,
        report: Reporter,
    ) -> None:
        self._source = source
        self._settings = settings
        self._vitals = vitals
        self._report = report
        self._stopping = anyio.Event()
        self._watching = anyio.CancelScope()
        self._renewals: Renewals[W] = Renewals(vitals)
        self._settling = Settling(source, vitals, report)
        self._fetching = Fetching(
            source, settings, vitals, stopping=self._stopping, give_back=self._give_back
        )
        self._handling = Handling(
            source,
            settings,
            owner=Owner(),
            renewals=self._renewals,
            settling=self._settling,
            vitals=vitals,
            report=report,
        )

    async def live(self, stop: Switch, cut: Switch) -> None:
        """Work until `stop` is thrown, then drain until the deadline, or until `cut` is thrown.

        Everything a run does is in one of these three. They end from the inside out: claims, then
        handlers, then renewals, which nobody needs to wait for.
        """
        work = anyio.CancelScope()
        with stop.connected(self._stopping.set), cut.connected(work.cancel), work:
            async with (
                renewing(self._renewals, self._source),
                anyio.create_task_group() as handlers,
            ):
                await self._claim(work, partial(self._start, handlers))
                if not self._stopping.is_set():
                    work.cancel()
        if self._fetching.hopeless is not None:
            raise self._fetching.hopeless
        if not self._stopping.is_set():  # a group ends without an error when its task is cancelled
            raise FairlaneError(
                "a task of the pool was cancelled, but not by the pool or by whoever runs it; "
                "all leases were given back: look for what cancels tasks that it has not made"
            )

    async def _claim(self, work: anyio.CancelScope, start: Callable[[Held[W]], None]) -> None:
        """Claim and repair until told to stop; then set the drain's deadline."""
        async with anyio.create_task_group() as claims:
            for _ in range(self._settings.claimers):
                claims.start_soon(self._fetching.fetch, start)
            self._start_maintenance(claims)
            if self._source.watch is not None:
                claims.start_soon(self._watch, self._source.watch)
            with self._announced():
                await self._stopping.wait()
            self._drain(work, claims.cancel_scope)

    def _drain(self, work: anyio.CancelScope, claims: anyio.CancelScope) -> None:
        self._vitals.drain()
        self._watching.cancel()
        self._handling.give_back_unbegun()
        now = anyio.current_time()
        work.deadline = now + self._settings.drain_timeout
        claims.deadline = now + CLAIM_SECONDS
        self._fetching.wake_all()

    def _start(self, handlers: TaskGroup, held: Held[W]) -> None:
        self._renewals.add(held)  # from now on: it may be long until its task starts
        handlers.start_soon(self._handle, held)

    async def _handle(self, held: Held[W]) -> None:
        try:
            await contained(self._carry(held))
        except Exception:  # one message must not take the others down with it
            logger.exception("a lease was dropped by a fault of the pool or the source")
        finally:
            self._renewals.discard(held)
            self._source.let_go(held.work)
            if held.lost is None and held.outcome.delay:
                self._fetching.rest.wake(held.outcome.delay, held.lane)
            self._fetching.free_slot(held)

    async def _carry(self, held: Held[W]) -> None:
        with self._vitals.leased():
            self._report("claimed", held.work)
            name_this_task(f"the handler of {held.work.name}")
            await self._handling.handle(held)

    async def _give_back(self, held: Held[W]) -> None:
        with self._vitals.leased():
            self._report("claimed", held.work)
            held.outcome = RELEASE
            try:
                await self._settling.settle(held)
            finally:
                self._source.let_go(held.work)

    def _start_maintenance(self, group: TaskGroup) -> None:
        repair, reconcile = self._source.repair, self._source.reconcile
        if repair is not None:
            group.start_soon(self._maintain, "repairing", repair, REPAIR_SECONDS)
        if reconcile is not None:
            group.start_soon(self._maintain, "reconciling", reconcile, RECONCILE_SECONDS)

    async def _maintain(self, what: str, task: Chore, seconds: float) -> None:
        outage = Outage(what, self._vitals)
        delay = _jittered(seconds)
        while not await self._is_stopped_within(delay):
            try:
                await contained(task())
            except Exception as error:
                delay = outage.note(error)
            else:
                outage.end()
                delay = _jittered(seconds)

    async def _watch(self, tell: TellSleeper) -> None:
        """Let the source tell what others make claimable, once the pool, or part of it, may rest.

        Errors of the server are none of this: the source bears them.
        """
        with self._watching:
            if not self._source.has_parts:
                await self._fetching.rest.has_begun.wait()
            while True:
                try:
                    await contained(tell(self._fetching.rest))
                except Exception:
                    logger.exception("nobody watches the source for %g s", WATCH_SECONDS)
                    await anyio.sleep(WATCH_SECONDS)
                else:
                    return

    async def _is_stopped_within(self, delay: float) -> bool:
        with anyio.move_on_after(delay):
            await self._stopping.wait()
        return self._stopping.is_set()

    @contextmanager
    def _announced(self) -> Iterator[None]:
        """Look for work whenever the source tells of some."""
        unsubscribe = self._source.subscribe(in_this_loop(self._fetching.look_again))
        try:
            yield
        finally:
            unsubscribe()


def _jittered(seconds: float) -> float:
    """Let pools that start together not all work at the same moment."""
    return seconds * random.uniform(0.5, 1.0)
