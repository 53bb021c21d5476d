"""Fixtures of the interleavings: worlds in memory and on the local server, by either driver."""

import logging

import pytest

from property.hygiene import cheap_collections as cheap_collections
from property.hygiene import no_stray_errors as no_stray_errors
from property.world import PLACES, MemoryStage, ServerStage, Stage


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if _is_left_out(item)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def _is_left_out(item: pytest.Item) -> bool:
    if item.get_closest_marker("memory_only") is None or not isinstance(item, pytest.Function):
        return False
    return not str(item.callspec.params["place"]).startswith("memory")


@pytest.fixture
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of provoked errors are logged as they should be; formatting them takes longest."""
    caplog.set_level(logging.CRITICAL, logger="fairlane")


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
