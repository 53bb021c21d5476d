"""Plain functions run in threads: they cannot be stopped, so they are waited for or left alone.

Real time, since a thread does not wait for a virtual clock; events put things in order.
"""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from worker_fakes import FakeSource, Record, ticks

from fairlane.model import Lease
from fairlane.retry import Reject
from fairlane.worker import WorkerPool, _handling
from fairlane.worker._calling import ThreadCall


class Blocking:
    """A plain handler that blocks its thread until the test lets it go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.begun = threading.Semaphore(0)
        self.threads: set[int] = set()
        self.at_work = 0
        self.most = 0
        self._lock = threading.Lock()

    def __call__(self, _: object) -> None:
        with self._lock:
            self.threads.add(threading.get_ident())
            self.at_work += 1
            self.most = max(self.most, self.at_work)
        self.begun.release()
        self.go.wait(30)
        with self._lock:
            self.at_work -= 1

    async def until_begun(self, times: int = 1) -> None:
        for _ in range(times):
            await asyncio.to_thread(self.begun.acquire, timeout=30)


@pytest.fixture
def blocking() -> Iterator[Blocking]:
    handler = Blocking()
    yield handler
    handler.go.set()


async def test_call_abandoned_before_its_thread_begins_never_begins() -> None:
    calls: list[object] = []
    call = ThreadCall(lambda: calls.append(None))
    no_threads = anyio.CapacityLimiter(0)
    waiting = asyncio.create_task(call.run(no_threads))
    await ticks(5)
    waiting.cancel()
    await asyncio.wait([waiting])

    call._in_thread()

    assert (calls, call.is_at_work) == ([], False)


async def test_plain_function_runs_in_a_thread() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    threads: list[int] = []

    def handle(_: object) -> None:
        threads.append(threading.get_ident())

    async with WorkerPool(source, handle, on_event=record):
        await record.until("acked")

    assert threads != [threading.get_ident()]


async def test_exception_of_a_plain_function_is_answered_like_any_other() -> None:
    source, record = FakeSource(), Record()
    seq = source.publish("g")

    def handle(_: object) -> None:
        raise Reject("no")

    async with WorkerPool(source, handle, on_event=record):
        await record.until("dead_lettered")

    assert source.dead == [(seq, "no")]


async def test_plain_function_around_a_coroutine_is_awaited() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    awaited: list[str] = []

    async def handle(lease: Lease[Any]) -> None:
        awaited.append(lease.group_id)

    async with WorkerPool(source, lambda lease: handle(lease), on_event=record):
        await record.until("acked")

    assert awaited == ["g"]


async def test_object_with_an_async_call_is_an_async_handler() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    class Handler:
        thread = 0

        async def __call__(self, _: object) -> None:
            self.thread = threading.get_ident()

    handler = Handler()
    async with WorkerPool(source, handler, on_event=record):
        await record.until("acked")

    assert handler.thread == threading.get_ident()


async def test_threads_are_as_many_as_handlers(blocking: Blocking) -> None:
    source, record = FakeSource(), Record()
    for number in range(60):
        source.publish(f"g{number}")

    async with WorkerPool(source, blocking, concurrency=50, on_event=record):
        await blocking.until_begun(50)
        blocking.go.set()
        await record.until("acked", times=60)

    assert blocking.most == 50


async def test_blocking_function_keeps_its_lease(blocking: Blocking) -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async with WorkerPool(source, blocking, visibility=0.5, on_event=record):
        await blocking.until_begun()
        await source.until_called("extend", times=5)
        blocking.go.set()
        await record.until("acked")

    assert record.kinds == ["claimed", "acked"]


async def test_result_of_a_thread_whose_lease_is_lost_is_discarded(blocking: Blocking) -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async with WorkerPool(source, blocking, visibility=0.3, on_event=record):
        await blocking.until_begun()
        source.take_away("g")
        source.groups["g"].available_at = float("inf")
        await record.until("lease_lost")
        blocking.go.set()

    assert record.kinds == ["claimed", "lease_lost"]
    assert source.calls["ack"] == 0


async def test_thread_whose_lease_is_lost_keeps_its_slot(blocking: Blocking) -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async with WorkerPool(source, blocking, concurrency=1, visibility=0.3, on_event=record):
        await blocking.until_begun()
        source.take_away("g")
        source.groups["g"].available_at = float("inf")
        source.publish("h")
        await record.until("lease_lost")
        await ticks(50)
        leased_meanwhile = [event.group_id for event in record.events]
        blocking.go.set()
        await record.until("acked")

    assert set(leased_meanwhile) == {"g"}
    assert blocking.most == 1


async def test_thread_past_the_drain_deadline_keeps_its_group(blocking: Blocking) -> None:
    """Given back, the group would have two holders: the thread goes on working."""
    source, record = FakeSource(), Record()
    source.publish("g")

    async with WorkerPool(source, blocking, drain_timeout=0, on_event=record):
        await blocking.until_begun()

    assert record.kinds == ["claimed", "unsettled"]
    assert source.leased == ["g"]


async def test_thread_that_ended_before_the_pool_looked_has_acked(
    blocking: Blocking, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 47: what was done when the deadline came is not done again."""
    source, record = FakeSource(), Record()
    source.publish("g")
    calls: list[ThreadCall] = []

    def noted(function: Any) -> ThreadCall:
        calls.append(ThreadCall(function))
        return calls[0]

    monkeypatch.setattr(_handling, "ThreadCall", noted)
    async with WorkerPool(source, blocking, drain_timeout=0, on_event=record):
        await blocking.until_begun()
        blocking.go.set()
        while calls[0].is_at_work:  # blocks the event loop on purpose: it must not look yet
            pass

    assert (source.is_drained, record.kinds) == (True, ["claimed", "acked"])


async def test_result_that_is_there_when_the_wait_is_cancelled_is_returned() -> None:
    go = threading.Event()
    call = ThreadCall(lambda: go.wait(30))
    waiting = asyncio.create_task(call.run(anyio.CapacityLimiter(1)))
    while not call.is_at_work:
        await ticks(1)
    go.set()
    while call.is_at_work:
        pass

    waiting.cancel()

    assert await waiting is True
