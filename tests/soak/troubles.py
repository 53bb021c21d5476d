"""What goes wrong during a soak: machines die, the server refuses, connections break."""

import asyncio
import random
from contextlib import suppress
from typing import Any

import anyio
from pymongo.errors import PyMongoError

from integration.wire.codes import CODES
from integration.wire.proxy import Fault, Kind, Proxy
from soak.fleet import Fleet
from soak.plan import VISIBILITY
from soak.work import APP_NAME

__all__ = ("Losses", "Refusals", "is_over_within", "kill_now_and_then")

COMMANDS = ("findAndModify", "find", "aggregate", "update", "bulkWrite", "insert", "delete")
KINDS: tuple[Kind, ...] = ("cut before", "lose reply", "cut after", "delay", "delay")
DELAYS = (0.1, 0.5, 1.1, 1.3)
"""Parts of the visibility: a command may arrive when somebody else has the lease."""


async def is_over_within(over: asyncio.Event, seconds: float) -> bool:
    """Wait so long, or until it is over: nothing that has begun is broken off."""
    with anyio.move_on_after(seconds):
        await over.wait()
    return over.is_set()


async def kill_now_and_then(fleet: Fleet, chance: random.Random, over: asyncio.Event) -> None:
    """Replace one machine after the other."""
    while not await is_over_within(over, chance.uniform(1.0, 5.0)):
        await fleet.replace_one(chance)


class Refusals:
    """Server failpoints, one after the other."""

    def __init__(self, admin: Any, chance: random.Random) -> None:
        self._admin = admin
        self._chance = chance
        self.armed = 0

    async def go_on(self, over: asyncio.Event) -> None:
        """Refuse some commands every now and then."""
        while not await is_over_within(over, self._chance.uniform(0.2, 1.5)):
            await self._configure(**self.next())
            self.armed += 1

    def next(self) -> dict[str, Any]:
        """Choose how often, and what, is to be refused."""
        return {"mode": {"times": self._chance.randint(1, 6)}, "data": self._failure()}

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

    async def go_on(self, over: asyncio.Event) -> None:
        """Lose something every now and then."""
        while not await is_over_within(over, self._chance.uniform(0.05, 0.6)):
            self.off()
            self._proxy.arm(self.next())

    def off(self) -> None:
        self.struck += self._proxy.struck
        self._proxy.arm()

    def next(self) -> Fault:
        """Choose what is to be lost."""
        return Fault(
            kind=self._chance.choice(KINDS),
            command=self._chance.choice((None, *COMMANDS)),
            nth=self._chance.randint(1, 5),
            times=self._chance.randint(1, 3),
            seconds=self._chance.choice(DELAYS) * VISIBILITY,
        )
