"""An application under the command `uvicorn`: signals, reloads, and workers in other processes."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from fairlane import AsyncMongoTransport, Lease, MongoTransport, WorkerPool

SECONDS = 30

APPLICATION = """
import asyncio, os, signal
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from fairlane import AsyncMongoTransport, WorkerPool
from fairlane.integrations.fastapi import Lifespan

VERSION = "version 1"


async def handle(lease):
    owner = signal.getsignal(signal.SIGTERM).__qualname__
    print("began", lease.event, "in", os.getpid(), owner, lease.interrupted, flush=True)
    if lease.event == "long" and VERSION.endswith("1"):
        await asyncio.sleep(3_600)
    while lease.event != "long" and messages.service(app).health.state != "draining":
        await asyncio.sleep(0.01)
    print("finished", lease.event, flush=True)


def make_pool(transport):
    return WorkerPool(transport, handle, visibility=600, drain_timeout=1)


async def publish(request: Request) -> PlainTextResponse:
    event = (await request.body()).decode()
    await messages.service(request).source.publish(event, event)
    if request.url.path == "/hang":
        await asyncio.sleep(3_600)
    return PlainTextResponse(VERSION)


messages = Lifespan(
    lambda: AsyncMongoTransport.from_url(os.environ["URL"], os.environ["DATABASE"]),
    pool=make_pool if os.environ["WITH_POOL"] else None,
)
app = Starlette(lifespan=messages, routes=[Route("/{rest:path}", publish, methods=["POST"])])
"""


class Uvicorn:
    """The command in a process of its own, read line by line."""

    def __init__(self, folder: Path, environment: dict[str, str], *options: str) -> None:
        self.process = subprocess.Popen(
            (sys.executable, "-m", "uvicorn", "application:app", "--port", "0", *options),
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # with --reload it has a child, which must not outlive it
        )
        self.url = ""

    def read_until(self, pattern: str) -> re.Match[str]:
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            lines.append(line)
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"{pattern} was not printed: {''.join(lines)}")

    def post(self, event: str = "short") -> str:
        """Post as soon as it listens: with --reload it says so before it does."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return self._post(event)
            except urllib.error.URLError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def _post(self, event: str) -> str:
        request = urllib.request.Request(self.url, event.encode())
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            text: str = answer.read().decode()
            return text

    def until_reloading(self, file: Path) -> None:
        """Touch the file until it is noticed: what changes before the first look never is."""
        with futures.ThreadPoolExecutor(1) as reader:
            noticed = reader.submit(self.read_until, "detected changes")
            while not futures.wait([noticed], timeout=1).done:
                file.touch()
            noticed.result()

    def end(self) -> None:
        """End it as a supervisor does."""
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=SECONDS)


@pytest.fixture
def transport(
    fairlane_url: str, db_name: str, janitor: MongoClient[dict[str, Any]]
) -> Iterator[MongoTransport[Any]]:
    """What the application has in its database, as another program sees it."""
    with MongoTransport[Any].from_url(fairlane_url, db_name) as opened:
        yield opened
    janitor.drop_database(db_name)


@pytest.fixture
def application(tmp_path: Path) -> Path:
    file = tmp_path / "application.py"
    file.write_text(APPLICATION)
    return file


@pytest.fixture
def start(application: Path, fairlane_url: str, db_name: str) -> Iterator[Callable[..., Uvicorn]]:
    started: list[Uvicorn] = []

    def start(*options: str, pool: bool = True) -> Uvicorn:
        ours = {"URL": fairlane_url, "DATABASE": db_name, "WITH_POOL": "yes" if pool else ""}
        started.append(server := Uvicorn(application.parent, {**os.environ, **ours}, *options))
        server.url = server.read_until(r"running on (http://[\d.:]+)")[1]
        return server

    yield start
    for each in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(each.process.pid, signal.SIGKILL)
        each.process.communicate()


def test_sigterm_lets_the_handler_under_way_finish(
    start: Callable[..., Uvicorn], transport: MongoTransport[Any]
) -> None:
    server = start()
    server.post()
    handlers = server.read_until(r"began short in \d+ (\S+) 0")[1]
    server.process.send_signal(signal.SIGTERM)
    server.read_until("finished")
    server.process.communicate(timeout=SECONDS)
    assert server.process.returncode == -signal.SIGTERM  # uvicorn raises it again at its end
    assert transport.stats().messages == 0
    assert handlers == "Server.handle_exit"


def given_back(transport: MongoTransport[Any]) -> tuple[Any, int, int]:
    """Return the only message that is left; it can be claimed at once."""
    lease = transport.claim("another")
    assert lease is not None
    assert transport.stats().messages == 1
    return lease.event, lease.attempt, lease.interrupted


def test_second_signal_does_not_keep_the_lifespan_from_ending_in_its_deadline(
    start: Callable[..., Uvicorn], transport: MongoTransport[Any]
) -> None:
    """Fault 46."""
    server = start()
    server.post("long")
    server.post("short")
    server.read_until("began short")
    server.process.send_signal(signal.SIGINT)
    server.read_until("finished short")
    server.process.send_signal(signal.SIGTERM)
    output, _ = server.process.communicate(timeout=SECONDS)
    assert "Application shutdown complete" in output
    assert given_back(transport) == ("long", 1, 1)


def test_leases_are_given_back_where_uvicorn_does_not_end_the_lifespan(
    start: Callable[..., Uvicorn], transport: MongoTransport[Any]
) -> None:
    """Fault 46: a second SIGINT while a request does not end."""
    server = start()
    address = urllib.parse.urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(b"POST /hang HTTP/1.1\r\nhost: us\r\ncontent-length: 4\r\n\r\nlong")
        server.read_until("began long")
        server.process.send_signal(signal.SIGINT)
        server.read_until("force quit")
        server.process.send_signal(signal.SIGINT)
        output, _ = server.process.communicate(timeout=SECONDS)
    assert "Application shutdown complete" not in output
    assert given_back(transport) == ("long", 1, 1)


def test_reload_lets_the_handler_under_way_finish_and_starts_the_new_code(
    start: Callable[..., Uvicorn], transport: MongoTransport[Any], application: Path
) -> None:
    """Fault 46: what does not finish is handled by the new process; the old one is gone."""
    server = start("--reload")
    server.post("long")
    old = int(server.read_until(r"began long in (\d+) Server.handle_exit 0")[1])
    server.post()
    server.read_until("began short")
    application.write_text(APPLICATION.replace("version 1", "version 2"))
    server.until_reloading(application)
    server.read_until("finished short")
    new = int(server.read_until(r"began long in (\d+) Server.handle_exit 1")[1])
    server.read_until("finished long")
    version = server.post()
    server.end()
    assert (transport.stats().messages, version) == (0, "version 2")
    assert new != old
    with pytest.raises(ProcessLookupError):
        os.kill(old, 0)


async def test_what_a_request_publishes_is_handled_in_another_process(
    start: Callable[..., Uvicorn], fairlane_url: str, db_name: str
) -> None:
    events: asyncio.Queue[Any] = asyncio.Queue()

    async def handle(lease: Lease[Any]) -> None:
        events.put_nowait(lease.event)

    server = await asyncio.to_thread(start, pool=False)
    async with (
        AsyncMongoTransport[Any].from_url(fairlane_url, db_name) as transport,
        WorkerPool(transport, handle, poll_interval=0.05),
    ):
        await asyncio.to_thread(server.post)
        assert await events.get() == "short"
    await asyncio.to_thread(server.end)
