"""What goes wrong during a soak: machines die, the server refuses, connections break."""

import asyncio
import random
from contextlib import suppress
from typing import Any

from pymongo.errors import PyMongoError

from integration.wire.proxy import Fault, Kind, Proxy
from soak.fleet import Fleet
from soak.plan import VISIBILITY
from soak.work import APP_NAME

__all__ = ("Losses", "Refusals", "kill_now_and_then")

CODES = (10107, 91, 11600, 189, 6, 89, 112, 50)
COMMANDS = ("findAndModify", "find", "aggregate", "update", "bulkWrite", "insert", "delete")
KINDS: tuple[Kind, ...] = ("cut before", "lose reply", "cut after", "delay")


async def kill_now_and_then(fleet: Fleet, chance: random.Random) -> None:
    """Replace one machine after the other, for ever."""
    while True:
        await asyncio.sleep(chance.uniform(1.0, 5.0))
        await fleet.replace_one(chance)


class Refusals:
    """Server failpoints, one after the other."""

    def __init__(self, admin: Any, chance: random.Random) -> None:
        self._admin = admin
        self._chance = chance
        self.armed = 0

    async def go_on(self) -> None:
        """Refuse some commands every now and then, for ever."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.2, 1.5))
            await self._configure(mode={"times": self._chance.randint(1, 6)}, data=self._failure())
            self.armed += 1

    async def off(self) -> None:
        await self._configure(mode="off")

    def _failure(self) -> dict[str, Any]:
        """Choose a failure: of anybody before the command, or of a machine after its write."""
        failure: dict[str, Any] = {"failCommands": self._chance.sample(COMMANDS, 2)}
        kind = self._chance.random()
        if kind < 0.7:
            return failure | {"errorCode": self._chance.choice(CODES)}
        if kind < 0.85:
            return failure | {"closeConnection": True}
        unacknowledged = {"code": 64, "errmsg": "waiting for replication timed out"}
        return failure | {"appName": APP_NAME, "writeConcernError": unacknowledged}

    async def _configure(self, **options: Any) -> None:
        with suppress(PyMongoError):
            await self._admin.command("configureFailPoint", "failCommand", **options)


class Losses:
    """Faults of the network between the machines and the server."""

    def __init__(self, proxy: Proxy, chance: random.Random) -> None:
        self._proxy = proxy
        self._chance = chance
        self.struck = 0

    async def go_on(self) -> None:
        """Lose something every now and then, for ever."""
        while True:
            await asyncio.sleep(self._chance.uniform(0.05, 0.6))
            self.off()
            self._proxy.arm(self._fault())

    def off(self) -> None:
        self.struck += self._proxy.struck
        self._proxy.arm()

    def _fault(self) -> Fault:
        return Fault(
            kind=self._chance.choice(KINDS),
            command=self._chance.choice((None, *COMMANDS)),
            nth=self._chance.randint(1, 5),
            times=self._chance.randint(1, 3),
            seconds=self._chance.uniform(0.0, VISIBILITY * 1.3),
        )
