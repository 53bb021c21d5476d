"""A cancellation that nobody meant for the pool fails one message, and the pool goes on."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from worker_fakes import (
    FakeSource,
    Record,
    VirtualTimeLoop,
    busy,
    handled,
    in_virtual_time,
    ticks,
)

from fairlane.errors import FairlaneError
from fairlane.model import Lease
from fairlane.worker import WorkerEvent, WorkerPool

FAILED_ONCE = ["claimed", "handler_failed", "nacked", "claimed", "acked"]


def cancel_this_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def await_what_is_cancelled() -> None:
    future = asyncio.get_running_loop().create_future()
    future.cancel()
    await future


async def cancel_and_wait() -> None:
    cancel_this_task()
    await anyio.sleep(1)


async def cancel_and_return() -> None:
    cancel_this_task()


async def cancel_and_raise() -> None:
    cancel_this_task()
    raise ValueError("bad")


async def cancel_and_exit() -> None:
    cancel_this_task()
    raise SystemExit


async def cancel_twice_and_wait() -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await cancel_and_wait()
    await cancel_and_wait()


async def swallow_and_await_what_is_cancelled() -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await cancel_and_wait()
    await await_what_is_cancelled()


async def swallow_and_return() -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await cancel_and_wait()


@pytest.mark.parametrize(
    "misbehave",
    [
        await_what_is_cancelled,
        cancel_and_exit,
        cancel_and_raise,
        cancel_and_return,
        cancel_and_wait,
        cancel_twice_and_wait,
        swallow_and_await_what_is_cancelled,
    ],
)
def test_handler_that_is_cancelled_while_the_pool_is_not_has_failed(
    misbehave: Callable[[], Awaitable[None]],
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        source.publish("g")

        async def handle(lease: Lease[Any]) -> None:
            if lease.attempt == 1:
                await misbehave()

        async with WorkerPool(source, handle, on_event=record):
            await record.until("acked")
        assert record.kinds == FAILED_ONCE

    scenario()


@in_virtual_time
async def test_handler_that_swallows_its_cancellation_and_returns_has_acked() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async with WorkerPool(source, lambda _: swallow_and_return(), on_event=record):
        await record.until("acked")

    assert record.kinds == ["claimed", "acked"]


@in_virtual_time
async def test_handler_that_something_else_cancels_has_failed() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    tasks: list[asyncio.Task[Any]] = []

    async def handle(lease: Lease[Any]) -> None:
        if lease.attempt == 1:
            task = asyncio.current_task()
            assert task is not None
            tasks.append(task)
            await anyio.sleep(5)

    async with WorkerPool(source, handle, on_event=record):
        await record.until("claimed")
        await ticks(10)
        tasks[0].cancel()
        await record.until("acked")

    assert record.kinds == FAILED_ONCE


@in_virtual_time
async def test_handler_that_always_cancels_itself_goes_to_the_dead_letters() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async with WorkerPool(source, lambda _: cancel_and_wait(), max_attempts=3, on_event=record):
        await record.until("dead_lettered")

    assert record.kinds.count("nacked") == 2


@in_virtual_time
async def test_handlers_beside_one_that_cancels_itself_are_left_alone() -> None:
    source, record = FakeSource(), Record()
    for number in range(4):
        source.publish(f"g{number}", number)

    async def handle(lease: Lease[Any]) -> None:
        if lease.event == 0 and lease.attempt == 1:
            await cancel_and_wait()
        await anyio.sleep(5)

    async with WorkerPool(source, handle, on_event=record):
        await record.until("acked", times=4)

    assert (record.kinds.count("nacked"), record.kinds.count("released")) == (1, 0)


def raise_cancelled() -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("kind", ["claimed", "acked"])
@pytest.mark.parametrize("misbehave", [raise_cancelled, cancel_this_task])
def test_listener_that_cancels_does_not_end_the_pool(
    kind: str, misbehave: Callable[[], None]
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        for _ in range(4):  # one may be claimed already while a pool ends
            source.publish("g")
        is_first = iter([True])

        def listen(event: WorkerEvent) -> None:
            record(event)
            if event.kind == kind and next(is_first, False):
                misbehave()

        async with WorkerPool(source, handled, on_event=listen):
            await record.until("acked", times=3)
        assert "lease_lost" not in record.kinds

    scenario()


@pytest.mark.parametrize("verb", ["claim", "ack", "nack", "extend"])
def test_source_that_cancels_its_task_does_not_end_the_pool(verb: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        for _ in range(4):
            source.publish("g")
        call = getattr(source, verb)

        async def call_and_cancel(*args: Any, **kwargs: Any) -> Any:
            setattr(source, verb, call)
            answer = await call(*args, **kwargs)
            cancel_this_task()
            return answer

        async def handle(lease: Lease[Any]) -> None:
            await anyio.sleep(30)
            if lease.attempt == 1:
                raise ValueError("bad")

        setattr(source, verb, call_and_cancel)
        async with WorkerPool(source, handle, on_event=record):
            await record.until("acked", times=3)
        assert record.kinds[:5] == FAILED_ONCE

    scenario()


@in_virtual_time
async def test_pool_one_of_whose_own_tasks_is_cancelled_raises_instead_of_ending() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    run = asyncio.create_task(WorkerPool(source, busy, on_event=record).run())
    await record.until("claimed")
    await ticks(10)

    for task in asyncio.all_tasks():
        if "Fetching.fetch" in task.get_name():
            task.cancel()

    with pytest.raises(FairlaneError, match="a task of the pool was cancelled"):
        await run
    assert source.leased == []


def test_end_of_the_loop_gives_leases_back_uncounted(caplog: pytest.LogCaptureFixture) -> None:
    """`asyncio.run` cancels all tasks at once when its main one ends, in any order."""
    source = FakeSource()
    for number in range(5):
        source.publish(f"g{number}")
    runs = []

    async def main() -> None:
        record = Record()
        runs.append(asyncio.create_task(WorkerPool(source, busy, on_event=record).run()))
        await record.until("claimed", times=5)
        await ticks(10)

    with (
        caplog.at_level(logging.ERROR, logger="fairlane"),
        asyncio.Runner(loop_factory=VirtualTimeLoop) as runner,
    ):
        runner.run(main())

    assert source.leased == []
    assert [group.attempts for group in source.groups.values()] == [0] * 5
    assert caplog.records == []
