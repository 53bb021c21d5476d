"""Signals belong to the application unless it lends them to the pool, and it gets them back."""

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from worker_fakes import FakeSource, Record, busy, handled, ticks

from fairlane.worker import WorkerPool

NUMBERS = (signal.SIGINT, signal.SIGTERM)


def installed() -> list[Any]:
    return [signal.getsignal(number) for number in NUMBERS]


@pytest.fixture(autouse=True)
def own_handlers() -> Iterator[list[Any]]:
    """Handlers of an application, which must come back whatever a test does."""
    before = installed()
    received: list[int] = []
    for number in NUMBERS:
        signal.signal(number, lambda got, _: received.append(got))
    yield received
    for number, handler in zip(NUMBERS, before, strict=True):
        signal.signal(number, handler)


async def slow(_: object) -> None:
    await anyio.sleep(0.1)


@pytest.mark.parametrize("number", NUMBERS)
async def test_first_signal_drains(number: int) -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    task = asyncio.create_task(WorkerPool(source, slow, signals=True, on_event=record).run())
    await record.until("claimed")

    os.kill(os.getpid(), number)

    await asyncio.wait_for(task, 20)
    assert record.kinds == ["claimed", "acked"]


async def test_second_signal_cancels_and_gives_back() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    pool = WorkerPool(source, busy, signals=True, on_event=record)
    task = asyncio.create_task(pool.run())
    await record.until("claimed")

    os.kill(os.getpid(), signal.SIGTERM)
    while pool.health.state != "draining":
        await ticks(1)
    os.kill(os.getpid(), signal.SIGTERM)

    await asyncio.wait_for(task, 20)
    assert record.kinds == ["claimed", "released"]


async def test_signal_wakes_an_idle_loop() -> None:
    pool = WorkerPool(FakeSource(), handled, signals=True, poll_interval=3_600)
    task = asyncio.create_task(pool.run())
    await ticks(20)
    sender = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM))
    sender.start()

    await asyncio.wait_for(task, 20)
    sender.join()


async def test_previous_handlers_are_restored() -> None:
    before = installed()
    pool = WorkerPool(FakeSource(), handled, signals=True)

    async with pool:
        await ticks(5)
        during = installed()

    assert installed() == before
    assert all(now != then for now, then in zip(during, before, strict=True))


async def test_previous_handlers_are_restored_after_a_cancellation() -> None:
    before = installed()
    task = asyncio.create_task(WorkerPool(FakeSource(), handled, signals=True).run())
    await ticks(20)
    task.cancel()
    await asyncio.wait([task])

    assert installed() == before


async def test_handler_that_the_application_gave_to_its_loop_stays() -> None:
    loop, heard = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, heard.set)
    try:
        async with WorkerPool(FakeSource(), handled, signals=True):
            await ticks(5)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(heard.wait(), 20)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


async def test_nothing_is_installed_unless_asked() -> None:
    before = installed()

    async with WorkerPool(FakeSource(), handled):
        await ticks(5)
        during = installed()

    assert during == before


def test_nothing_is_installed_outside_the_main_thread() -> None:
    before, during = installed(), []
    pool = WorkerPool(FakeSource(), handled, signals=True)

    async def work() -> None:
        async with pool:
            await ticks(5)
            during.extend(installed())

    thread = threading.Thread(target=asyncio.run, args=(work(),))
    thread.start()
    thread.join()

    assert during == before


async def test_signal_after_stop_cancels() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    pool = WorkerPool(source, busy, signals=True, on_event=record)
    task = asyncio.create_task(pool.run())
    await record.until("claimed")
    pool.stop()
    await ticks(5)

    os.kill(os.getpid(), signal.SIGINT)

    await asyncio.wait_for(task, 20)
    assert record.kinds == ["claimed", "released"]
