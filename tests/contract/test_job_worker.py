"""Jobs in worker pools, on a server: the behaviours of A12 that need one."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from contract.job_pools import LONG, MakeQueue, Record, pool_of
from fairlane import (
    AsyncJobQueue,
    AsyncMongoTransport,
    Discard,
    Job,
    JobContext,
    Jobs,
    JobStats,
    Lease,
    NewJob,
    PayloadError,
    WorkerPool,
)
from fairlane.lease.strategy import Leaser
from fairlane.schema import BY_PRIORITY, BY_TYPE
from fairlane.worker._job_history import ExecutionLog


@pytest.fixture
def make_queue(client: Any, db_name: str) -> MakeQueue:
    """Return a factory of queues in the server's time: pools wait in real time."""

    def make(**options: Any) -> AsyncJobQueue:
        return AsyncJobQueue(client, db_name, **options)

    return make


@pytest.fixture
def queue(make_queue: MakeQueue) -> AsyncJobQueue:
    return make_queue()


@pytest.fixture
def jobs() -> Jobs:
    return Jobs()


@pytest.fixture
def record() -> Record:
    return Record()


class Numbers(BaseModel):
    a: int
    b: int = 0


async def handle(ctx: JobContext, params: Any) -> None:
    """Succeed at once."""


async def test_enqueued_jobs_of_several_types_are_run_and_end(
    queue: AsyncJobQueue, jobs: Jobs, record: Record
) -> None:
    """A12.41."""
    sums: list[int] = []

    @jobs.event("sum", payload=Numbers)
    async def add(ctx: JobContext, params: Numbers) -> None:
        sums.append(params.a + params.b)

    @jobs.event("plain")
    def plain(ctx: JobContext, params: int) -> None:
        sums.append(params)

    await add.enqueue(queue, Numbers(a=5))
    await add.enqueue_many(queue, [{"a": "25"}, NewJob(Numbers(a=1, b=2), priority=3)])
    await jobs.enqueue(queue, "plain", 7)
    async with pool_of(queue, jobs, record):
        await record.until("acked", times=4)

    assert sorted(sums) == [3, 5, 7, 25]
    assert (await queue.stats()).done == 4


async def test_invalid_payload_is_refused_and_nothing_is_stored(
    queue: AsyncJobQueue, jobs: Jobs
) -> None:
    job = jobs.event("sum", payload=Numbers)(handle)
    with pytest.raises(PayloadError):
        await job.enqueue(queue, {"b": 1})
    assert await queue.total() == 0


async def test_timings_and_priorities_of_a_call_are_stored(
    queue: AsyncJobQueue, jobs: Jobs
) -> None:
    """A12.79, A12.81 and A12.39."""
    job = jobs.event("work", priority=100)(handle)
    later = await queue.get((await job.enqueue(queue, delay=timedelta(seconds=5))).id)
    soon = await queue.get((await job.enqueue(queue, priority=0)).id)
    assert later is not None
    assert soon is not None
    assert 4 <= (later.available_at or 0) - later.created_at.timestamp() <= 6
    assert (later.priority, soon.priority) == (100, 0)


async def test_unique_job_that_was_enqueued_twice_runs_once(
    queue: AsyncJobQueue, jobs: Jobs, record: Record
) -> None:
    """A12.44, A12.69 and A12.70."""
    ran: list[Any] = []

    @jobs.event("work")
    async def work(ctx: JobContext, params: Any) -> None:
        ran.append(params)

    await asyncio.gather(
        work.enqueue(queue, 1, unique_key="same"), work.enqueue(queue, 1, unique_key="same")
    )
    await work.enqueue(queue, 2, unique_key="other")
    async with pool_of(queue, jobs, record):
        await record.until("acked", times=2)

    assert sorted(ran) == [1, 2]


async def test_failures_use_up_the_attempts_and_the_last_one_ends_the_job(
    queue: AsyncJobQueue, jobs: Jobs, record: Record
) -> None:
    """A12.29, A12.53, A12.54, A12.55: three executions, told once, never executed again."""
    runs, told = Counter[str](), list[Job]()

    @jobs.event("work", max_attempts=3)
    async def work(ctx: JobContext, params: Any) -> None:
        runs[ctx.job.id] += 1
        raise ValueError("bad")

    key = (await work.enqueue(queue)).id
    async with pool_of(queue, jobs, record, on_exhausted=told.append):
        await record.until("dead_lettered")
        await asyncio.sleep(0.2)

    failed = await queue.get(key)
    assert failed is not None
    assert (runs[key], failed.state, failed.last_error) == (3, "failed", "ValueError: bad")
    assert [(job.id, job.state) for job in told] == [(key, "failed")]


