"""What holds for every rule of the contract, whichever test states it."""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from blockbuster import blockbuster_ctx

from contract.batches import Commands, Open, Transport
from fairlane import AsyncJobQueue, Job
from fairlane.driver import _collection, _driver
from fairlane.testing import ManualClock

MakeQueue = Callable[..., AsyncJobQueue]
Claimed = Callable[..., Awaitable[Job]]
Stored = Callable[..., Awaitable[list[dict[str, Any]]]]


ARGUMENTS_ONLY = {"test_bad_input", "test_jobs_bad_input"}
"""Modules about what is refused before any driver is called: one driver will do."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what a covering part of the matrix leaves out."""
    for item in items:
        if isinstance(item, pytest.Function) and _is_beside_the_cover(item):
            item.add_marker(pytest.mark.whole_matrix)


def _is_beside_the_cover(item: pytest.Function) -> bool:
    """Each way on each server is gone by one driver, and each driver goes half of them."""
    module = item.module.__name__.rpartition(".")[2]
    places = item.callspec.indices if hasattr(item, "callspec") else {}
    if "driver" not in places:
        return False
    is_pymongo = item.callspec.params["driver"] == "pymongo"
    if module in ARGUMENTS_ONLY:
        return is_pymongo
    choices = [places[name] for name in ("way", "server") if name in places]
    return bool(choices) and is_pymongo != bool(sum(map(int.bit_count, choices)) % 2)


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


@pytest.fixture
def make_queue(client: Any, db_name: str, clock: ManualClock, way: dict[str, Any]) -> MakeQueue:
    """Return a factory of job queues on the test's database; they share its clock by default.

    Failed jobs are kept: by that clock they would be long expired for the server, which sweeps.
    """
    shared = {"clock": clock, "keep_failed": None, **way}

    def make(**options: Any) -> AsyncJobQueue:
        return AsyncJobQueue(client, db_name, **{**shared, **options})

    return make


@pytest.fixture
def queue(make_queue: MakeQueue) -> AsyncJobQueue:
    return make_queue()


@pytest.fixture
def claimed(queue: AsyncJobQueue) -> Claimed:
    """Claim where a job is due: it is never None."""

    async def claim(*types: str, **options: Any) -> Job:
        job = await queue.claim(*types, **options)
        assert job is not None, "no job was due"
        return job

    return claim


@pytest.fixture
def stored(database: Any) -> Stored:
    """Return the documents of jobs that match, to look behind the queue."""

    async def documents(**match: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            await database["fairlane_jobs"].find(match).sort("_id", 1).to_list(None)
        )
        return found

    return documents
