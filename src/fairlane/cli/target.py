"""Which deployment a command is about: the options that name it, and the way to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import pymongo
import typer

from fairlane import schema
from fairlane.driver import Driver, close, connect
from fairlane.errors import NotFound
from fairlane.jobs import AsyncJobQueue
from fairlane.transport import AsyncMongoTransport

__all__ = (
    "URL",
    "Db",
    "Deployment",
    "Prefix",
    "Target",
    "Timeout",
    "Url",
    "address",
    "opened",
)

URL = "mongodb://localhost:27017"
FAREWELL = 1.0
DRIVER = "pymongo"
"""For a command that runs for a moment: unlike Motor it starts no threads."""

Url = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="URL",
        envvar="FAIRLANE_URL",
        help="The MongoDB server; a password is safer in the variable than in the command.",
    ),
]
Db = Annotated[
    str, typer.Option("--db", metavar="NAME", envvar="FAIRLANE_DB", help="The database.")
]
Prefix = Annotated[
    str,
    typer.Option(
        "--prefix", metavar="NAME", envvar="FAIRLANE_PREFIX", help="Of the names of collections."
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.1,
        max=3600,
        help="Seconds within which a server must answer.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What the options say."""

    url: str = URL
    db_name: str = "fairlane"
    prefix: str = "fairlane"
    timeout: float = 5.0

    def __str__(self) -> str:
        return f"database {self.db_name!r}, prefix {self.prefix!r}"

    def checked(self) -> "Target":
        """Raise `ConfigurationError` before anybody is asked for what cannot be."""
        schema.db_name(self.db_name)
        schema.prefix(self.prefix)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A server that answers, and which of the products are in the database.

    Attributes:
        has_messages: whether a transport has ever been opened there.
        has_jobs: whether a job queue has.
    """

    target: Target
    driver: Driver
    has_messages: bool
    has_jobs: bool

    def transport(self, *, ensure_indexes: bool = False) -> AsyncMongoTransport[Any]:
        """Return a transport; only one that may create indexes changes more than it is told to."""
        target = self.target
        return AsyncMongoTransport(
            self.driver.client, target.db_name, target.prefix, ensure_indexes=ensure_indexes
        )

    def queue(self, *, ensure_indexes: bool = False) -> AsyncJobQueue:
        target = self.target
        return AsyncJobQueue(
            self.driver.client, target.db_name, target.prefix, ensure_indexes=ensure_indexes
        )

    def check_found(self, *, messages: bool = True, jobs: bool = True) -> None:
        """Raise `NotFound` if none of these is there: a wrong name must not look like no work."""
        if not (messages and self.has_messages) and not (jobs and self.has_jobs):
            sought = [name for name, is_it in (("messages", messages), ("jobs", jobs)) if is_it]
            raise NotFound(f"there are no {' and no '.join(sought)} in {self.target}")


@asynccontextmanager
async def opened(target: Target) -> AsyncIterator[Deployment]:
    """Connect, and look what is there; nothing is created. Raises as `from_url` does."""
    target.checked()
    options = {"serverSelectionTimeoutMS": round(target.timeout * 1000)}
    client = await connect(
        target.url, driver=DRIVER, connect_timeout=target.timeout, options=options
    )
    try:
        database = client.get_database(target.db_name)
        names = await database.list_collection_names(authorizedCollections=True)
        yield Deployment(
            target=target,
            driver=Driver(client),
            has_messages=_has(names, target.prefix, "messages", "locks", "dead"),
            has_jobs=_has(names, target.prefix, "jobs"),
        )
    finally:
        with pymongo.timeout(FAREWELL):  # a server that has gone must not hold up the end
            await close(client)


def address(driver: Driver) -> str:
    """Return where the server is, without who logs in."""
    return ",".join(f"{host}:{port}" for host, port in sorted(driver.client.nodes))


def _has(names: list[str], prefix: str, *nouns: str) -> bool:
    return not {f"{prefix}_{noun}" for noun in nouns}.isdisjoint(names)
