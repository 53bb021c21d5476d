"""One soak, from its first publish to its verdict."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient

from fairlane import AsyncMongoTransport
from integration.wire.proxy import Proxy
from soak.ending import Ending, end
from soak.fleet import Fleet
from soak.plan import Plan
from soak.publishing import Publishing
from soak.troubles import Losses, Refusals, kill_now_and_then
from soak.verdict import Record, judge

__all__ = ("Report", "Soak")

DATABASE = "soak"
HOUR = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What happened, in numbers, and every broken promise in words."""

    counts: dict[str, int]
    breaches: list[str]

    def __str__(self) -> str:
        return ", ".join(f"{number:,} {what}" for what, number in self.counts.items())


class Soak:
    def __init__(self, plan: Plan, url: str, folder: Path) -> None:
        self._plan = plan
        self._url = url
        self._folder = folder

    async def run(self) -> Report:
        async with Proxy.opened(self._url) as proxy, AsyncMongoClient[Any](self._url) as client:
            fleet = Fleet(self._plan, url=proxy.url, database=DATABASE, folder=self._folder)
            publishing = Publishing(AsyncMongoTransport(client, DATABASE), self._plan)
            refusals = Refusals(client.admin, self._plan.chance("refusals"))
            losses = Losses(proxy, self._plan.chance("losses"))
            try:
                await fleet.start()
                await self._trouble(fleet, publishing, refusals, losses)
                await fleet.end()
            finally:
                await fleet.kill_all()
            later = AsyncMongoTransport[Any](client, DATABASE, clock=lambda: time.time() + HOUR)
            ending = await end(client[DATABASE], later, self._folder)
        return self._judge(fleet, publishing, ending, _counts(fleet, publishing, refusals, losses))

    async def _trouble(
        self, fleet: Fleet, publishing: Publishing, refusals: Refusals, losses: Losses
    ) -> None:
        """Let everything go wrong for the planned time, then let the publishers finish."""
        async with asyncio.TaskGroup() as tasks:
            troubles = [
                tasks.create_task(trouble)
                for trouble in (
                    fleet.watch(),
                    kill_now_and_then(fleet, self._plan.chance("kills")),
                    refusals.go_on(),
                    losses.go_on(),
                )
            ]
            tasks.create_task(publishing.go_on(fleet))
            await asyncio.sleep(self._plan.seconds)
            for trouble in troubles:
                trouble.cancel()
            await asyncio.wait(troubles)
            losses.off()
            await refusals.off()
            publishing.stop()

    def _judge(
        self, fleet: Fleet, publishing: Publishing, ending: Ending, counts: dict[str, int]
    ) -> Report:
        events, stray = fleet.told()
        record = Record(
            published=publishing.published,
            executions=[*fleet.executions(), *ending.executions],
            events=[*events, *ending.events],
            dead=ending.dead,
            stray=stray,
        )
        counts |= {
            "executions": len(record.executions),
            "dead letters": len(record.dead),
            "drained at the end": len(ending.events) // 2,
            "leases lost": sum(event.kind == "lease_lost" for event in events),
            "unsettled": sum(event.kind == "unsettled" for event in events),
        }
        breaches = [*ending.breaches, *judge(record), *_undead(publishing, ending)]
        return Report(counts=counts, breaches=breaches)


def _undead(publishing: Publishing, ending: Ending) -> list[str]:
    return [
        f"event {index} of {group!r} is a dead letter or poison, but not both"
        for group, index in sorted(publishing.poison ^ ending.dead)
    ]


def _counts(
    fleet: Fleet, publishing: Publishing, refusals: Refusals, losses: Losses
) -> dict[str, int]:
    return {
        "published": len(publishing.published),
        "publishes repeated": publishing.repeated,
        "machines killed": fleet.killed,
        "failpoints armed": refusals.armed,
        "commands and replies lost": losses.struck,
    }
