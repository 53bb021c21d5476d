"""Jobs as the work of a run."""

import asyncio
import time
from collections.abc import Sequence

from fairlane.cli.demo.events import Tally
from fairlane.cli.demo.fleet import Fleet
from fairlane.cli.demo.jobs.enqueuing import Enqueuing
from fairlane.cli.demo.jobs.ledger import Held, Ledger
from fairlane.cli.demo.jobs.plan import FEWEST_TICKS, TICKING_ID, JobsPlan
from fairlane.cli.demo.records import Execution

__all__ = ("JobsAct",)

LOOK_EVERY = 0.1
LOOKS_AFTER_KILL = 3
BETWEEN_LOOKS = 0.2


class JobsAct:
    """The act of a run over jobs; see `fairlane.cli.demo.stage.Act`.

    Attributes:
        held: the leases that the killed worker left behind.
    """

    noun = "job"

    def __init__(
        self, plan: JobsPlan, *, enqueuing: Enqueuing, ledger: Ledger, fleet: Fleet
    ) -> None:
        self._plan = plan
        self._enqueuing = enqueuing
        self._ledger = ledger
        self._fleet = fleet
        self._tally = Tally()
        self._ticks: set[int] = set()
        self._looked_at = 0.0
        self.ended: int = 0
        self.held: set[Held] = set()

    @property
    def entered(self) -> int:
        return self._enqueuing.finished

    @property
    def repeated(self) -> int:
        return self._tally.redelivered

    @property
    def is_time_to_kill(self) -> bool:
        """Half-way, in the middle of a job if there is one."""
        is_half_way = 2 * self.ended >= len(self._plan.jobs)
        return is_half_way and (self._fleet.is_victim_busy or self._has_ended)

    @property
    def is_complete(self) -> bool:
        return self._has_ended and len(self._ticks) >= FEWEST_TICKS

    @property
    def _has_ended(self) -> bool:
        ids = {placed.id for placed in self._enqueuing.placed}
        return self.entered == len(self._plan.jobs) and self.ended >= len(ids)

    async def enter(self) -> None:
        await self._enqueuing.run(self._plan)

    async def look(self, executions: Sequence[Execution]) -> None:
        """The database is asked, too: a worker may be killed before it records an end."""
        self._tally.add(executions)
        for execution in executions:
            if execution.delivery.group == TICKING_ID and execution.outcome == "handled":
                self._ticks.add(execution.delivery.index)
        if time.monotonic() - self._looked_at >= LOOK_EVERY:
            self.ended = await self._ledger.ended()
            self._looked_at = time.monotonic()

    async def after_kill(self, worker: str) -> None:
        """Look a few times: what it had sent may have arrived and not been done yet."""
        for _ in range(LOOKS_AFTER_KILL):
            self.held |= await self._ledger.held_by(worker)
            await asyncio.sleep(BETWEEN_LOOKS)

    async def clean_up(self) -> None:
        """Nothing is left to do: a job has ended when the database says so."""
