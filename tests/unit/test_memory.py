"""However many messages and jobs a pool has handled, it keeps nothing of them."""

import asyncio
import gc
import logging
import signal
import threading
import weakref
from typing import Any

import anyio
import pytest
from endless_fakes import EndlessQueue, EndlessSource, SpareEndlessSource, Supply
from growth import Growth, log_of_its_own, measured, traced
from worker_fakes import handled, nothing

from fairlane import Jobs, Lease, Reject, Retry, Snooze, WorkerPool

GROUPS = 100_000
FAILURES = 50_000
"""So many may leave a megabyte."""

WARM_UP = 300
SAMPLE = 1_500
"""Tracing takes three times as long: all of them are traced by `-m whole_matrix` only."""

DEPTH = 10
BALLAST = 10_000
RUNS = 200

UNREAD = logging.NullHandler()

whole = pytest.mark.whole_matrix, pytest.mark.timeout(600)


class Wrong(Exception):
    """Refers to what it is about, and to itself."""

    def __init__(self, subject: object) -> None:
        super().__init__("wrong")
        self.subject = subject
        self.myself = self


class Reader(logging.Handler):
    """Formats each line, as a file would have it, and keeps none."""

    def emit(self, record: logging.LogRecord) -> None:
        self.format(record)


def fail(depth: int = DEPTH) -> None:
    """Raise an error with a long traceback, whose frames hold much."""
    ballast = bytes(BALLAST)
    if depth:
        fail(depth - 1)
    raise KeyError(len(ballast))


def fail_somehow(number: int, subject: object) -> None:
    try:
        fail()
    except KeyError as error:
        ways = Wrong(subject), ValueError("no"), Retry(5), Reject("never"), Snooze(5)
        raise ways[number % len(ways)] from error


async def failing(lease: Lease[Any]) -> None:
    fail_somehow(lease.seq, lease)


async def failing_half(lease: Lease[Any]) -> None:
    if lease.seq % 2:
        fail_somehow(lease.seq, lease)


def failing_in_thread(lease: Lease[Any]) -> None:
    fail_somehow(lease.seq, lease)


def pool_of(source: Any, handler: Any, **options: Any) -> WorkerPool[Any]:
    return WorkerPool(source, handler, **{"concurrency": 32, **options})


def failing_jobs(**options: Any) -> Jobs:
    jobs = Jobs()

    @jobs.event("work", on_stale=nothing, on_error=nothing, **options)
    async def work(ctx: Any, number: int) -> None:
        fail_somehow(number, ctx)

    return jobs


async def growth_by(
    supply: Supply,
    pool: WorkerPool[Any],
    items: int,
    *,
    warm_up: int = WARM_UP,
    log: logging.Handler = UNREAD,
) -> Growth:
    """Return what is left of so many."""
    with log_of_its_own(log), traced():
        async with pool:
            await supply.provide(warm_up)
            with measured() as growth:
                await supply.provide(items)
    return growth


@pytest.mark.timeout(180)
async def test_nothing_is_left_of_100000_groups_and_50000_failing_handlers() -> None:
    source = EndlessSource()
    with log_of_its_own(UNREAD):
        async with pool_of(source, failing_half):
            await source.provide(WARM_UP)
            with measured() as growth:
                await source.provide(GROUPS)
    growth.assert_flat(GROUPS, of=GROUPS)


@pytest.mark.parametrize("items", [SAMPLE, pytest.param(FAILURES, marks=whole)])
async def test_failing_handlers_leave_no_memory_behind(items: int) -> None:
    source = EndlessSource()
    pool = pool_of(source, failing, on_event=nothing)
    growth = await growth_by(source, pool, items)
    growth.assert_flat(items, of=FAILURES)


@pytest.mark.parametrize("items", [SAMPLE, pytest.param(GROUPS, marks=whole)])
async def test_distinct_groups_leave_no_memory_behind(items: int) -> None:
    source = EndlessSource()
    growth = await growth_by(source, pool_of(source, handled, on_event=nothing), items)
    growth.assert_flat(items, of=GROUPS)


@pytest.mark.parametrize("keep_history", [None, 60.0], ids=["no history", "history"])
@pytest.mark.parametrize("items", [SAMPLE // 2, pytest.param(FAILURES, marks=whole)])
async def test_failing_jobs_leave_no_memory_behind(items: int, keep_history: float | None) -> None:
    queue, jobs = EndlessQueue(), failing_jobs(keep_history=keep_history)
    pool = pool_of(queue, jobs, on_event=nothing, on_exhausted=nothing)
    growth = await growth_by(queue.endless, pool, items)
    growth.assert_flat(items, of=FAILURES)


async def test_failures_in_threads_leave_no_memory_behind() -> None:
    source = EndlessSource()
    items, pool = SAMPLE // 4, pool_of(source, failing_in_thread, concurrency=4)
    growth = await growth_by(source, pool, items)
    growth.assert_flat(items, of=FAILURES)


async def test_log_lines_leave_no_memory_behind() -> None:
    source, items = EndlessSource(), 100
    pool = pool_of(source, failing)
    growth = await growth_by(source, pool, items, warm_up=items, log=Reader())
    growth.assert_flat(items, of=FAILURES)


@pytest.mark.parametrize("source", [EndlessSource(), SpareEndlessSource()], ids=type)
async def test_renewals_leave_no_memory_behind(source: EndlessSource) -> None:
    items, visibility = 400, 1.5

    async def handle(lease: Lease[Any]) -> None:
        await anyio.sleep(visibility * 0.4)
        fail_somehow(lease.seq, lease)

    with log_of_its_own(UNREAD):
        async with pool_of(source, handle, visibility=visibility, concurrency=items):
            await source.provide(items)
            with measured() as growth:
                await source.provide(items)
    assert source.extended >= 2 * items
    growth.assert_flat(items, of=FAILURES)


@pytest.mark.parametrize("source", [EndlessSource(), SpareEndlessSource()], ids=type)
async def test_idle_pool_keeps_no_message(source: EndlessSource) -> None:
    visibility, messages = 0.6, weakref.WeakSet[Any]()
    source.make_event = Wrong

    async def handle(lease: Lease[Any]) -> None:
        messages.add(lease.event)
        await anyio.sleep(visibility * 0.4)

    async with pool_of(source, handle, visibility=visibility):
        await source.provide(20)
        gc.collect()
        assert len(messages) == 0


async def test_error_and_message_are_freed_without_the_garbage_collector() -> None:
    source, alive = EndlessSource(), weakref.WeakSet[Any]()

    async def handle(lease: Lease[Any]) -> None:
        alive.add(error := ValueError(lease))
        raise error

    with log_of_its_own(UNREAD):
        async with pool_of(source, handle):
            gc.disable()
            try:
                await source.provide(100)
                assert len(alive) == 0
            finally:
                gc.enable()


async def test_pool_that_is_run_200_times_leaves_no_thread_task_or_signal_handler() -> None:
    threads, handler = set(threading.enumerate()), signal.getsignal(signal.SIGTERM)
    source = SpareEndlessSource()
    pool = pool_of(source, handled, signals=True)

    async def run(times: int) -> None:
        for _ in range(times):
            async with pool:
                await source.provide(1)
        for thread in set(threading.enumerate()) - threads:
            thread.join(5)  # its last steps come after it has said that it ends

    await run(10)
    with measured() as growth:
        await run(RUNS)
    growth.assert_flat(RUNS, of=RUNS)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert set(threading.enumerate()) == threads
    assert signal.getsignal(signal.SIGTERM) is handler