async def test_job_whose_workers_died_is_found_without_an_attempt_and_told_of(
    queue: AsyncJobQueue, jobs: Jobs, record: Record, database: Any
) -> None:
    """A12.60 and A12.61."""
    told: list[Job] = []
    work = jobs.event("work", max_attempts=1)(handle)
    key = (await work.enqueue(queue)).id
    assert await queue.claim("work") is not None
    await database["fairlane_jobs"].update_one({"_id": key}, {"$set": {"available_at": 0.0}})
    async with pool_of(queue, jobs, record, on_exhausted=told.append):
        await record.until("dead_lettered")

    assert [(job.id, job.was_stale) for job in told] == [(key, True)]
    stored = await database["fairlane_jobs"].find_one({"_id": key})
    assert stored["state"] == "failed"
    assert "partition" not in stored


@pytest.mark.parametrize("keep_done", [0, None])
async def test_discarded_job_never_runs_again(
    make_queue: MakeQueue, jobs: Jobs, record: Record, keep_done: Any
) -> None:
    """C1.1."""
    queue, runs = make_queue(keep_done=keep_done), list[int]()

    @jobs.event("work", lease=1)
    async def work(ctx: JobContext, params: Any) -> None:
        runs.append(1)
        raise Discard

    await work.enqueue(queue)
    async with pool_of(queue, jobs, record):
        await record.until("acked")
        await asyncio.sleep(1.5)

    assert len(runs) == 1
    stats = await queue.stats()
    assert stats == JobStats(
        done=stats.done, total=stats.total, by_type=stats.by_type
    )  # neither ready, delayed nor processing
    assert stats.total == (0 if keep_done == 0 else 1)


async def test_stale_job_is_run_again_and_told_of_once(
    queue: AsyncJobQueue, jobs: Jobs, record: Record, database: Any
) -> None:
    """A12.43 and A12.45."""
    stale: list[str] = []

    @jobs.event("work", lease=1, on_stale=lambda ctx: stale.append(ctx.job.id), keep_history=60)
    async def work(ctx: JobContext, params: Any) -> None:
        if ctx.attempt == 1:
            lost = {"$set": {"token": "gone:1", "available_at": 0.0}}
            await database["fairlane_jobs"].update_one({"_id": ctx.job.id}, lost)
            await asyncio.sleep(LONG)

    key = (await work.enqueue(queue)).id
    async with pool_of(queue, jobs, record):
        await record.until("acked")
        await record.until("lease_lost")

    assert stale == [key]
    rows = await queue.history("work")
    assert sorted((row.attempt, row.outcome) for row in rows) == [(1, "stale"), (2, "success")]


async def test_history_of_a_job_whose_worker_was_killed_says_so(
    queue: AsyncJobQueue, jobs: Jobs, record: Record, database: Any
) -> None:
    """A12.45, A12.46 and A12.78: who takes over ends the row that was left, by a lower priority."""
    seen: list[tuple[bool, int]] = []

    @jobs.event("work", priority=9, stale_priority=1, keep_history=60)
    async def work(ctx: JobContext, params: Any) -> None:
        seen.append((ctx.job.was_stale, ctx.job.priority))

    key = (await work.enqueue(queue)).id
    killed = ExecutionLog(queue.working_side(), "killed")
    job = await queue.claim("work", worker_id="killed")
    assert job is not None
    await killed.begin(job, 60, started_at=job.created_at.timestamp())
    await database["fairlane_jobs"].update_one({"_id": key}, {"$set": {"available_at": 0.0}})
    async with pool_of(queue, jobs, record, worker_id="living"):
        await record.until("acked")

    assert seen == [(True, 1)]
    rows = [(row.worker_id, row.attempt, row.outcome) for row in await queue.history(job_id=key)]
    assert rows == [("living", 2, "success"), ("killed", 1, "stale")]


