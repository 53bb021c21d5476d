"""Jobs whose workers died or were too slow: how they are known, and what becomes of them."""

import logging
from dataclasses import replace
from typing import Any

import anyio
import pytest
from job_fakes import FakeSide, Scene, endings
from mongomock_motor import AsyncMongoMockClient
from pymongo.errors import AutoReconnect
from worker_fakes import in_virtual_time

from fairlane import AsyncJobQueue, ConfigurationError, Execution, Job, JobContext, Jobs
from fairlane.clock import instant
from fairlane.jobs.working import Demand
from fairlane.testing import ManualClock

# mongomock still calls datetime.utcnow().
pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utc:DeprecationWarning")

LEASE = 30.0


@pytest.fixture
def queue(clock: ManualClock) -> AsyncJobQueue:
    return AsyncJobQueue(AsyncMongoMockClient(), clock=clock, keep_failed=None, lease=LEASE)


async def claimed(queue: AsyncJobQueue) -> Job:
    (job,) = await queue.claim_many(1)
    return job


async def died(queue: AsyncJobQueue, clock: ManualClock) -> Job:
    """Let a worker claim the job and be heard of no more."""
    job = await claimed(queue)
    clock.advance(LEASE + 1)
    return job


async def test_first_start_is_of_no_stale_job(queue: AsyncJobQueue) -> None:
    await queue.enqueue(1, "t")
    assert not (await claimed(queue)).was_stale


