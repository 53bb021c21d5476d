"""Never two handlers inside one group: 64 claimers in one process, and several processes.

Run as a program, this file is one of the worker processes.
"""

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Backoff, Lease, WorkerPool
from fairlane.worker import WorkerEvent

Transport = AsyncMongoTransport[Any]
Span = tuple[float, float, int]

GROUPS, MESSAGES = 16, 12

PATIENT = 20.0
"""Visibility in seconds above all pauses of a busy machine: nothing may be delivered twice."""
QUICK = 3.0
"""Visibility in seconds that a test can wait for."""


class Journal:
    """When each handler began and ended, by the machine's clock that no one can set."""

    def __init__(self) -> None:
        self.spans: dict[str, list[Span]] = {}

    async def handle(self, lease: Lease[Any]) -> None:
        began_at = time.monotonic()
        await asyncio.sleep(random.uniform(0, 0.02))
        if lease.event % 9 == 0 and lease.attempt == 1:
            raise ValueError("every ninth message fails once")
        self.spans.setdefault(lease.group_id, []).append((began_at, time.monotonic(), lease.event))

    def check(self, groups: int, messages: int) -> None:
        """Every message once, in order, and never two of a group at once."""
        assert sorted(self.spans) == sorted(f"g{group}" for group in range(groups))
        for spans in self.spans.values():
            spans.sort()
            assert [event for _, _, event in spans] == list(range(messages))
            assert all(first[1] <= second[0] for first, second in pairwise(spans))


@pytest.fixture
async def transport(make_transport: Callable[..., Transport]) -> Transport:
    transport = make_transport(clock=None)
    for number in range(MESSAGES):
        await transport.publish_many([(f"g{group}", number) for group in range(GROUPS)])
    return transport


def acks(number: int) -> tuple[asyncio.Event, Callable[[WorkerEvent], None]]:
    """Return an event that is set at the n-th ack, and the listener that sets it."""
    done, left = asyncio.Event(), iter(range(number - 1, -1, -1))

    def listen(event: WorkerEvent) -> None:
        if event.kind == "acked" and next(left) == 0:
            done.set()

    return done, listen


@pytest.mark.parametrize(("pools", "claimers"), [(1, 64), (8, 8), (64, 1)])
async def test_64_claimers_never_put_two_handlers_inside_one_group(
    transport: Transport, pools: int, claimers: int
) -> None:
    journal = Journal()
    done, listen = acks(GROUPS * MESSAGES)
    options: dict[str, Any] = {
        "concurrency": claimers,
        "claimers": claimers,
        "poll_interval": 0.1,
        "backoff": Backoff(base=0.01),
        "on_event": listen,
    }
    async with asyncio.timeout(50), asyncio.TaskGroup() as running:
        workers = [WorkerPool(transport, journal.handle, **options) for _ in range(pools)]
        for worker in workers:
            running.create_task(worker.run())
        await done.wait()
        for worker in workers:
            worker.stop()

    journal.check(GROUPS, MESSAGES)


@asynccontextmanager
async def process(*arguments: object) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run this file as a worker process; end it by its pid."""
    program = await asyncio.create_subprocess_exec(
        sys.executable, __file__, *map(str, arguments), stdout=asyncio.subprocess.PIPE
    )
    try:
        yield program
    finally:
        if program.returncode is None:
            program.kill()
        await program.communicate()


def read(journals: list[Path]) -> Journal:
    merged = Journal()
    for path in filter(Path.exists, journals):  # one that came late may have found no work
        for line in path.read_text().splitlines():
            group, *span = json.loads(line)
            merged.spans.setdefault(group, []).append((span[0], span[1], span[2]))
    return merged


async def until_drained(transport: Transport, *programs: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(50):
        while (await transport.stats()).messages:
            assert all(program.returncode is None for program in programs)
            await asyncio.sleep(0.1)


async def test_processes_never_put_two_handlers_inside_one_group(
    transport: Transport, fairlane_url: str, db_name: str, driver: str, tmp_path: Path
) -> None:
    journals = [tmp_path / f"{number}.jsonl" for number in range(3)]
    plan = fairlane_url, db_name, driver, PATIENT
    async with (
        process(*plan, journals[0]) as first,
        process(*plan, journals[1]) as second,
        process(*plan, journals[2]) as third,
    ):
        programs = first, second, third
        for program in programs:
            assert program.stdout is not None
            assert await program.stdout.readline() == b"ready\n"  # it heeds signals
        await until_drained(transport, *programs)
        for program in programs:
            program.send_signal(signal.SIGTERM)
        statuses = [await program.wait() for program in programs]

    assert statuses == [0, 0, 0]
    read(journals).check(GROUPS, MESSAGES)


@pytest.mark.slow
async def test_message_that_kills_its_worker_ends_in_the_dead_letters(
    make_transport: Callable[..., Transport],
    fairlane_url: str,
    db_name: str,
    driver: str,
    tmp_path: Path,
) -> None:
    transport = make_transport(clock=None)
    await transport.publish("bomb", 0)
    statuses = []
    plan = fairlane_url, db_name, driver, QUICK
    async with asyncio.timeout(50):
        for _ in range(3):
            async with process(*plan, tmp_path / "journal") as program:
                statuses.append(await program.wait())
        await transport.publish_many([("g0", 0), ("g0", 1)])
        async with process(*plan, tmp_path / "journal") as program:
            await until_drained(transport, program)

    letters = [letter async for letter in transport.dead_letters()]
    assert statuses == [-signal.SIGKILL] * 3
    assert [letter.reason for letter in letters] == ["worker lost after 3 attempts"]
    read([tmp_path / "journal"]).check(groups=1, messages=2)


async def work(url: str, db_name: str, driver: str, visibility: str, path: str) -> None:
    journal = Journal()

    async def handle(lease: Lease[Any]) -> None:
        if lease.group_id == "bomb":
            os.kill(os.getpid(), signal.SIGKILL)
        await journal.handle(lease)
        line = json.dumps([lease.group_id, *journal.spans[lease.group_id][-1]]) + "\n"
        with open(path, "a") as file:  # noqa: ASYNC230  (written before the ack, whole)
            file.write(line)

    async with AsyncMongoTransport[Any].from_url(url, db_name, driver=driver) as transport:
        pool = WorkerPool(
            transport,
            handle,
            concurrency=16,
            claimers=16,
            visibility=float(visibility),
            poll_interval=0.1,
            max_attempts=3,
            backoff=Backoff(base=0.01),
            signals=True,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(pool.run())
            while pool.health.last_poll_at is None:  # noqa: ASYNC110  (nothing to wait for)
                await asyncio.sleep(0.01)
            print("ready", flush=True)  # noqa: T201


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
