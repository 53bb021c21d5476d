"""The server is killed in the middle of the work and comes back; it writes through to the disk."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from pymongo.errors import PyMongoError

from fairlane import AsyncMongoTransport
from fairlane.testing import LocalServer, local_server
from integration.wire.crowd import SOON, Crowd

Transport = AsyncMongoTransport[Any]

OUTAGE = 2.0
STEP_DOWNS = 3


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    """A server of our own: it is killed."""
    with local_server(sync_on_commit=True) as server:
        yield server


@pytest.fixture(scope="module")
def fairlane_url(server: LocalServer) -> str:
    return server.url


@pytest.fixture(params=["motor", "pymongo"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def transport(make_transport: Callable[..., Transport]) -> Transport:
    return make_transport(clock=None)


@pytest.fixture
def crowd(transport: Transport, tmp_path: Path) -> Crowd:
    return Crowd(transport, tmp_path)


async def looked_at(transport: Transport, chance: random.Random, until: float) -> None:
    """Look into the transport again and again, never patient enough for an answer."""
    while time.monotonic() < until:
        with anyio.move_on_after(chance.uniform(0.05, 0.7)), suppress(PyMongoError):
            await transport.peek("g")


@pytest.mark.parametrize("driver", ["pymongo"], indirect=True)  # Motor's calls run in threads
async def test_clients_survive_calls_that_are_cut_off_while_the_server_is_down(
    server: LocalServer, connect: Callable[..., Any], db_name: str, driver: str
) -> None:
    """A pool does so with renewals that take too long (PyMongo 4.20 on Python 3.11)."""
    transports = [Transport(connect(driver), db_name) for _ in range(8)]
    for transport in transports:
        await transport.peek("g")
    await asyncio.to_thread(server.kill)
    until = time.monotonic() + OUTAGE
    async with asyncio.TaskGroup() as tasks:
        for number in range(8 * len(transports)):
            chance = random.Random(number)
            tasks.create_task(looked_at(transports[number % len(transports)], chance, until))
    await asyncio.to_thread(server.restart)

    async with asyncio.timeout(SOON):
        for transport in transports:
            await transport.publish("g", None)


async def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    server: LocalServer, crowd: Crowd
) -> None:
    async with crowd.working() as acks:
        await acks.more(30)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.restart)
        await acks.more(1, within=SOON)
        await acks.more(30)

    assert await crowd.breaches() == []


async def test_nothing_acknowledged_is_lost_when_the_primary_steps_down_again_and_again(
    crowd: Crowd, connect: Callable[..., Any]
) -> None:
    """Fault 53."""
    admin = connect("pymongo").admin
    async with crowd.working() as acks:
        for _ in range(STEP_DOWNS):
            await acks.more(30)
            await admin.command({"replSetStepDown": 1, "force": True})
            await acks.more(1)

    assert await crowd.breaches() == []
