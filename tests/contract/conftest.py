"""What holds for every rule of the contract, whichever test states it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from contract.batches import Commands, Open, Transport
from fairlane.driver import _collection, _driver


@pytest.fixture(autouse=True)
def no_blocking_call() -> Iterator[None]:
    """Let a blocking call of the library inside the event loop fail the test."""
    with blockbuster_ctx("fairlane") as watch:
        # PyMongo looks once, at a client's first connection, whether it runs in a container.
        watch.functions["os.stat"].can_block_in("pymongo/pool_options.py", "get_container_env_info")
        yield


@pytest.fixture(params=["recent", "old"])
def server(request: pytest.FixtureRequest) -> str:
    """Which server it is, or passes for: an old one lacks the commands that not each one has."""
    return str(request.param)


@pytest.fixture
def open_on(make_transport: Callable[..., Transport], server: str, command_log: Any) -> Open:
    """Return a factory of transports that have learnt the server, the settings and the indexes."""

    async def opened(**options: Any) -> Transport:
        transport = make_transport(**options)
        await transport.stats()
        if server == "old":
            driver = transport._store.driver
            driver.has_cross_collection_bulk = driver.has_union = driver.has_lookup = False
        command_log.take()
        return transport

    return opened


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    watch = Commands()
    for module in (_collection, _driver):
        monkeypatch.setattr(module, "guarded", watch.send)
    return watch