async def test_handler_keeps_a_lease_that_is_shorter_than_its_work(
    queue: AsyncJobQueue, jobs: Jobs, record: Record
) -> None:
    """A12.73: two pools, and it runs once."""
    runs: list[int] = []

    @jobs.event("work", lease=1)
    async def work(ctx: JobContext, params: Any) -> None:
        runs.append(1)
        await asyncio.sleep(3)

    await work.enqueue(queue)
    async with pool_of(queue, jobs, record), pool_of(queue, jobs, record):
        await record.until("acked")

    assert (len(runs), record.kinds) == (1, ["claimed", "acked"])


async def test_lease_of_a_claimed_job_is_that_of_its_type(
    queue: AsyncJobQueue, jobs: Jobs, record: Record
) -> None:
    """A12.74, in one claim of both."""
    leases: dict[str, float] = {}

    async def note(ctx: JobContext, params: Any) -> None:
        job = await queue.get(ctx.job.id)
        assert job is not None
        assert job.available_at is not None
        assert job.locked_at is not None
        leases[job.type] = job.available_at - job.locked_at.timestamp()

    for name, lease in (("short", 20), ("long", 600)):
        job = jobs.event(name, lease=lease)(note)
        await job.enqueue(queue)
    async with pool_of(queue, jobs, record):
        await record.until("acked", times=2)

    assert 15 < leases["short"] < 25
    assert 595 < leases["long"] < 605


async def test_cap_holds_while_everything_else_runs(
    queue: AsyncJobQueue, jobs: Jobs, record: Record
) -> None:
    """A12.72 and A12.68; what was claimed for a cap is not given back."""
    running, most = Counter[str](), Counter[str]()

    async def work(ctx: JobContext, params: Any) -> None:
        kind = ctx.job.type
        running[kind] += 1
        most[kind] = max(most[kind], running[kind])
        await asyncio.sleep(0.05)
        running[kind] -= 1

    capped = jobs.event("capped", max_concurrency=2, priority=9)(work)
    free = jobs.event("free")(work)
    await capped.enqueue_many(queue, range(12))
    await free.enqueue_many(queue, range(12))
    async with pool_of(queue, jobs, record, concurrency=8):
        await record.until("acked", times=24)

    assert most["capped"] == 2
    assert most["free"] >= 4
    assert set(record.kinds) == {"claimed", "acked"}