async def test_job_whose_worker_died_is_told_of_in_the_next_claim(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    """A12.22 and A12.60: also after it was put back."""
    await queue.enqueue(1, "t")
    await died(queue, clock)
    await queue.reclaim_stale()
    job = await claimed(queue)
    assert (job.attempts, job.was_stale) == (2, True)


async def test_nacked_job_was_not_stale(queue: AsyncJobQueue, clock: ManualClock) -> None:
    """Not even after an earlier start that was."""
    await queue.enqueue(1, "t", max_attempts=9)
    await died(queue, clock)
    await queue.nack(await claimed(queue))
    job = await claimed(queue)
    assert (job.attempts, job.was_stale) == (3, False)


async def test_job_that_was_given_back_is_as_it_was(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    await queue.enqueue(1, "t")
    await queue.release(await claimed(queue))
    assert not (await died(queue, clock)).was_stale
    await queue.release(await claimed(queue))
    assert (await claimed(queue)).was_stale


async def test_redriven_job_was_not_stale(queue: AsyncJobQueue, clock: ManualClock) -> None:
    await queue.enqueue(1, "t")
    await died(queue, clock)
    await queue.fail(await claimed(queue))
    await queue.redrive()
    assert not (await claimed(queue)).was_stale


async def test_of_a_job_of_an_older_program_it_is_not_known(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    await queue.enqueue(1, "t")
    await died(queue, clock)
    await queue._store.jobs.update_one({}, {"$unset": {"answered": ""}})
    assert not (await claimed(queue)).was_stale


def demand(**lowers: int) -> Demand:
    return Demand(worker_id="w", leases={"t": LEASE}, lowers=lowers)


async def test_claim_lowers_the_priority_of_a_stale_job(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    """A12.46, where a whole process died; it stays so for later starts."""
    await queue.enqueue(1, "t", priority=100)
    await died(queue, clock)
    (job,) = await queue.working_side().claim(demand(t=0), 1)
    assert (job.was_stale, job.priority) == (True, 0)
    await queue.nack(job)
    assert (await claimed(queue)).priority == 0


@pytest.mark.parametrize(("priority", "lowers"), [(-5, {"t": 0}), (100, {"u": 0}), (100, {})])
async def test_claim_never_raises_a_priority_nor_lowers_another_one(
    queue: AsyncJobQueue, clock: ManualClock, priority: int, lowers: dict[str, int]
) -> None:
    await queue.enqueue(1, "t", priority=priority)
    await died(queue, clock)
    (job,) = await queue.working_side().claim(demand(**lowers), 1)
    assert (job.was_stale, job.priority) == (True, priority)


async def test_claim_hands_a_stale_job_out_whose_priority_cannot_be_lowered(
    queue: AsyncJobQueue,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(*_: object) -> bool:
        raise AutoReconnect("gone")

    await queue.enqueue(1, "t", priority=100)
    await died(queue, clock)
    monkeypatch.setattr(queue._settler, "rerank", fail)
    (job,) = await queue.working_side().claim(demand(t=0), 1)
    assert job.priority == 100
    assert "keeps its priority 100" in caplog.text


async def test_late_holder_lowers_nothing_that_somebody_else_has(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    await queue.enqueue(1, "t", priority=100)
    late = await died(queue, clock)
    await claimed(queue)
    assert not await queue.working_side().lower(late, 0)
    (stored,) = await queue._store.jobs.find({}, sort=[("_id", 1)], limit=1)
    assert stored["priority"] == 100


async def test_recurring_job_has_its_own_priority_again_after_a_stale_run(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    """A12.47: 100, 0, and 100 for ever."""
    jobs, side = Jobs(), queue.working_side()
    jobs.recurring("t", every=3_600, priority=100, stale_priority=0)(lambda ctx: None)
    (definition,) = jobs
    await side.open((definition,))
    seen = []
    for hour in (1, 2, 3):
        clock.advance(3_600)
        if hour == 2:
            await died(queue, clock)
        (job,) = await side.claim(demand(t=0), 1)
        seen.append(job.priority)
        assert await side.reschedule(job, definition, None)
    assert seen == [100, 0, 100]


class Unreachable(FakeSide):
    """Its leases cannot be renewed."""

    async def extend(self, job: Job, lease: float) -> Job:
        await self._call("extend")
        raise ConnectionError("server away")


def stale_scene(side: FakeSide, **options: Any) -> tuple[Scene, list[tuple[str, int]]]:
    """Return a scene whose first start of job "a" never ends, and what is started in it."""
    scene, starts = Scene(), list[tuple[str, int]]()
    scene.queue.side = scene.side = side

    @scene.jobs.event("work", lease=3, **options)
    async def work(ctx: JobContext, params: Any) -> None:
        starts.append((ctx.job.id, ctx.job.priority))
        if ctx.job.id == "a" and ctx.attempt == 1:
            await anyio.sleep_forever()
        await anyio.sleep(2 if ctx.job.id == "b" else 0)  # the lease of "a" is over meanwhile

    for key, priority in (("a", 100), ("b", 50), ("c", 20)):
        side.add(id=key, priority=priority)
    return scene, starts


@pytest.mark.parametrize(
    ("options", "order"),
    [({"stale_priority": 0}, [("a", 100), ("b", 50), ("c", 20), ("a", 0)]), ({}, None)],
    ids=["lowered", "kept"],
)
def test_stale_job_is_started_again_after_others(
    options: dict[str, int], order: list[tuple[str, int]] | None
) -> None:
    """A12.46: stale, success, success; without the option the priority stays."""

    @in_virtual_time
    async def scenario() -> None:
        scene, starts = stale_scene(Unreachable(), **options)
        async with scene.pool(concurrency=1):
            await scene.record.until("acked", times=3)
        assert endings(scene.record) == ["lease_lost", "acked", "acked", "acked"]
        assert starts == (order or [("a", 100), ("b", 50), ("a", 100), ("c", 20)])

    scenario()


@in_virtual_time
async def test_job_found_stale_by_a_pool_has_the_lower_priority() -> None:
    """A12.46, after a worker that died."""
    scene, seen = Scene(), list[tuple[bool, int]]()

    @scene.jobs.event("work", stale_priority=-1)
    async def work(ctx: JobContext, params: Any) -> None:
        seen.append((ctx.job.was_stale, ctx.job.priority))

    scene.side.add(priority=9, attempts=1, answered=0)
    async with scene.pool():
        await scene.record.until("acked")
    assert seen == [(True, -1)]


def test_lowering_that_fails_is_logged_and_on_stale_hears_of_it_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Worse(Unreachable):
        async def lower(self, job: Job, priority: int) -> bool:
            raise ConnectionError("server away")

    @in_virtual_time
    async def scenario() -> None:
        told: list[str] = []
        scene, _ = stale_scene(
            Worse(), stale_priority=0, on_stale=lambda ctx: told.append(ctx.job.id)
        )
        async with scene.pool(concurrency=1):
            await scene.record.until("acked", times=3)
        assert told == ["a"]

    scenario()
    assert "the stale priority raised" in caplog.text


@pytest.mark.parametrize("value", ["low", 1.5, 2**31, True])
def test_stale_priority_must_be_a_priority(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="stale_priority"):
        Jobs().event("work", stale_priority=value)(lambda ctx, params: None)


@pytest.mark.parametrize("ends", [True, False], ids=["ends", "dies"])
def test_history_tells_of_an_execution_when_it_starts(*, ends: bool) -> None:
    """A12.45: what a later claim makes stale if the worker dies."""

    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()

        @scene.jobs.event("work", keep_history=60)
        async def work(ctx: JobContext, params: Any) -> None:
            assert [(row.outcome, row.ended_at) for row in scene.side.begun] == [("running", None)]

        answered = 1 if ends else 0
        scene.side.add(attempts=1, answered=answered)
        async with scene.pool():
            await scene.record.until("acked")
        assert scene.side.overtaken == ([] if ends else ["work-0"])
        assert [row.id for row in scene.side.rows] == [row.id for row in scene.side.begun]

    scenario()


@in_virtual_time
async def test_history_tells_of_the_last_worker_that_died_when_the_job_fails() -> None:
    """A12.60 and A12.78: nothing is started any more, and its last row is stale."""
    scene = Scene()
    scene.jobs.event("work", keep_history=60)(lambda ctx, params: None)
    scene.side.add(attempts=3, answered=2)
    async with scene.pool():
        await scene.record.until("dead_lettered")
    assert scene.side.overtaken == ["work-0"]
    assert scene.side.begun == []


def test_history_that_cannot_be_written_holds_up_no_job(caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()

        async def fail(*_: object) -> None:
            raise ConnectionError("server away")

        for verb in ("begin", "record", "overtake"):
            setattr(scene.side, verb, fail)
        scene.jobs.event("work", keep_history=60)(lambda ctx, params: None)
        scene.side.add(attempts=1, answered=0)
        async with scene.pool():
            await scene.record.until("acked")

    with caplog.at_level(logging.ERROR):
        scenario()
    assert [entry.message for entry in caplog.records] == ["the history of jobs raised"] * 3


def row(job: Job, outcome: str = "running", at: float = 0.0) -> Execution:
    return Execution(
        id=job.token or "",
        job_id=job.id,
        type=job.type,
        attempt=job.attempts,
        worker_id="w",
        started_at=instant(at),
        ended_at=None if outcome == "running" else instant(at + 2),
        outcome=outcome,
    )


async def outcomes(queue: AsyncJobQueue) -> list[tuple[int, str]]:
    return sorted((each.attempt, each.outcome) for each in await queue.history())


async def test_claimer_that_takes_over_writes_the_end_of_an_execution(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    """A12.45 and A12.78: of a worker that was killed; the first end that is written stays."""
    side = queue.working_side()
    await queue.enqueue(1, "t")
    dead = await died(queue, clock)
    await side.begin(row(dead, at=clock() - 31), dead, 60)
    job = await claimed(queue)
    await side.begin(row(job, at=clock()), job, 60)
    await side.overtake(job)
    assert await outcomes(queue) == [(1, "stale"), (2, "running")]
    _, stale = await queue.history()
    assert (stale.ended_at, stale.duration) == (instant(clock()), 31.0)
    assert stale.error is not None

    await side.record(row(dead, "success"), 60)
    await side.record(row(job, "success"), 60)
    await side.record(row(job, "retry"), 60)
    assert await outcomes(queue) == [(1, "stale"), (2, "success")]


async def test_claimer_that_was_taken_over_itself_leaves_the_later_execution_alone(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    side = queue.working_side()
    await queue.enqueue(1, "t")
    slow = await died(queue, clock)
    job = await claimed(queue)
    await side.begin(row(job), job, 60)
    await side.overtake(replace(slow, was_stale=True))
    assert await outcomes(queue) == [(2, "running")]


async def test_end_of_an_execution_whose_start_was_not_written_is_a_row(
    queue: AsyncJobQueue,
) -> None:
    await queue.enqueue(1, "t")
    job = await claimed(queue)
    await queue.working_side().record(row(job, "success"), 60)
    assert await outcomes(queue) == [(1, "success")]
    (shown,) = await queue.history()
    assert (shown.duration, shown.id) == (2.0, job.token)


async def test_execution_that_runs_has_no_duration_yet(queue: AsyncJobQueue) -> None:
    await queue.enqueue(1, "t")
    job = await claimed(queue)
    await queue.working_side().begin(row(job), job, 60)
    (shown,) = await queue.history()
    assert (shown.ended_at, shown.duration, shown.outcome) == (None, None, "running")
