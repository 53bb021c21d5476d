"""Fixtures of all rooms: one server for the run, a fresh database for each test."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import OperationFailure
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

from fairlane import AsyncMongoTransport, Lease
from fairlane.testing import ManualClock

DRIVERS = {"motor": AsyncIOMotorClient, "pymongo": AsyncMongoClient}

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Claim = Callable[..., Awaitable[Lease[Any]]]
Snapshot = Callable[[], Awaitable[dict[str, list[Any]]]]


class CommandLog(CommandListener):
    """The commands that a client sent, without those of connecting and monitoring."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.database_name != "admin" or event.command_name == "bulkWrite":
            self._names.append(event.command_name)

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Count a command when it is sent, whatever becomes of it."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Count a command when it is sent, whatever becomes of it."""

    def take(self) -> list[str]:
        """Return the names of the commands since the last call, in order."""
        names, self._names = self._names, []
        return names


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the combinations that only `-m whole_matrix` runs."""
    if "whole_matrix" in (config.option.markexpr or ""):
        return
    left_out = [item for item in items if item.get_closest_marker("whole_matrix")]
    kept = set(items).difference(left_out)
    items[:] = [item for item in items if item in kept]
    config.hook.pytest_deselected(items=left_out)


@pytest.fixture(autouse=True)
def real_mongod(request: pytest.FixtureRequest) -> None:
    """Skip what only a real MongoDB can judge, unless the caller named one."""
    if request.node.get_closest_marker("real_mongod") is None:
        return
    url = os.environ.get("FAIRLANE_TEST_URL")
    if not url:
        pytest.skip("needs a real MongoDB: set FAIRLANE_TEST_URL")
    with MongoClient[dict[str, Any]](url) as client:
        if "secantus" in client.admin.command("serverStatus"):
            pytest.skip("needs a real MongoDB: FAIRLANE_TEST_URL names a SecantusDB")


@pytest.fixture(params=sorted(DRIVERS))
def driver(request: pytest.FixtureRequest) -> str:
    """The name of the driver; a test that uses it runs on each."""
    return str(request.param)


@pytest.fixture
def db_name() -> str:
    return f"fairlane_test_{uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def janitor(fairlane_url: str) -> Iterator[MongoClient[dict[str, Any]]]:
    """A client without odd options, which drops the tests' databases."""
    with MongoClient[dict[str, Any]](fairlane_url) as client:
        yield client


@pytest.fixture
async def connect(
    fairlane_url: str, db_name: str, janitor: MongoClient[dict[str, Any]]
) -> AsyncIterator[Callable[..., Any]]:
    """Return a factory of clients (`connect("motor", **options)`); the database is dropped."""
    clients: list[Any] = []

    def open_client(driver: str = "motor", url: str = fairlane_url, **options: Any) -> Any:
        clients.append(DRIVERS[driver](url, **options))
        return clients[-1]

    yield open_client
    for client in clients:
        await closed(client)
    if clients:
        janitor.drop_database(db_name)


async def closed(client: Any) -> None:
    closing: Awaitable[None] | None = client.close()
    if closing is not None:
        await closing


@pytest.fixture
def command_log() -> CommandLog:
    return CommandLog()


@pytest.fixture
def client(connect: Callable[..., Any], driver: str, command_log: CommandLog) -> Any:
    return connect(driver, event_listeners=[command_log])


@pytest.fixture
def database(client: Any, db_name: str) -> Any:
    """The test's database as the driver shows it, for a look behind the transport."""
    return client.get_database(db_name)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000.0)


@pytest.fixture
def way() -> dict[str, Any]:
    """How transports claim, as options; modules whose rules hold for several ways override it."""
    return {}


@pytest.fixture
def make_transport(
    client: Any, db_name: str, clock: ManualClock, way: dict[str, Any]
) -> MakeTransport:
    """Return a factory of transports on the test's database; they share its clock by default."""

    def make(**options: Any) -> Transport:
        return AsyncMongoTransport(client, db_name, **{"clock": clock, **way, **options})

    return make


@pytest.fixture
def transport(make_transport: MakeTransport) -> Transport:
    return make_transport()


@pytest.fixture
def claim(transport: Transport) -> Claim:
    """Claim where a group is due: the lease is never None."""

    async def claimed(worker_id: str = "w1", visibility: float = 30, **options: Any) -> Lease[Any]:
        lease = await transport.claim(worker_id, visibility, **options)
        assert lease is not None, "no group was due"
        return lease

    return claimed


@pytest.fixture
def snapshot(database: Any) -> Snapshot:
    """Return every document of the test's database, to tell that nothing changed."""

    async def documents() -> dict[str, list[Any]]:
        names = sorted(await database.list_collection_names())
        return {name: await database[name].find().sort("_id", 1).to_list(None) for name in names}

    return documents


@pytest.fixture
async def fail_command(connect: Callable[..., Any]) -> AsyncIterator[Callable[..., Any]]:
    """Return a coroutine function that makes the server fail commands; skip where it cannot."""
    admin = connect("motor").get_database("admin")
    is_on = False

    async def fail(*commands: str, mode: Any = None, **data: Any) -> None:
        nonlocal is_on
        try:
            await admin.command(
                "configureFailPoint",
                "failCommand",
                mode=mode or {"times": 1},
                data={"failCommands": list(commands), **data},
            )
        except OperationFailure as error:
            pytest.skip(f"the server has no failpoints: {error.details}")
        is_on = True

    yield fail
    if is_on:
        await admin.command("configureFailPoint", "failCommand", mode="off")
