"""A stream of events as the work of a run."""

import asyncio
from collections.abc import Iterable, Sequence

from fairlane.cli.demo.database import Database
from fairlane.cli.demo.plan import Plan
from fairlane.cli.demo.publishing import Publishing
from fairlane.cli.demo.records import Execution

__all__ = ("Events", "Tally")

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


class Events:
    """The act of a run over events; see `fairlane.cli.demo.stage.Act`."""

    noun = "event"

    def __init__(self, plan: Plan, *, publishing: Publishing, database: Database) -> None:
        self._plan = plan
        self._publishing = publishing
        self._database = database
        self._tally = Tally()

    @property
    def entered(self) -> int:
        return len(self._publishing.published)

    @property
    def ended(self) -> int:
        return self._tally.handled

    @property
    def repeated(self) -> int:
        return self._tally.redelivered

    @property
    def is_time_to_kill(self) -> bool:
        return 2 * self.ended >= len(self._plan.events)

    @property
    def is_complete(self) -> bool:
        return self.ended == len(self._plan.events)

    async def enter(self) -> None:
        await self._publishing.run(self._plan.events, self._plan.producers)

    async def look(self, executions: Sequence[Execution]) -> None:
        self._tally.add(executions)

    async def after_kill(self, worker: str) -> None:
        """Its groups wait for its leases to end; nothing is told of them but by what follows."""

    async def clean_up(self) -> None:
        """Wait until the database is empty: a killed acknowledgement is repeated by others."""
        patience = 5.0 + 2 * self._plan.visibility
        for _ in range(round(patience / CLEAN_UP_TICK)):
            left = await self._database.leftovers()
            if not left.messages and not left.locks:
                return
            await asyncio.sleep(CLEAN_UP_TICK)
