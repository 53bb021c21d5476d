"""The one database that a demo run touches: made for it, looked into, dropped at its end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

import pymongo
from pymongo.errors import OperationFailure, PyMongoError

from fairlane.cli.demo.display import Display
from fairlane.cli.demo.report import Leftovers
from fairlane.driver import Driver, close, connect

__all__ = ("PREFIX", "Database", "brief", "fresh_database")

PREFIX = "fairlane"
CONNECT_TIMEOUT = 5.0
PING_TIMEOUT = 2.0
CLEAN_UP_TIMEOUT = 3.0
LIMITS = {"serverSelectionTimeoutMS": 15_000, "socketTimeoutMS": 15_000}
"""Time enough to elect another primary; a server that has gone must not hold up the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    driver: Driver
    url: str
    name: str

    async def server_name(self) -> str:
        """Return where the server is and what it says it is, without the password."""
        client = self.driver.client
        try:
            version = f"says version {(await client.admin.command('buildInfo'))['version']}"
        except OperationFailure:
            version = "does not tell its version"
        # A client knows its servers only after a command.
        hosts = ",".join(f"{host}:{port}" for host, port in sorted(client.nodes))
        return f"{hosts} ({version})"

    async def ping(self) -> None:
        with pymongo.timeout(PING_TIMEOUT):
            await self.driver.client.admin.command("ping")

    async def leftovers(self) -> Leftovers:
        """Count the documents themselves, whatever the library says of them."""
        return Leftovers(
            messages=await self._count("messages"),
            locks=await self._count("locks"),
            dead=await self._count("dead"),
        )

    async def _count(self, noun: str) -> int:
        return await self.driver.collection(self.name, f"{PREFIX}_{noun}").count({})


def brief(error: PyMongoError) -> str:
    """Return what a driver's error says, without its settings and its view of the topology."""
    return str(error).split(" (configured timeouts")[0].split(", Timeout:")[0]


@asynccontextmanager
async def fresh_database(url: str, driver: str, display: Display) -> AsyncIterator[Database]:
    """Connect and make up a database name that nobody uses; drop it in the end."""
    client = await connect(url, driver=driver, connect_timeout=CONNECT_TIMEOUT, options=LIMITS)
    name = f"fairlane_demo_{uuid4().hex}"
    try:
        yield Database(driver=Driver(client), url=url, name=name)
    finally:
        with pymongo.timeout(CLEAN_UP_TIMEOUT):
            try:
                await client.drop_database(name)
            except PyMongoError as error:
                display.note(f"could not drop the database {name}: {brief(error)}")
            finally:
                await close(client)
