"""Fixtures of the interleavings: worlds in memory and on the local server, by either driver."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from property.script import Crashed
from property.world import PLACES, MemoryStage, ServerStage, Stage


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if _is_left_out(item)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def _is_left_out(item: pytest.Item) -> bool:
    if item.get_closest_marker("memory_only") is None or not isinstance(item, pytest.Function):
        return False
    return not str(item.callspec.params["place"]).startswith("memory")


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def driver(place: str) -> str:
    return place.removesuffix("-old")


@pytest.fixture
def stage(request: pytest.FixtureRequest, place: str, driver: str) -> Stage:
    is_recent = not place.endswith("-old")
    if driver == "memory":
        return MemoryStage(is_recent=is_recent)
    make, clock = (request.getfixturevalue(name) for name in ("make_transport", "clock"))
    return ServerStage(make, clock, is_recent=is_recent)


@pytest.fixture(
    params=["ack", "dead_letter", "extend"]
    + [pytest.param(name, marks=pytest.mark.memory_only) for name in ("nack", "park", "release")]
)
def move(request: pytest.FixtureRequest) -> str:
    """The name of something that can be done with a lease (`scenes.MOVES`)."""
    return str(request.param)


@pytest.fixture(scope="session", autouse=True)
def cheap_collections() -> Iterator[None]:
    """Keep what was imported out of the garbage collections that follow each test."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
async def no_stray_errors() -> AsyncIterator[None]:
    """Invariant I6: no task dies unheard, nothing is left to the loop's exception handler."""
    stray: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: stray.append(context))
    yield
    gc.collect()
    await asyncio.sleep(0)
    loop.set_exception_handler(None)
    heard = [context for context in stray if not isinstance(context.get("exception"), Crashed)]
    assert heard == []
