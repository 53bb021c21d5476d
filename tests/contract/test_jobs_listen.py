"""A listener on a server: what MongoDB::Queue's `listen` is for, which nobody tests upstream."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest

from fairlane import AsyncJobQueue, Job
from fairlane.retry import Backoff
from fairlane.testing import ManualClock

MakeQueue = Callable[..., AsyncJobQueue]
FailCommand = Callable[..., Awaitable[None]]
Start = Callable[..., "asyncio.Task[None]"]

SOON = 0.01
NEVER = 3_600.0
NO_PRIMARY = 189


class Handled:
    """A handler that notes what it was given; it can be waited for."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.any = asyncio.Event()

    async def __call__(self, job: Job) -> None:
        self.jobs.append(job)
        self.any.set()


@pytest.fixture
async def start(queue: AsyncJobQueue) -> AsyncIterator[Start]:
    """Return what lets a listener run until the test is over."""
    tasks: list[asyncio.Task[None]] = []

    def listen(handler: Any, type: str = "t", **options: Any) -> "asyncio.Task[None]":
        options = {"poll_interval": SOON, "backoff": Backoff(base=5, jitter=0), **options}
        tasks.append(asyncio.ensure_future(queue.listen(handler, type, **options)))
        return tasks[-1]

    yield listen
    for task in tasks:
        task.cancel()
        await asyncio.wait((task,))


