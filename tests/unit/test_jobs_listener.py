"""How a listener goes about its jobs, in virtual time and on a queue in memory."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from pymongo.errors import AutoReconnect

from fairlane import Job, Outcome
from fairlane.clock import instant
from fairlane.jobs._claim import Request
from fairlane.jobs._listen import Handler, Listener, Pace
from fairlane.retry import Backoff, Discard, Fail, Reject, Retry
from unit.failing import ERRORS
from unit.worker_fakes import in_virtual_time

LEASE = 30.0


def job(id: str, attempts: int = 1) -> Job:
    return Job(
        id=id,
        type="t",
        payload=id,
        state="processing",
        priority=0,
        attempts=attempts,
        max_attempts=3,
        created_at=datetime.fromtimestamp(0, UTC),
        available_at=LEASE,
        token=f"w:{id}",
    )


class Queue:
    """What a listener calls, and a journal of it, with the time of each call."""

    def __init__(self, *batches: Sequence[str]) -> None:
        self.batches = [list(batch) for batch in batches]
        self.journal: list[tuple[float, str, Any]] = []
        self.lost: set[str] = set()
        self.interrupted: list[str] = []
        self.errors: dict[str, list[Exception]] = {}
        self.slow: dict[str, float] = {}

    async def _note(self, verb: str, what: Any) -> None:
        self.journal.append((anyio.current_time() - 1_000, verb, what))
        await anyio.sleep(self.slow.get(verb, 0))
        if self.errors.get(verb):
            raise self.errors[verb].pop(0)

    def times(self, verb: str) -> list[float]:
        return [at for at, name, _ in self.journal if name == verb]

    def told(self, verb: str) -> list[Any]:
        return [what for _, name, what in self.journal if name == verb]

    def now(self) -> float:
        return anyio.current_time() - 1_000

    async def claim_many(self, request: Request, n: int) -> list[Job]:
        await self._note("claim", (request.types, n))
        batch = self.batches.pop(0) if self.batches else []
        return [job(id, 2 if id.startswith("again") else 1) for id in batch]

    async def ack(self, jobs: Sequence[Job]) -> list[bool]:
        await self._note("ack", [each.id for each in jobs])
        return [each.id not in self.lost for each in jobs]

    async def fail(self, jobs: Sequence[Job], error: str) -> list[bool]:
        await self._note("fail", [each.id for each in jobs])
        return [each.id not in self.lost for each in jobs]

    async def nack(self, job: Job, delay: float, error: str) -> Outcome:
        await self._note("nack", (job.id, delay, error))
        return Outcome.LOST if job.id in self.lost else Outcome.RETRY

    async def release(self, jobs: Sequence[Job], *, begun: int) -> list[bool]:
        await self._note("release", [each.id for each in jobs])
        self.interrupted += [each.id for each in jobs[:begun]]
        return [True for _ in jobs]

    async def extend_many(self, jobs: Sequence[Job], lease: float) -> list[bool]:
        await self._note("extend", [each.id for each in jobs])
        return [each.id not in self.lost for each in jobs]

    async def reclaim(self, older_than: float | None, type: str | None) -> None:
        await self._note("reclaim", (older_than, type))

    async def reconcile(self) -> int:
        await self._note("reconcile", None)
        return 0


def listener(queue: Any, handler: Handler) -> Listener:
    return Listener(
        *(queue, queue, queue),
        handler=handler,
        request=Request(types=("t",), worker_id="w", lease=LEASE),
        pace=Pace(
            poll_interval=5.0,
            reclaim_every=600.0,
            batch=4,
            backoff=Backoff(base=8.0, cap=8.0, jitter=0.0),
        ),
    )


async def listen(queue: Queue, handler: Handler, seconds: float = 1_000.0) -> None:
    """Listen for so long."""
    with anyio.move_on_after(seconds):
        await listener(queue, handler).run()


def sleeper(seconds: float) -> Callable[[Job], Awaitable[None]]:
    async def handle(_: Job) -> None:
        await anyio.sleep(seconds)

    return handle


@in_virtual_time
async def test_jobs_of_a_batch_are_worked_on_one_after_the_other_and_acked() -> None:
    queue = Queue(["a", "b", "c"])
    await listen(queue, sleeper(2), 20)
    assert queue.told("claim")[0] == (("t",), 4)
    assert queue.told("ack") == [["a"], ["b"], ["c"]]
    assert queue.times("ack") == [2, 4, 6]
    assert queue.told("release") == []


@in_virtual_time
async def test_error_of_the_handler_is_a_nack_with_its_text_and_a_back_off() -> None:
    queue = Queue(["a", "b"])

    async def handle(job: Job) -> None:
        if job.id == "a":
            raise ValueError("no route")

    await listen(queue, handle, 1)
    assert queue.told("nack") == [("a", 8.0, "ValueError: no route")]
    assert queue.told("ack") == [["b"]]


@in_virtual_time
async def test_leases_of_waiting_jobs_are_renewed_as_that_at_work_is() -> None:
    queue = Queue(["a", "b"])
    await listen(queue, sleeper(24), 60)
    assert queue.told("extend") == [["a", "b"], ["a", "b"], ["b"], ["b"]]
    assert queue.times("extend") == [10, 20, 30, 40]


@in_virtual_time
async def test_handler_whose_lease_is_lost_is_cancelled_and_settles_nothing() -> None:
    queue = Queue(["a", "b"])
    queue.lost = {"a"}
    started: list[str] = []

    async def handle(job: Job) -> None:
        started.append(job.id)
        await anyio.sleep(15)

    await listen(queue, handle, 60)
    assert started == ["a", "b"]
    assert (queue.told("ack"), queue.times("ack")) == ([["b"]], [25])
    assert queue.told("nack") == []


@in_virtual_time
async def test_job_that_was_lost_while_it_waited_is_not_started() -> None:
    queue = Queue(["a", "b", "c"])
    queue.lost = {"b"}
    started: list[str] = []

    async def handle(job: Job) -> None:
        started.append(job.id)
        await anyio.sleep(15)

    await listen(queue, handle, 60)
    assert started == ["a", "c"]


@pytest.mark.parametrize("hangs", [False, True], ids=["fails", "hangs"])
@in_virtual_time
async def test_handler_ends_before_the_lease_that_cannot_be_renewed(*, hangs: bool) -> None:
    """Its job is somebody else's at 30."""
    queue = Queue(["a", "b"])
    queue.errors["extend"] = [AutoReconnect("closed") for _ in range(9)]
    queue.slow["extend"] = 500.0 if hangs else 0.0
    ended: list[tuple[str, float]] = []

    async def handle(job: Job) -> None:
        try:
            await anyio.sleep(500)
        finally:
            ended.append((job.id, anyio.current_time() - 1_000))

    await listen(queue, handle, 100)
    assert ended == [("a", 20)]
    assert queue.told("ack") == queue.told("nack") == []


