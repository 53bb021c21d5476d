"""The fixtures that pytest finds by itself in a user's tests."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairlane.testing import local_server

USERS_TESTS = """
import pytest
from pymongo import MongoClient

def test_url(fairlane_url):
    assert fairlane_url == {url!r}

@pytest.mark.parametrize("time", [1, 2])
@pytest.mark.asyncio
async def test_transport(fairlane_transport, fairlane_url, time):
    assert (await fairlane_transport.stats()).messages == 0
    await fairlane_transport.publish("group", time)

@pytest.mark.asyncio
async def test_queue(fairlane_queue):
    assert (await fairlane_queue.enqueue(1, "t")).created

def test_databases_are_dropped(fairlane_url):
    with MongoClient(fairlane_url) as client:
        assert not [n for n in client.list_database_names() if n.startswith("fairlane_test_")]
"""


def run_pytest(folder: Path, *options: str, url: str) -> str:
    (folder / "test_users.py").write_text(USERS_TESTS.format(url=url))
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, "test_users.py"],
        cwd=folder,
        env={**os.environ, "FAIRLANE_TEST_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.stdout


def test_gives_a_url_and_products_on_fresh_databases(tmp_path: Path, local_url: str) -> None:
    output = run_pytest(tmp_path, url=local_url)

    assert "5 passed" in output, output


def test_only_transport_and_queue_need_pytest_asyncio(tmp_path: Path, local_url: str) -> None:
    output = run_pytest(tmp_path, "-p", "no:asyncio", "-k", "not dropped", url=local_url)

    assert "1 passed" in output, output
    for fixture in ("fairlane_transport", "fairlane_queue"):
        assert f"`{fixture}` needs pytest-asyncio: pip install pytest-asyncio" in output


@pytest.fixture(scope="module")
def local_url() -> Iterator[str]:
    """A server that nobody else uses: the tests look for databases left behind."""
    with local_server() as server:
        yield server.url
