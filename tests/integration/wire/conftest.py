"""Fixtures of the faults on the wire: worlds on a server, and the participant that is met."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pymongo.common
import pytest
from pymongo import MongoClient

from fairlane import AsyncMongoTransport
from fairlane.driver import close
from fairlane.testing import ManualClock
from integration.wire.listener import Listener
from integration.wire.operations import OPERATIONS
from integration.wire.play import JoinVictim, Player
from integration.wire.proxy import Proxy
from integration.wire.setups import Setup
from property.hygiene import cheap_collections as cheap_collections
from property.hygiene import no_stray_errors as no_stray_errors
from property.world import Participant, ServerStage

Transport = AsyncMongoTransport[Any]


@pytest.fixture(scope="module")
def janitor(fairlane_url: str) -> Iterator[MongoClient[dict[str, Any]]]:
    """Drop the databases of a module on its own server, where it has one."""
    with MongoClient[dict[str, Any]](fairlane_url) as client:
        yield client


@pytest.fixture
def quick_discovery(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let drivers look for the server at once after an error, not half a second later."""
    monkeypatch.setattr(pymongo.common, "MIN_HEARTBEAT_INTERVAL", 0.02)


@pytest.fixture
def setup(request: pytest.FixtureRequest) -> Setup:
    """How the victim talks to its server; `@setups()` says."""
    found: Setup = request.param
    return found


@pytest.fixture
def driver(setup: Setup) -> str:
    return setup.driver


@pytest.fixture
async def proxy(fairlane_url: str, quick_discovery: None) -> AsyncIterator[Proxy]:
    async with Proxy.opened(fairlane_url) as proxy:
        yield proxy


@pytest.fixture
def victim_url(proxy: Proxy) -> str:
    return proxy.url


@pytest.fixture
def victim_name() -> str:
    """What the victim's client tells the server that it is called."""
    return "victim"


@pytest.fixture
def listener() -> Listener:
    """Hears the commands of the victim."""
    return Listener()


@pytest.fixture
async def join_victim(
    connect: Callable[..., Any],
    quick_discovery: None,
    victim_url: str,
    victim_name: str,
    setup: Setup,
    db_name: str,
    clock: ManualClock,
    listener: Listener,
) -> AsyncIterator[JoinVictim]:
    """Return what adds the participant that the troubles are for to a world."""
    client = connect(
        setup.driver,
        victim_url,
        retryWrites=setup.retries,
        retryReads=setup.retries,
        appname=victim_name,
        event_listeners=[listener],
    )
    transport: Transport = AsyncMongoTransport(
        client,
        db_name,
        clock=clock,
        strategy="update_one" if setup.is_recent else "find_one_and_update",
        ensure_indexes=False,
    )
    await transport.stats()
    driver = transport._store.driver
    driver.has_cross_collection_bulk = driver.has_union = setup.is_recent
    yield lambda world: Participant(transport, world.log, victim_name)
    await close(driver.client)  # while its server can be reached: without one, closing waits for it


@pytest.fixture
def stage(make_transport: Callable[..., Transport], clock: ManualClock) -> ServerStage:
    """Worlds whose participants, the victim aside, reach the server unhindered, call by call."""
    return ServerStage(make_transport, clock, is_recent=False)


@pytest.fixture
def player(stage: ServerStage, join_victim: JoinVictim) -> Player:
    return Player(stage, join_victim)


Heard = dict[tuple[str, bool], tuple[str, ...]]


@pytest.fixture(scope="session")
def heard() -> Heard:
    """What operations have been heard to send, by recent and old rules, so as to listen once."""
    return {}


@pytest.fixture
async def commands(
    name: str, setup: Setup, player: Player, listener: Listener, heard: Heard
) -> tuple[str, ...]:
    """The names of the commands that the operation of this name sends, in order."""

    @asynccontextmanager
    async def listening() -> AsyncIterator[None]:
        listener.forget()
        yield
        heard[name, setup.is_recent] = tuple(listener.sent)

    if (name, setup.is_recent) not in heard:
        (await player.play(OPERATIONS[name], listening)).result()
    return heard[name, setup.is_recent]
