"""Workers that are replaced while they work: what a deploy costs, and what it must not (36, 47).

Each worker is a process of its own with `signals=True`. They are forked by one that has imported
everything already, or starting them would take most of the time.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient

from fairlane import MongoTransport
from property.deploys import Said, complaints

SECONDS = 40.0
"""How long anything may take on a busy machine."""
DEADLINE = 0.1
WORKERS = 4
DEPLOYS = 5
LONG = 0.25
BATCH = [(f"g{number}", LONG if number % 6 == 0 else 0.01 * number) for number in range(12)]
"""Groups, and seconds of their handlers: two do not end before the deadline."""
DELIVERIES = 5
"""So often a message is interrupted that no deploy waits for."""

PROGRAM = """
import asyncio, json, os, signal, sys, time
from pymongo import AsyncMongoClient
from fairlane import AsyncMongoTransport, WorkerPool

URL, DATABASE = sys.argv[1:]


def say(what, group="", seq=0, attempt=0, interrupted=0):
    said = dict(what=what, worker=str(os.getpid()), at=time.monotonic(), group=group, seq=seq,
                attempt=attempt, interrupted=interrupted)
    os.write(1, json.dumps(said).encode() + b"\\n")


def say_of(what, of, interrupted=0):
    say(what, of.group_id, of.seq, of.attempt, interrupted)


async def handle(lease):
    say_of("began", lease, lease.interrupted)
    try:
        await asyncio.sleep(lease.event if lease.interrupted < 5 else 0)
    except asyncio.CancelledError:
        say_of("stopped", lease)
        raise
    say_of("finished", lease, lease.interrupted)


async def work(**options):
    async with AsyncMongoTransport(AsyncMongoClient(URL), DATABASE) as transport:
        pool = WorkerPool(
            transport, handle, signals=True, visibility=600, poll_interval=0.05, concurrency=12,
            on_event=lambda event: say_of(event.kind, event), **options,
        )
        running = asyncio.create_task(pool.run())
        while pool.health.state == "starting" and not running.done():
            await asyncio.sleep(0.005)
        say("ready")
        await running


signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in iter(sys.stdin.readline, ""):
    if os.fork() == 0:
        os.close(0)
        asyncio.run(work(**json.loads(line)))
        say("gone")
        os._exit(0)
"""


class Fleet:
    """The workers, and what they say."""

    def __init__(self, *arguments: str) -> None:
        self.log: list[Said] = []
        self._news = threading.Condition()
        self._process = subprocess.Popen(
            (sys.executable, "-c", PROGRAM, *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def start(self, **options: Any) -> str:
        """Start a worker and wait until it works; return its pid."""
        assert self._process.stdin is not None
        ready = sum(said.what == "ready" for said in self.log)
        self._process.stdin.write(json.dumps(options) + "\n")
        self._process.stdin.flush()
        return self._until(ready + 1, what="ready").worker

    def terminate(self, worker: str) -> None:
        os.kill(int(worker), signal.SIGTERM)

    def end(self, worker: str) -> None:
        self.terminate(worker)
        self.until(what="gone", worker=worker)

    def until(self, **attributes: object) -> Said:
        """Wait for a line with these attributes, and return it."""
        return self._until(1, **attributes)

    def until_acked(self, number: int) -> None:
        self._until(number, what="acked")

    def _until(self, number: int, **attributes: object) -> Said:
        found: list[Said] = []

        def are_there() -> bool:
            found[:] = [
                said
                for said in self.log
                if all(getattr(said, name) == value for name, value in attributes.items())
            ]
            return len(found) >= number

        with self._news:
            assert self._news.wait_for(are_there, SECONDS), f"not yet, after {self.log[-20:]}"
        return found[number - 1]

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._reader.join()
        self._process.communicate()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._news:
                self.log.append(Said(**json.loads(line)))
                self._news.notify_all()


@pytest.fixture
def transport(
    fairlane_url: str, db_name: str, janitor: MongoClient[dict[str, Any]]
) -> Iterator[MongoTransport[Any]]:
    with MongoTransport[Any].from_url(fairlane_url, db_name, driver="pymongo") as opened:
        yield opened
    janitor.drop_database(db_name)


@pytest.fixture
def fleet(fairlane_url: str, db_name: str) -> Iterator[Fleet]:
    fleet = Fleet(fairlane_url, db_name)
    yield fleet
    fleet.close()


def test_five_deploys_during_a_message_are_interruptions_and_no_attempts(
    fleet: Fleet, transport: MongoTransport[Any]
) -> None:
    """Fault 36: of its two attempts it needs one, as soon as somebody waits for it."""
    transport.publish("g", SECONDS)
    for _ in range(DELIVERIES):
        worker = fleet.start(max_attempts=2, drain_timeout=DEADLINE)
        fleet.until(what="began", worker=worker)
        fleet.end(worker)
    fleet.start(max_attempts=2)
    fleet.until_acked(1)

    began = [(said.attempt, said.interrupted) for said in fleet.log if said.what == "began"]
    assert began == [(1, times) for times in range(DELIVERIES + 1)]
    assert transport.stats().messages == 0


def test_rolling_deploys_lose_and_repeat_nothing(
    fleet: Fleet,
    transport: MongoTransport[Any],
    db_name: str,
    janitor: MongoClient[dict[str, Any]],
) -> None:
    """Fault 47, faster than told; as slow as told in virtual time (`property`)."""
    workers = {fleet.start(drain_timeout=DEADLINE) for _ in range(WORKERS)}
    published: list[tuple[str, int]] = []
    for _ in range(DEPLOYS):
        workers.add(fleet.start(drain_timeout=DEADLINE))
        seqs = transport.publish_many(BATCH)
        published += zip((group for group, _ in BATCH), seqs, strict=True)
        begun = fleet.until(what="began", seq=seqs[0])
        workers.remove(begun.worker)
        fleet.terminate(begun.worker)
    fleet.until_acked(len(published))
    for worker in workers:
        fleet.end(worker)

    assert complaints(fleet.log, published) == []
    assert sum(said.what == "stopped" for said in fleet.log) >= DEPLOYS
    assert list(janitor[db_name]["fairlane_locks"].find()) == []
    assert list(janitor[db_name]["fairlane_messages"].find()) == []
