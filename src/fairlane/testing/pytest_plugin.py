"""Fixtures for tests of programs built on Fairlane; pytest finds them by itself.

`fairlane_url`: the address of a server, one for the session. `FAIRLANE_TEST_URL` names one of your
own; without it a local server is started (extra `server`, or `mongod` on the PATH).

`fairlane_transport`: an `AsyncMongoTransport` on a database of its own, dropped after the test.
`fairlane_queue`: an `AsyncJobQueue`, in the same way. Both need pytest-asyncio.
"""

import os
from collections.abc import Iterator

import pytest

__all__ = ("fairlane_queue", "fairlane_transport", "fairlane_url")

NEEDS = "the fixture `{}` needs pytest-asyncio: pip install pytest-asyncio"


@pytest.fixture(scope="session")
def fairlane_url() -> Iterator[str]:
    """Give the address of a server for the whole session."""
    given = os.environ.get("FAIRLANE_TEST_URL")
    if given:
        yield given
        return
    from fairlane.testing import local_server

    with local_server() as server:
        yield server.url


@pytest.fixture
def fairlane_transport() -> None:
    """Stand in for the real fixture, which `pytest_configure` puts over this one."""
    pytest.fail(NEEDS.format("fairlane_transport"))


@pytest.fixture
def fairlane_queue() -> None:
    """Stand in for the real fixture, as the one of the transport does."""
    pytest.fail(NEEDS.format("fairlane_queue"))


def pytest_configure(config: pytest.Config) -> None:
    if config.pluginmanager.hasplugin("asyncio"):
        from fairlane.testing import _async_fixtures

        config.pluginmanager.register(_async_fixtures, "fairlane_async_fixtures")