async def stop(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.wait((task,))


async def until(happens: Callable[[], Awaitable[bool]]) -> None:
    """Look until something has happened on the server."""
    with anyio.fail_after(20):
        while True:
            if await happens():
                return
            await anyio.sleep(SOON)


@pytest.mark.parametrize("batch", [1, 3])
async def test_jobs_are_acked_when_their_handler_returns(
    queue: AsyncJobQueue, start: Start, batch: int
) -> None:
    await queue.enqueue_many(range(7), "t")
    start(Handled(), batch=batch, worker_id="w")

    async def are_done() -> bool:
        return (await queue.stats()).done == 7

    await until(are_done)


async def test_job_whose_handler_raises_comes_back_with_its_error_after_a_back_off(
    queue: AsyncJobQueue, start: Start, clock: ManualClock
) -> None:
    enqueued = await queue.enqueue(1, "t")

    async def handle(_: Job) -> None:
        raise ValueError("no route")

    start(handle)

    async def is_nacked() -> bool:
        job = await queue.get(enqueued.id)
        return job is not None and job.last_error == "ValueError: no route"

    await until(is_nacked)
    job = await queue.get(enqueued.id)
    assert job is not None
    assert (job.state, job.attempts, job.available_at) == ("pending", 1, clock() + 5)


async def test_job_whose_handler_raises_fails_after_its_last_attempt(
    queue: AsyncJobQueue, start: Start
) -> None:
    await queue.enqueue(1, "t", max_attempts=2)

    async def handle(_: Job) -> None:
        raise ValueError("no route")

    start(handle, backoff=Backoff(base=0))

    async def has_failed() -> bool:
        return await queue.failed() == 1

    await until(has_failed)


async def test_jobs_of_other_types_are_left_alone(
    queue: AsyncJobQueue, start: Start, clock: ManualClock
) -> None:
    """Fault 29: stale ones too."""
    await queue.enqueue(1, "u", max_attempts=1)
    await queue.claim("u")
    await queue.enqueue("stale", "t")
    await queue.claim("t")
    clock.advance(60)
    await queue.enqueue(2, "u")
    handled = Handled()
    start(handled, reclaim_every=SOON)
    await handled.any.wait()
    assert [job.payload for job in handled.jobs] == ["stale"]
    assert (await queue.in_flight("u"), await queue.size("u")) == (1, 1)


async def test_stale_jobs_are_put_back_while_the_listener_works(
    queue: AsyncJobQueue, start: Start, clock: ManualClock
) -> None:
    await queue.enqueue_many(range(3), "t", max_attempts=1)
    await queue.claim_many(3, "t")
    clock.advance(60)
    await queue.enqueue("blocks", "t")
    release = asyncio.Event()

    async def handle(_: Job) -> None:
        await release.wait()

    start(handle, reclaim_every=SOON)

    async def have_failed() -> bool:
        return await queue.failed() == 3

    await until(have_failed)
    release.set()


@pytest.mark.parametrize("verb", ["enqueue", "enqueue_many", "redrive"])
async def test_local_enqueue_wakes_the_listener(
    queue: AsyncJobQueue, start: Start, verb: str
) -> None:
    """It would look again in an hour."""
    await queue.enqueue(1, "t")
    job = await queue.claim("t")
    assert job is not None
    await queue.fail(job)
    handled = Handled()
    looked = asyncio.Event()
    claim_many = queue._claimer.claim_many

    async def look(*args: Any) -> list[Job]:
        jobs = await claim_many(*args)
        looked.set()
        return jobs

    queue._claimer.claim_many = look  # type: ignore[method-assign, assignment]
    start(handled, poll_interval=NEVER)
    await looked.wait()
    arguments = {"enqueue": (1, "t"), "enqueue_many": ([1], "t"), "redrive": ()}
    await getattr(queue, verb)(*arguments[verb])
    with anyio.fail_after(20):
        await handled.any.wait()


async def test_cancelled_listener_gives_its_jobs_back_uncounted(
    queue: AsyncJobQueue, start: Start
) -> None:
    """Fault 36: the one at work and those that wait."""
    await queue.enqueue_many(range(3), "t")
    begun = asyncio.Event()

    async def handle(_: Job) -> None:
        begun.set()
        await anyio.sleep_forever()

    task = start(handle, batch=3)
    await begun.wait()
    await stop(task)
    jobs = await queue.claim_many(5, "t")
    assert [job.attempts for job in jobs] == [1, 1, 1]


async def test_plain_handler_runs_in_a_thread(queue: AsyncJobQueue, start: Start) -> None:
    await queue.enqueue("payload", "t")
    seen: list[Any] = []

    def handle(job: Job) -> None:
        seen.append((job.payload, threading.current_thread() is threading.main_thread()))

    start(handle)

    async def is_done() -> bool:
        return (await queue.stats()).done == 1

    await until(is_done)
    assert seen == [("payload", False)]


@pytest.mark.parametrize("by", ["task", "scope"])
async def test_cancelled_listener_waits_for_its_thread_before_it_gives_the_job_back(
    queue: AsyncJobQueue, by: str
) -> None:
    """A thread cannot be stopped: another worker would work on its job at the same time."""
    await queue.enqueue(1, "t")
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def handle(_: Job) -> None:
        begun.set()
        go_on.wait(20)
        ended.set()

    scope = anyio.CancelScope()

    async def listen() -> None:
        with scope:
            await queue.listen(handle, "t", poll_interval=SOON)

    task = asyncio.ensure_future(listen())
    await asyncio.to_thread(begun.wait, 20)
    (task if by == "task" else scope).cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    assert await queue.claim("t") is None
    assert not task.done()
    go_on.set()
    await asyncio.wait((task,))
    assert ended.is_set()
    assert await queue.in_flight() == 0


async def test_handler_is_cancelled_when_another_worker_has_its_job(
    queue: AsyncJobQueue, make_queue: MakeQueue, clock: ManualClock
) -> None:
    """And its result is refused: the job is as the other one left it."""
    await queue.enqueue(1, "t")
    quick = make_queue(lease=0.3)
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def handle(_: Job) -> None:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    task = asyncio.ensure_future(quick.listen(handle, "t", poll_interval=SOON))
    await begun.wait()
    clock.advance(50)
    rival = await queue.claim("t")
    with anyio.fail_after(20):
        await cancelled.wait()
    assert rival is not None
    assert await queue.ack(rival)
    await stop(task)


@pytest.mark.parametrize("command", ["find", "findAndModify", "update"])
async def test_listener_survives_errors_of_the_server(
    make_queue: MakeQueue, fail_command: FailCommand, command: str
) -> None:
    """In the claim, and in the settlement: that job comes back when its lease has run out."""
    queue = make_queue(strategy="find_one_and_update", clock=None)
    await queue.enqueue(1, "t")
    await fail_command(command, errorCode=NO_PRIMARY)
    batch = 2 if command == "find" else 1
    task = asyncio.ensure_future(
        make_queue(strategy="find_one_and_update", lease=2.0, clock=None).listen(
            Handled(), "t", poll_interval=SOON, batch=batch, reclaim_every=SOON
        )
    )

    async def is_done() -> bool:
        return (await queue.stats()).done == 1

    await until(is_done)
    await stop(task)


async def test_listener_that_has_ended_is_woken_no_more(queue: AsyncJobQueue, start: Start) -> None:
    task = start(Handled())
    await asyncio.sleep(0)
    await stop(task)
    assert not queue._announcer._callbacks
    await queue.enqueue(1, "t")
