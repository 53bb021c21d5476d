"""Logins and rights on a server that checks them (faults 51 and 68)."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from fairlane import AsyncMongoTransport, ConfigurationError, WorkerPool
from fairlane.driver import AUTHENTICATION_FAILED
from fairlane.testing._server import free_port

Transport = AsyncMongoTransport[Any]

DATABASE = "shop"
PASSWORD = "correct"
RIGHTS = ["find", "insert", "update", "remove"]
STARTING = 20.0
AT_ONCE = 3.0

pytestmark = pytest.mark.slow


@contextmanager
def serving(folder: Path, port: int, *options: str) -> Iterator[MongoClient[dict[str, Any]]]:
    """Run a server on a folder, and give a client of it that has not logged in."""
    program = Path(sys.executable).with_name("secantusd-py")
    if not program.exists():
        pytest.skip("needs SecantusDB, which checks logins and rights")
    command = (program, "--port", str(port), "--storage-path", folder, "--log-level", "ERROR")
    url = f"mongodb://127.0.0.1:{port}/?directConnection=true&serverSelectionTimeoutMS=500"
    with (
        subprocess.Popen((*command, *options), stderr=subprocess.DEVNULL) as process,
        MongoClient[dict[str, Any]](url) as client,
    ):
        try:
            answered(client)
            yield client
        finally:
            process.terminate()


def answered(client: MongoClient[dict[str, Any]]) -> None:
    until = time.monotonic() + STARTING
    while True:
        try:
            client.admin.command("hello")
            return
        except PyMongoError:
            if time.monotonic() > until:
                raise


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a server listens that knows one user, who may do all but make indexes."""
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    rights = [{"resource": {"db": DATABASE, "collection": ""}, "actions": RIGHTS}]
    with serving(folder, port) as client:
        client[DATABASE].command("createRole", "worker", privileges=rights, roles=[])
        roles = [{"role": "worker", "db": DATABASE}]
        client.admin.command("createUser", "ann", pwd=PASSWORD, roles=roles)
    with serving(folder, port, "--auth"):
        yield f"127.0.0.1:{port}/?directConnection=true"


async def test_refused_login_ends_opening_and_pool_at_once(
    address: str, connect: Callable[..., Any], driver: str
) -> None:
    """Fault 51."""
    url = f"mongodb://ann:wrong@{address}"
    async with asyncio.timeout(AT_ONCE):
        with pytest.raises(ConfigurationError, match="refused the credentials of 'ann'"):
            await Transport.from_url(url, DATABASE, driver=driver)
    async with asyncio.timeout(AT_ONCE):
        with pytest.raises(OperationFailure) as raised:
            await WorkerPool(Transport(connect(driver, url), DATABASE), print).run()
    assert raised.value.code == AUTHENTICATION_FAILED


async def test_user_who_may_not_make_indexes_is_told_what_to_do(address: str, driver: str) -> None:
    """Fault 68."""
    url = f"mongodb://ann:{PASSWORD}@{address}"
    async with asyncio.timeout(AT_ONCE):
        with pytest.raises(ConfigurationError, match="ensure_indexes=False"):
            await Transport.from_url(url, DATABASE, driver=driver)


async def test_user_who_may_not_make_indexes_works_without(address: str, driver: str) -> None:
    """Fault 68."""
    url = f"mongodb://ann:{PASSWORD}@{address}"
    async with Transport.from_url(url, DATABASE, driver=driver, ensure_indexes=False) as transport:
        await transport.publish("g", 1)
        lease = await transport.claim("w")
        assert lease is not None
        assert await transport.ack(lease)
