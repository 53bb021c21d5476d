"""One soak, from its first publish to its verdict."""

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient

from fairlane import AsyncMongoTransport
from integration.wire.proxy import Proxy
from soak.ending import Ending, end
from soak.fleet import Fleet
from soak.lookout import Lookout
from soak.plan import Plan
from soak.publishing import Publishing
from soak.troubles import Losses, Refusals, kill_now_and_then
from soak.verdict import Record, judge

__all__ = ("Report", "Soak")

DATABASE = "soak"
HOUR = 3_600.0
PATIENCE = 25.0
"""Seconds; leases, back-offs and held commands that met the last trouble need some of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What happened, in numbers, and every broken promise in words."""

    counts: dict[str, int]
    breaches: list[str]

    def __str__(self) -> str:
        return ", ".join(f"{number:,} {what}" for what, number in self.counts.items())


@dataclass(slots=True, kw_only=True)
class Scene:
    """Everybody who takes part in one soak; `idlers`: machines that the troubles have ended."""

    fleet: Fleet
    publishing: Publishing
    lookout: Lookout
    refusals: Refusals
    losses: Losses
    idlers: list[str] = field(default_factory=list)


class Soak:
    def __init__(self, plan: Plan, url: str, folder: Path) -> None:
        self._plan = plan
        self._url = url
        self._folder = folder

    async def run(self) -> Report:
        async with Proxy.opened(self._url) as proxy, AsyncMongoClient[Any](self._url) as client:
            publishing = Publishing(AsyncMongoTransport(client, DATABASE), self._plan)
            scene = Scene(
                fleet=Fleet(self._plan, url=proxy.url, database=DATABASE, folder=self._folder),
                publishing=publishing,
                lookout=Lookout(client[DATABASE], publishing),
                refusals=Refusals(client.admin, self._plan.chance("refusals")),
                losses=Losses(proxy, self._plan.chance("losses")),
            )
            await self._play(scene)
            later = AsyncMongoTransport[Any](client, DATABASE, clock=lambda: time.time() + HOUR)
            ending = await end(client[DATABASE], later, self._folder)
        return _report(scene, ending)

    async def _play(self, scene: Scene) -> None:
        """Let everything go wrong, then stop all machines in the middle of their work."""
        try:
            await scene.fleet.start()
            await self._work(scene)
            await scene.fleet.end()
            await scene.lookout.look()
        finally:
            await scene.fleet.kill_all()

    async def _work(self, scene: Scene) -> None:
        async with asyncio.TaskGroup() as work:
            watch = work.create_task(scene.fleet.watch())
            work.create_task(scene.publishing.go_on(scene.fleet))
            await self._trouble(scene)
            scene.idlers += await scene.fleet.idlers(PATIENCE)
            scene.publishing.stop()
            watch.cancel()

    async def _trouble(self, scene: Scene) -> None:
        """Let everything go wrong for the planned time."""
        over, kills = asyncio.Event(), self._plan.chance("kills")
        async with asyncio.TaskGroup() as troubles:
            troubles.create_task(kill_now_and_then(scene.fleet, kills, over))
            troubles.create_task(scene.refusals.go_on(over))
            troubles.create_task(scene.losses.go_on(over))
            troubles.create_task(scene.lookout.go_on(over))
            await asyncio.sleep(self._plan.seconds)
            over.set()
        scene.losses.off()
        await scene.refusals.off()


def _report(scene: Scene, ending: Ending) -> Report:
    record = _record(scene, ending)
    breaches = [
        *ending.breaches,
        *judge(record),
        *_undead(scene.publishing, ending),
        *(f"I5 group {group!r} had no lock" for group in sorted(scene.lookout.unlocked)),
        *(f"{machine} handles nothing any more" for machine in scene.idlers),
    ]
    return Report(counts=_counts(scene) | _outcomes(record, ending), breaches=breaches)


def _record(scene: Scene, ending: Ending) -> Record:
    told = scene.fleet.told()
    return Record(
        published=scene.publishing.published,
        executions=[*scene.fleet.executions(), *ending.executions],
        events=[*(event for each in told.values() for event in each.events), *ending.events],
        dead=ending.dead,
        stray=[f"{name}: {error}" for name, each in told.items() for error in each.stray],
        stalls={name: each.stalls for name, each in told.items()},
    )


def _outcomes(record: Record, ending: Ending) -> dict[str, int]:
    kinds = Counter(event.kind for event in record.events)
    return {
        "executions": len(record.executions),
        "dead letters": len(record.dead),
        "drained at the end": len(ending.events) // 2,
        "leases lost": kinds["lease_lost"],
        "unsettled": kinds["unsettled"],
        "stalls": sum(map(len, record.stalls.values())),
    }


def _undead(publishing: Publishing, ending: Ending) -> list[str]:
    return [
        f"event {index} of {group!r} is a dead letter or poison, but not both"
        for group, index in sorted(publishing.poison ^ ending.dead)
    ]


def _counts(scene: Scene) -> dict[str, int]:
    return {
        "published": len(scene.publishing.published),
        "publishes repeated": scene.publishing.repeated,
        "machines killed": scene.fleet.killed,
        "failpoints armed": scene.refusals.armed,
        "commands and replies lost": scene.losses.struck,
    }
