"""Faults of comparable systems: renewals that work starves (43, 44)."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from fairlane import (
    AsyncJobQueue,
    AsyncMongoTransport,
    JobQueue,
    Jobs,
    Lease,
    MongoTransport,
    WorkerPool,
)
from fairlane.worker import WorkerEvent
from integration.wire.proxy import Fault, Proxy

VISIBILITY = 0.8
BLOCKED = 1.8
"""Seconds: longer than two leases last."""
LONG = 30.0
HANDLERS = 8


def sleep() -> None:
    time.sleep(BLOCKED)


def compute() -> None:
    end = time.monotonic() + BLOCKED
    while time.monotonic() < end:
        sum(range(1_000))


@contextmanager
def rival(opened: Callable[[], Any], *arguments: Any) -> Iterator[list[Any]]:
    """Let another program claim all the time; give what it gets."""
    taken: list[Any] = []
    is_over = threading.Event()

    def claim() -> None:
        with opened() as source:
            while not is_over.wait(0.05):
                taken.extend(filter(None, [source.claim(*arguments)]))

    thread = threading.Thread(target=claim)
    thread.start()
    try:
        yield taken
    finally:
        is_over.set()
        thread.join(LONG)


class Kinds:
    """Counts what happens to a pool, and lets a test wait until so many leases have ended."""

    def __init__(self) -> None:
        self.ended = Counter[str]()
        self._news = asyncio.Event()

    def __call__(self, event: WorkerEvent) -> None:
        if event.kind != "claimed":
            self.ended[event.kind] += 1
            self._news.set()

    async def until(self, number: int) -> None:
        async with asyncio.timeout(LONG):
            while self.ended.total() < number:
                self._news.clear()
                await self._news.wait()


@pytest.mark.parametrize("block", [sleep, compute])
async def test_message_whose_handler_blocks_the_loop_is_handled_once(
    connect: Callable[..., Any],
    driver: str,
    db_name: str,
    fairlane_url: str,
    block: Callable[[], None],
) -> None:
    """Fault 44."""
    transport = AsyncMongoTransport(connect(driver), db_name)
    await transport.publish("g", 1)
    kinds, gone = Kinds(), []

    async def handle(_: Lease[Any]) -> None:
        with rival(partial(MongoTransport.from_url, fairlane_url, db_name), "rival") as taken:
            block()
        gone.extend(taken)

    async with WorkerPool(transport, handle, visibility=VISIBILITY, on_event=kinds):
        await kinds.until(1)
    assert kinds.ended == {"acked": 1}
    assert not gone


async def test_job_whose_handler_blocks_the_loop_runs_once(
    connect: Callable[..., Any], driver: str, db_name: str, fairlane_url: str
) -> None:
    queue, jobs, kinds = AsyncJobQueue(connect(driver), db_name), Jobs(), Kinds()
    gone: list[Any] = []

    @jobs.event("block", lease=VISIBILITY)
    async def _(*_: object) -> None:
        with rival(partial(JobQueue.connect, fairlane_url, db_name), "block") as taken:
            sleep()
        gone.extend(taken)

    await queue.enqueue({}, "block")
    async with WorkerPool(queue, jobs, on_event=kinds):
        await kinds.until(1)
    assert kinds.ended == {"acked": 1}
    assert not gone


async def test_handlers_that_use_up_the_connections_lose_no_lease(
    connect: Callable[..., Any], driver: str, db_name: str, fairlane_url: str
) -> None:
    """Fault 43: on a client that opens two connections each handler waits for the others."""
    kinds = Kinds()
    async with Proxy.opened(fairlane_url) as proxy:
        client = connect(driver, url=proxy.url, maxPoolSize=2)
        transport = AsyncMongoTransport[Any](client, db_name)
        collection = client.get_database(db_name).get_collection("of_the_application")
        await transport.publish_many([(f"g{number}", number) for number in range(HANDLERS)])

        async def handle(_: Lease[Any]) -> None:
            await collection.distinct("name")  # a command that Fairlane never sends

        proxy.arm(Fault(kind="delay", command="distinct", times=HANDLERS, seconds=VISIBILITY / 2))
        pool = WorkerPool(transport, handle, visibility=VISIBILITY, on_event=kinds)
        async with pool:
            await kinds.until(HANDLERS)
    assert kinds.ended == {"acked": HANDLERS}