@in_virtual_time
async def test_one_renewal_that_fails_is_tried_again() -> None:
    queue = Queue(["a"])
    queue.errors["extend"] = [AutoReconnect("closed")]
    await listen(queue, sleeper(39), 60)
    assert queue.told("ack") == [["a"]]
    assert queue.times("extend") == [10, 12.5, 22.5, 32.5]


@in_virtual_time
async def test_cancelled_listener_gives_back_all_that_it_has_not_settled() -> None:
    queue = Queue(["a", "b", "c"])
    await listen(queue, sleeper(4), 6)
    assert queue.told("ack") == [["a"]]
    assert queue.told("release") == [["b", "c"]]
    assert queue.interrupted == ["b"]


@in_virtual_time
async def test_release_that_fails_ends_the_listener_all_the_same() -> None:
    queue = Queue(["a"])
    queue.errors["release"] = [AutoReconnect("closed")]
    await listen(queue, sleeper(4), 2)
    assert queue.told("release") == [["a"]]


@in_virtual_time
async def test_lease_is_renewed_while_a_cancelled_handler_takes_its_time() -> None:
    queue = Queue(["a"])

    async def handle(_: Job) -> None:
        try:
            await anyio.sleep(500)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(33)

    await listen(queue, handle, 15)
    assert queue.times("extend") == [10, 20, 30, 40]
    assert (queue.told("release"), queue.times("release")) == ([["a"]], [48])


@in_virtual_time
async def test_cancellation_from_elsewhere_is_a_failure_of_the_handler() -> None:
    """It waits for a task that somebody has cancelled; the listener goes on."""
    queue = Queue(["a"], ["b"])

    async def handle(job: Job) -> None:
        if job.id == "a":
            task = asyncio.ensure_future(anyio.sleep(50))
            task.cancel()
            await task

    await listen(queue, handle, 20)
    ((id, _, error),) = queue.told("nack")
    assert (id, "cancelled" in error) == ("a", True)
    assert queue.told("ack") == [["b"]]


@in_virtual_time
async def test_task_that_is_cancelled_ends_and_gives_back() -> None:
    """By asyncio itself, not by a scope."""
    queue = Queue(["a"])
    task = asyncio.ensure_future(listener(queue, sleeper(50)).run())
    await asyncio.sleep(3)
    task.cancel()
    await asyncio.wait((task,))
    assert task.cancelled()
    assert queue.told("release") == [["a"]]


@in_virtual_time
async def test_errors_of_a_claim_are_told_once_and_waited_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = Queue(["a"], ["b"])
    queue.errors["claim"] = [AutoReconnect("closed"), RuntimeError("odd"), AutoReconnect("again")]
    with caplog.at_level(logging.WARNING, logger="fairlane.jobs"):
        await listen(queue, sleeper(0), 60)
    assert queue.told("ack") == [["a"], ["b"]]
    assert [record.message for record in caplog.records] == [
        "cannot claim jobs, trying on: AutoReconnect: closed"
    ]


