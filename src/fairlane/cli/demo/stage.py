"""One performance of the demo, once everything it needs is running."""

import asyncio
import time
from collections.abc import Iterable

from fairlane.cli.demo.database import Database
from fairlane.cli.demo.display import Display
from fairlane.cli.demo.fleet import Fleet
from fairlane.cli.demo.plan import Plan
from fairlane.cli.demo.publishing import Publishing
from fairlane.cli.demo.records import Execution
from fairlane.cli.demo.wording import counted

__all__ = ("Stage", "Tally")

TICK = 0.02
CLEAN_UP_TICK = 0.1


class Tally:
    """Counts what the journals tell while the run is going on."""

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()
        self._handled: set[tuple[str, int]] = set()
        self.redelivered: int = 0

    @property
    def handled(self) -> int:
        return len(self._handled)

    def add(self, executions: Iterable[Execution]) -> None:
        for execution in executions:
            place = execution.delivery.group, execution.delivery.index
            self.redelivered += place in self._seen
            self._seen.add(place)
            if execution.outcome == "handled":
                self._handled.add(place)


class Stage:
    """Publishes, watches the workers, kills one of them, and waits for the end."""

    def __init__(
        self,
        plan: Plan,
        *,
        database: Database,
        publishing: Publishing,
        fleet: Fleet,
        display: Display,
    ) -> None:
        self._plan = plan
        self._database = database
        self._publishing = publishing
        self._fleet = fleet
        self._display = display
        self._tally = Tally()
        self._has_killed = not plan.is_killing
        self._done = 0
        self._moved_at = time.monotonic()

    async def play(self) -> None:
        """Return when all is handled and cleaned up, or when nothing moves any more."""
        async with asyncio.TaskGroup() as tasks:
            publishing = tasks.create_task(
                self._publishing.run(self._plan.events, self._plan.publishers)
            )
            while not self._is_complete and not self._is_stuck:
                await asyncio.sleep(TICK)
                self._look()
                if self._is_time_to_kill:
                    self._has_killed = True
                    tasks.create_task(self._kill_one())
            publishing.cancel()  # it has ended already, unless the run is stuck
        await self._wait_for_clean_up()

    @property
    def _is_complete(self) -> bool:
        return self._has_killed and self._tally.handled == len(self._plan.events)

    @property
    def _is_stuck(self) -> bool:
        return time.monotonic() - self._moved_at > self._plan.patience

    @property
    def _is_time_to_kill(self) -> bool:
        return not self._has_killed and 2 * self._tally.handled >= len(self._plan.events)

    def _look(self) -> None:
        self._fleet.check_alive()
        self._tally.add(self._fleet.poll())
        published, handled = len(self._publishing.published), self._tally.handled
        if published + handled > self._done:
            self._moved_at = time.monotonic()
        self._done = published + handled
        self._display.show(
            published=published, handled=handled, redelivered=self._tally.redelivered
        )

    async def _kill_one(self) -> None:
        victim = await self._fleet.kill_one()
        self._display.note(
            f"killed {victim.plan.name} (pid {victim.pid}) after "
            f"{counted(self._tally.handled, 'event')}; its leases end within "
            f"{self._plan.visibility:g} s"
        )
        replacement = await self._fleet.replace(victim)
        self._display.note(f"started {replacement.plan.name} (pid {replacement.pid}) in its place")

    async def _wait_for_clean_up(self) -> None:
        """Wait until the database is empty: a killed acknowledgement is repeated by others."""
        patience = 5.0 + 2 * self._plan.visibility
        for _ in range(round(patience / CLEAN_UP_TICK)):
            left = await self._database.leftovers()
            if not left.messages and not left.locks:
                return
            await asyncio.sleep(CLEAN_UP_TICK)
