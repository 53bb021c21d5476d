"""One performance of the demo, once everything it needs is running."""

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

from fairlane.cli.demo.crew import Crew
from fairlane.cli.demo.display import Display
from fairlane.cli.demo.fleet import Fleet
from fairlane.cli.demo.records import Execution
from fairlane.cli.demo.wording import counted

__all__ = ("Act", "Stage")

TICK = 0.02


class Act(Protocol):
    """What is worked off in a run, as far as the stage has to know it."""

    @property
    def noun(self) -> str:
        """What one piece of work is called."""

    @property
    def entered(self) -> int:
        """How many the database has been given."""

    @property
    def ended(self) -> int:
        """How many were worked off."""

    @property
    def repeated(self) -> int:
        """How many executions were not the first ones."""

    @property
    def is_time_to_kill(self) -> bool: ...

    @property
    def is_complete(self) -> bool: ...

    async def enter(self) -> None:
        """Give the database all of the work."""

    async def look(self, executions: Sequence[Execution]) -> None:
        """Learn how far the work is, beside the executions that ended since the last look."""

    async def after_kill(self, worker: str) -> None:
        """Note what this worker leaves behind; its leases last still."""

    async def clean_up(self) -> None:
        """Wait for what has to happen yet when all is worked off."""


class Stage:
    """Lets the work begin, watches the workers, kills one of them, and waits for the end."""

    def __init__(self, plan: Crew, act: Act, *, fleet: Fleet, display: Display) -> None:
        self._plan = plan
        self._act = act
        self._fleet = fleet
        self._display = display
        self._has_killed = not plan.is_killing
        self._done = 0
        self._moved_at = time.monotonic()

    async def play(self) -> None:
        """Return when all is worked off and cleaned up, or when nothing moves any more."""
        async with asyncio.TaskGroup() as tasks:
            entering = tasks.create_task(self._act.enter())
            while not self._is_over and not self._is_stuck:
                await asyncio.sleep(TICK)
                await self._look()
                if not self._has_killed and self._act.is_time_to_kill:
                    self._has_killed = True
                    tasks.create_task(self._kill_one())
            entering.cancel()  # it has ended already, unless the run is stuck
        await self._act.clean_up()

    @property
    def _is_over(self) -> bool:
        return self._has_killed and self._act.is_complete

    @property
    def _is_stuck(self) -> bool:
        return time.monotonic() - self._moved_at > self._plan.patience

    async def _look(self) -> None:
        self._fleet.check_alive()
        await self._act.look(self._fleet.poll())
        entered, ended = self._act.entered, self._act.ended
        if entered + ended > self._done:
            self._moved_at = time.monotonic()
        self._done = entered + ended
        self._display.show(entered=entered, ended=ended, repeated=self._act.repeated)

    async def _kill_one(self) -> None:
        victim = await self._fleet.kill_one()
        self._display.note(
            f"killed {victim.plan.name} (pid {victim.pid}) after "
            f"{counted(self._act.ended, self._act.noun)}; its leases end within "
            f"{self._plan.visibility:g} s"
        )
        await self._act.after_kill(victim.plan.name)
        replacement = await self._fleet.replace(victim)
        self._display.note(f"started {replacement.plan.name} (pid {replacement.pid}) in its place")