@pytest.mark.parametrize("verb", ["reclaim", "reconcile"])
@pytest.mark.parametrize("error", ERRORS)
def test_errors_of_a_reclaim_are_told_once_and_end_nothing(
    verb: str, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Fault 38."""
    queue = Queue()
    queue.errors[verb] = [ERRORS[error]] * 3
    with caplog.at_level(logging.WARNING, logger="fairlane.jobs"):
        in_virtual_time(listen)(queue, sleeper(0), 600 * 6.5)
    assert (len(queue.told("reclaim")), len(queue.told("claim")) > 100) == (6, True)
    assert len(caplog.records) == 1


@in_virtual_time
async def test_settlement_that_fails_leaves_the_job_to_its_lease() -> None:
    queue = Queue(["a", "b"])
    queue.errors["ack"] = [AutoReconnect("closed")]
    await listen(queue, sleeper(1), 20)
    assert queue.told("ack") == [["a"], ["b"]]


@in_virtual_time
async def test_settlement_that_comes_too_late_is_told(caplog: pytest.LogCaptureFixture) -> None:
    queue = Queue(["a"])
    queue.lost = {"a"}
    await listen(queue, sleeper(1), 20)
    assert "job a was somebody else's" in caplog.text


@in_virtual_time
async def test_listener_without_work_looks_once_in_an_interval() -> None:
    queue = Queue()
    await listen(queue, sleeper(1), 18)
    assert queue.times("claim") == [0, 5, 10, 15]


@in_virtual_time
async def test_listener_that_is_woken_looks_at_once() -> None:
    """Also by what came while it was looking."""
    queue = Queue([], ["a"], [], [], ["b"])
    working = listener(queue, sleeper(0))
    async with anyio.create_task_group() as group:
        group.start_soon(working.run)
        await anyio.sleep(1)
        working.wake()
        await anyio.sleep(1)
        queue.slow["claim"] = 2.0
        working.wake()
        await anyio.sleep(1)
        working.wake()
        await anyio.sleep(5)
        group.cancel_scope.cancel()
    assert queue.times("ack") == [1, 6]


@in_virtual_time
async def test_stale_jobs_of_its_type_are_put_back_now_and_then() -> None:
    """Fault 29: those of other types are for those who know them. An error does not end it."""
    queue = Queue()
    queue.errors["reclaim"] = [AutoReconnect("closed")]
    queue.errors["reconcile"] = [RuntimeError("odd")]
    await listen(queue, sleeper(1), 1_900)
    assert queue.told("reclaim") == [(None, "t")] * 3
    assert queue.times("reclaim") == [600, 1_200, 1_800]
    assert queue.times("reconcile") == [1_200, 1_800]


@pytest.mark.parametrize(
    ("answer", "verb"),
    [(Discard("enough"), "ack"), (Fail("no"), "fail"), (Reject("no"), "fail"), (Retry(7), "nack")],
    ids=str,
)
@pytest.mark.parametrize("is_raised", [True, False], ids=["raised", "returned"])
@in_virtual_time
async def test_answers_of_handlers_are_those_that_pools_know(
    *, answer: Exception, verb: str, is_raised: bool
) -> None:
    queue = Queue(["a"])

    async def handle(_: Job) -> object:
        if is_raised:
            raise answer
        return answer

    await listen(queue, handle, 5)
    told = {name: queue.told(name) for name in ("ack", "nack", "fail")}
    assert {name for name, calls in told.items() if calls} == {verb}


@in_virtual_time
async def test_listener_retries_at_the_moment_that_a_job_names() -> None:
    queue = Queue(["a"])

    async def handle(job: Job) -> None:
        await anyio.sleep(5)
        raise Retry(at=instant(60.0))

    await listen(queue, handle, 100)
    ((key, delay, _),) = queue.told("nack")
    assert (key, delay) == ("a", 55.0)


@in_virtual_time
async def test_job_that_was_started_before_is_worked_on_alone() -> None:
    """If it kills its worker each time, those claimed with it must not fail for that."""
    queue = Queue(["a", "again", "b"])
    await listen(queue, sleeper(2), 20)
    assert queue.told("release") == [["a", "b"]]
    assert queue.told("ack") == [["again"]]


@in_virtual_time
async def test_handler_that_ends_the_program_has_failed() -> None:
    """Its attempt counts, and the listener goes on."""

    async def handle(_: Job) -> None:
        raise SystemExit(3)

    queue = Queue(["a"], ["b"])
    await listen(queue, handler=handle, seconds=20)
    assert [what[0] for what in queue.told("nack")] == ["a", "b"]


@in_virtual_time
async def test_handler_that_cancels_itself_has_failed() -> None:
    async def handle(_: Job) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await anyio.sleep(1)

    queue = Queue(["a"], ["b"])
    await listen(queue, handler=handle, seconds=20)
    assert [what[0] for what in queue.told("nack")] == ["a", "b"]