async def test_index_by_type_is_named_only_while_a_cap_filters_types(
    make_queue: MakeQueue, jobs: Jobs, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A12.9."""
    named: set[tuple[Any, Any]] = set()
    lease = Leaser.lease

    async def noting(self: Any, collection: Any, match: Any, **options: Any) -> Any:
        named.add((tuple(match["type"]["$in"]), options["hint"]))
        return await lease(self, collection, match, **options)

    monkeypatch.setattr(Leaser, "lease", noting)
    queue, go = make_queue(hint="by_priority"), asyncio.Event()

    async def wait(ctx: JobContext, params: Any) -> None:
        await go.wait()

    capped = jobs.event("capped", max_concurrency=1)(wait)
    free = jobs.event("free")(wait)
    async with pool_of(queue, jobs, record, concurrency=2):
        for times, job in enumerate((free, capped), 1):
            go.clear()
            await job.enqueue(queue)
            await record.until("claimed", times=times)
            await asyncio.sleep(0.2)  # one slot is free, and asks again and again
            go.set()
            await record.until("acked", times=times)

    assert named == {(("capped", "free"), BY_PRIORITY), (("free",), BY_TYPE)}


@pytest.mark.parametrize("is_there", [True, False])
async def test_claim_of_many_names_the_index_by_type_while_a_cap_filters_types(
    make_queue: MakeQueue,
    jobs: Jobs,
    record: Record,
    database: Any,
    monkeypatch: pytest.MonkeyPatch,
    is_there: bool,
) -> None:
    """A12.9 and C1.10: and goes on without it where there is no such index."""
    named: set[tuple[int, Any]] = set()
    look = Leaser.look

    async def noting(self: Any, collection: Any, match: Any, **options: Any) -> Any:
        named.add((len(match["type"]["$in"]), options["hint"]))
        return await look(self, collection, match, **options)

    monkeypatch.setattr(Leaser, "look", noting)
    queue, go = make_queue(hint="by_priority"), asyncio.Event()

    @jobs.event("capped", max_concurrency=1)
    async def capped(ctx: JobContext, params: Any) -> None:
        await go.wait()

    free = jobs.event("free")(handle)
    await capped.enqueue(queue)
    if not is_there:
        await database["fairlane_jobs"].drop_index(list(BY_TYPE))
    async with pool_of(queue, jobs, record, concurrency=4):
        await record.until("claimed")
        await free.enqueue_many(queue, range(6))
        await record.until("acked", times=6)
        go.set()

    assert {hint for number, hint in named if number == 2} == {BY_PRIORITY}
    assert {hint for number, hint in named if number == 1} == {BY_TYPE}


async def test_type_that_nobody_registered_is_never_claimed(
    queue: AsyncJobQueue, jobs: Jobs, record: Record
) -> None:
    """B6, type isolation."""
    work = jobs.event("work")(handle)
    other = (await queue.enqueue(1, "other", priority=9)).id
    await work.enqueue(queue)
    async with pool_of(queue, jobs, record):
        await record.until("acked")
        await asyncio.sleep(0.2)

    left = await queue.get(other)
    assert left is not None
    assert (left.state, left.attempts) == ("pending", 0)


async def test_pools_share_the_jobs_and_none_is_run_twice(
    make_queue: MakeQueue, jobs: Jobs, record: Record
) -> None:
    """A12.71 and A12.103, with the ends of the jobs."""
    runs: Counter[str] = Counter()

    @jobs.event("work")
    async def work(ctx: JobContext, params: Any) -> None:
        runs[ctx.job.id] += 1

    queues = [make_queue(partitions=4) for _ in range(3)]
    ids = (await work.enqueue_many(queues[0], range(120))).ids
    async with (
        pool_of(queues[0], jobs, record),
        pool_of(queues[1], jobs, record),
        pool_of(queues[2], jobs, record, claimers=2),
    ):
        await record.until("acked", times=120)

    assert runs == Counter(dict.fromkeys(map(str, ids), 1))
    assert (await queues[0].stats()).done == 120


async def test_one_pool_serves_messages_and_jobs(
    queue: AsyncJobQueue, jobs: Jobs, record: Record, client: Any, db_name: str
) -> None:
    """Without a poll: both tell the pool of what is published, and enqueued, here."""
    transport: AsyncMongoTransport[int] = AsyncMongoTransport(client, db_name)
    served: list[tuple[str, int]] = []

    async def serve(lease: Lease[int]) -> None:
        served.append((lease.group_id, lease.event))

    @jobs.event("work")
    async def work(ctx: JobContext, params: int) -> None:
        served.append(("job", params))

    parts = ((transport, serve), (queue, jobs))
    async with WorkerPool.together(*parts, poll_interval=3_600, on_event=record):
        for number in range(3):
            await transport.publish("g", number)
            await work.enqueue(queue, number)
        await record.until("acked", times=6)

    assert sorted(served) == [("g", 0), ("g", 1), ("g", 2), ("job", 0), ("job", 1), ("job", 2)]


async def test_history_is_read_by_type_and_job_newest_first(
    queue: AsyncJobQueue, jobs: Jobs, record: Record, database: Any
) -> None:
    """A12.76; rows are deleted by the server after their time."""

    @jobs.event("work", keep_history=timedelta(hours=1))
    async def work(ctx: JobContext, params: int) -> int:
        return params * 2

    jobs.event("quiet")(handle)
    keys = [(await work.enqueue(queue, number)).id for number in range(3)]
    await queue.enqueue(1, "quiet")
    async with pool_of(queue, jobs, record, concurrency=1):
        await record.until("acked", times=4)

    rows = await queue.history()
    assert [row.started_at for row in rows] == sorted(
        (row.started_at for row in rows), reverse=True
    )
    assert sorted(row.result for row in rows) == [0, 2, 4]
    (row,) = await queue.history(job_id=keys[1])
    assert (row.type, row.attempt, row.outcome, row.error) == ("work", 1, "success", None)
    stored = await database["fairlane_history"].find_one({"job_id": keys[1]})
    assert 3_590 <= stored["expires_at"].timestamp() - stored["ended_at"] <= 3_601
    indexes = await database["fairlane_history"].index_information()
    assert any(index.get("expireAfterSeconds") == 0 for index in indexes.values())


async def test_result_that_cannot_be_stored_does_not_fail_the_job(
    queue: AsyncJobQueue, jobs: Jobs, record: Record
) -> None:
    @jobs.event("work", keep_history=60)
    async def work(ctx: JobContext, params: Any) -> object:
        return object()

    await work.enqueue(queue)
    async with pool_of(queue, jobs, record):
        await record.until("acked")

    (row,) = await queue.history()
    assert (row.outcome, row.result) == ("success", None)
