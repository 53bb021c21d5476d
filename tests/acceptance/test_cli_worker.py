"""`fairlane worker` as processes: signals, restarts, and deaths, with messages at work."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from fairlane import MongoTransport

SECONDS = 45
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

NOTHING = "fairlane worker: module 'shop' has no 'nothing'"
SHOP = """
import asyncio, os, time
from contextlib import asynccontextmanager
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient
from fairlane import AsyncMongoTransport, WorkerPool

URL, DATABASE = os.environ["MONGODB_URL"], os.environ["DATABASE"]


async def handle(lease):
    print("began", os.getpid(), "attempt", lease.attempt, flush=True)
    await asyncio.sleep(lease.event)
    print("finished", flush=True)


async def block(lease):
    print("began", flush=True)
    time.sleep(lease.event)


def made_with(client, handler):
    return WorkerPool(AsyncMongoTransport(client, DATABASE), handler)


class at_import:
    pymongo = made_with(AsyncMongoClient(URL), handle)
    motor = made_with(AsyncIOMotorClient(URL), handle)
    blocked = made_with(AsyncIOMotorClient(URL), block)


@asynccontextmanager
async def opened():
    async with AsyncMongoTransport.from_url(URL, DATABASE) as transport:
        yield WorkerPool(transport, handle, visibility=2.0)
"""


class Worker:
    """The command in a process of its own, read line by line."""

    def __init__(self, folder: Path, environment: dict[str, str], *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fairlane", "worker", *arguments],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []

    def until(self, pattern: str) -> re.Match[str]:
        """Return the next line that has it."""
        for line in self._lines():
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"{pattern} did not come: {self.lines}")

    def rest(self) -> list[str]:
        """Return what comes until all of its processes have gone: the pipe belongs to all."""
        return list(self._lines())

    def _lines(self) -> Iterator[str]:
        assert self._process.stdout is not None
        while line := self._process.stdout.readline().rstrip("\n"):
            self.lines.append(line)
            yield line

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def is_running_after(self, seconds: float) -> bool:
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def status(self) -> int:
        return self._process.wait(SECONDS)

    def end(self) -> None:
        self._process.kill()  # children that a test has left notice it
        self._process.communicate()


@pytest.fixture
def transport(
    fairlane_url: str, db_name: str, janitor: MongoClient[dict[str, Any]]
) -> Iterator[MongoTransport[Any]]:
    with MongoTransport[Any].from_url(fairlane_url, db_name) as opened:
        yield opened
    janitor.drop_database(db_name)


@pytest.fixture
def start(tmp_path: Path, fairlane_url: str, db_name: str) -> Iterator[Callable[..., Worker]]:
    (tmp_path / "shop.py").write_text(SHOP)
    example = (EXAMPLES / "orders_worker.py").read_text()
    (tmp_path / "orders_worker.py").write_text(example.replace('"app"', f'"{db_name}"'))
    environment = {**os.environ, "MONGODB_URL": fairlane_url, "DATABASE": db_name}
    started: list[Worker] = []

    def started_worker(*arguments: str) -> Worker:
        started.append(Worker(tmp_path, environment, *arguments))
        return started[-1]

    yield started_worker
    for worker in started:
        worker.end()


def asked(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, timeout=SECONDS) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_the_example_works_tells_health_and_closes_what_it_opened(
    start: Callable[..., Worker], transport: MongoTransport[Any]
) -> None:
    transport.publish("order-42", {"kind": "paid"})
    worker = start("orders_worker:make_pool", "--health-port", "0")
    url = worker.until(r"http://\S+/health")[0]
    worker.until("handled order-42 paid")
    status, health = asked(url)
    worker.signal()
    assert "closed" in worker.rest()
    assert (worker.status(), status, health["state"]) == (0, 200, "ok")


@pytest.mark.parametrize("client", ["pymongo", "motor"])
def test_a_pool_of_a_client_made_at_import_finishes_its_handler_on_sigterm(
    start: Callable[..., Worker], transport: MongoTransport[Any], client: str
) -> None:
    transport.publish("g", 0.3)
    worker = start(f"shop:at_import.{client}")
    worker.until("began")
    worker.signal()
    assert "finished" in worker.rest()
    assert (worker.status(), transport.stats().messages) == (0, 0)


def test_sigterm_to_all_processes_of_a_service_is_one_signal(
    start: Callable[..., Worker], transport: MongoTransport[Any]
) -> None:
    transport.publish("g", 0.5)
    worker = start("shop:opened", "--processes", "2")
    busy = int(worker.until(r"began (\d+)")[1])
    os.kill(busy, signal.SIGTERM)
    worker.signal()
    assert "finished" in worker.rest()
    assert (worker.status(), transport.stats().messages) == (0, 0)


def test_a_killed_process_is_replaced_and_its_message_handled_again(
    start: Callable[..., Worker], transport: MongoTransport[Any]
) -> None:
    transport.publish("g", 0.5)
    worker = start("shop:opened", "--processes", "2", "--health-port", "0")
    url = worker.until(r"http://\S+/health")[0]
    os.kill(int(worker.until(r"began (\d+) attempt 1")[1]), signal.SIGKILL)
    worker.until("ended by SIGKILL")
    status, health = asked(url)
    worker.until(r"process \d has pid")
    worker.until(r"began \d+ attempt 2")
    worker.until("finished")
    worker.signal()
    worker.rest()
    assert (status, health["state"] in {"restarting", "starting"}) == (503, True)
    assert (worker.status(), transport.stats().messages) == (0, 0)


def test_processes_end_in_good_order_when_their_supervisor_is_killed(
    start: Callable[..., Worker], transport: MongoTransport[Any]
) -> None:
    transport.publish("g", 0.3)
    worker = start("shop:opened", "--processes", "2")
    worker.until("began")
    worker.signal(signal.SIGKILL)
    told = worker.rest()
    assert "finished" in told
    assert len([line for line in told if "the supervisor has gone" in line]) == 2
    assert transport.stats().messages == 0


def test_a_wrong_target_is_one_line_of_each_process_and_no_restart(
    start: Callable[..., Worker],
) -> None:
    worker = start("shop:nothing", "--processes", "2", "--log-level", "critical")
    (last,) = {line for line in worker.rest() if line != NOTHING}
    assert "giving up" in last
    # One of them may have been told to stop before it could look.
    assert (worker.status(), 1 <= worker.lines.count(NOTHING) <= 2) == (2, True)


def test_repeated_signals_end_a_process_whose_handler_blocks_the_loop(
    start: Callable[..., Worker], transport: MongoTransport[Any]
) -> None:
    transport.publish("g", 300)
    worker = start("shop:at_import.blocked")
    worker.until("began")
    while worker.is_running_after(0.1):  # signals that come too fast are one
        worker.signal()
    assert any("leaving at once" in line for line in worker.rest())
    assert (worker.status(), transport.stats().messages) == (143, 1)


def test_time_ends_a_process_whose_handler_blocks_the_loop(
    start: Callable[..., Worker], transport: MongoTransport[Any]
) -> None:
    transport.publish("g", 300)
    worker = start("shop:at_import.blocked", "--kill-after", "0.2")
    worker.until("began")
    worker.signal()
    assert any("leaving at once" in line for line in worker.rest())
    assert (worker.status(), transport.stats().messages) == (143, 1)
