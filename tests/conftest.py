"""Fixtures of all rooms: one server for the run, a fresh database for each test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import uuid4

import pytest
from fairlane import AsyncMongoTransport
from fairlane.testing import ManualClock
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient

DRIVERS = {"motor": AsyncIOMotorClient, "pymongo": AsyncMongoClient}

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]


@pytest.fixture(params=sorted(DRIVERS))
def driver(request: pytest.FixtureRequest) -> str:
    """The name of the driver; a test that uses it runs on each."""
    return str(request.param)


@pytest.fixture
def db_name() -> str:
    return f"fairlane_test_{uuid4().hex[:12]}"


@pytest.fixture
async def connect(fairlane_url: str, db_name: str) -> AsyncIterator[Callable[..., Any]]:
    """Return a factory of clients (`connect("motor", **options)`); the database is dropped."""
    clients: list[Any] = []

    def open_client(driver: str = "motor", url: str = fairlane_url, **options: Any) -> Any:
        clients.append(DRIVERS[driver](url, **options))
        return clients[-1]

    yield open_client
    if clients:
        await clients[0].drop_database(db_name)
    for client in clients:
        await closed(client)


async def closed(client: Any) -> None:
    closing: Awaitable[None] | None = client.close()
    if closing is not None:
        await closing


@pytest.fixture
def client(connect: Callable[..., Any], driver: str) -> Any:
    return connect(driver)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000.0)


@pytest.fixture
def make_transport(client: Any, db_name: str, clock: ManualClock) -> MakeTransport:
    """Return a factory of transports on the test's database; they share its clock by default."""

    def make(**options: Any) -> Transport:
        return AsyncMongoTransport(client, db_name, **{"clock": clock, **options})

    return make


@pytest.fixture
def transport(make_transport: MakeTransport) -> Transport:
    return make_transport()
