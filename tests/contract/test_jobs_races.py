"""Two who want one job, in the order that would hurt. Faults 10, 11, 14 and 24; A12.32."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from contract.batches import Commands, after, cancel, lose_reply, once
from fairlane import AsyncJobQueue, Job
from fairlane.jobs import Reclaimed
from fairlane.testing import ManualClock

MakeQueue = Callable[..., AsyncJobQueue]
Claimed = Callable[..., Awaitable[Job]]
Stored = Callable[..., Awaitable[list[dict[str, Any]]]]
Meanwhile = Callable[[AsyncJobQueue, Job], Awaitable[object]]


@pytest.fixture(params=[1, 4])
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"partitions": request.param}


@pytest.fixture
def rival(make_queue: MakeQueue) -> AsyncJobQueue:
    """Another program on the same jobs."""
    return make_queue()


async def claimed_from(queue: AsyncJobQueue) -> Job:
    job = await queue.claim("t")
    assert job is not None
    return job


async def test_claim_never_takes_a_job_before_the_delay_of_a_nack(
    queue: AsyncJobQueue, rival: AsyncJobQueue, clock: ManualClock
) -> None:
    """Untested upstream: another one claims and nacks it between the look and the lease."""
    await queue.enqueue_many(["parked", "free"], "t")

    async def claim_and_nack(_: object) -> None:
        for job in await rival.claim_many(2, "t"):
            delay = 10 if job.payload == "parked" else 0
            await rival.nack(job, delay=delay)

    after(queue._store.jobs, "find", once(claim_and_nack))
    jobs = await queue.claim_many(5, "t")
    assert [(job.payload, job.attempts) for job in jobs] == [("free", 2)]
    clock.advance(10)
    (job,) = await queue.claim_many(5, "t")
    assert (job.payload, job.attempts) == ("parked", 2)


async def test_claim_never_takes_a_job_that_became_another_type(
    queue: AsyncJobQueue, database: Any
) -> None:
    """It was deleted and made anew between the look and the lease."""
    await queue.enqueue_many([1, 2], "t")

    async def change(_: object) -> None:
        await database["fairlane_jobs"].update_many({"payload": 1}, {"$set": {"type": "u"}})

    after(queue._store.jobs, "find", once(change))
    assert [job.payload for job in await queue.claim_many(5, "t")] == [2]


async def test_delay_longer_than_the_lease_gives_no_second_delivery(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    """Fault 24: of an enqueue and of a nack; three workers look all the time."""
    await queue.enqueue(1, "t", delay=5)
    deliveries = []
    for _ in range(12):
        for worker in "abc":
            job = await queue.claim("t", worker_id=worker, lease=1)
            if job is not None:
                deliveries.append(clock() - 1_000_000)
                ended = len(deliveries) == 2 and await queue.ack(job)
                assert ended or await queue.nack(job, delay=5)
        clock.advance(1)
    assert deliveries == [5, 10]


async def done(queue: AsyncJobQueue, job: Job) -> None:
    assert await queue.ack(job)


async def retried(queue: AsyncJobQueue, job: Job) -> None:
    assert await queue.nack(job, delay=60)


async def extended(queue: AsyncJobQueue, job: Job) -> None:
    await queue.extend(job)


async def claimed_again(queue: AsyncJobQueue, job: Job) -> None:
    """Or failed, where it has no attempt left."""
    assert (await queue.claim("t") is not None) == (job.max_attempts > 1)


async def cancelled(queue: AsyncJobQueue, _: Job) -> None:
    await queue.clear()


MEANWHILE: tuple[Meanwhile, ...] = (done, retried, extended, claimed_again, cancelled)


@pytest.mark.parametrize("meanwhile", MEANWHILE)
@pytest.mark.parametrize("max_attempts", [9, 1], ids=["requeues", "fails"])
async def test_reclaimer_changes_nothing_that_has_moved_since_it_looked(
    queue: AsyncJobQueue,
    rival: AsyncJobQueue,
    clock: ManualClock,
    stored: Stored,
    meanwhile: Meanwhile,
    max_attempts: int,
) -> None:
    """Faults 10 and 14: a finished job is not reopened, nor one taken from its new owner."""
    await queue.enqueue(1, "t", max_attempts=max_attempts)
    job = await claimed_from(queue)
    clock.advance(100)
    seen: list[Any] = []

    async def happen(_: object) -> None:
        await meanwhile(rival, job)
        seen.extend(await stored())

    after(queue._store.jobs, "find", once(happen))
    assert await queue.reclaim_stale(older_than=10) == Reclaimed(requeued=0, failed=0)
    assert await stored() == seen


async def test_reclaimers_at_the_same_time_count_each_job_once(
    make_queue: MakeQueue, clock: ManualClock
) -> None:
    """Fault 14, and untested upstream."""
    queues = [make_queue() for _ in range(3)]
    await queues[0].enqueue_many(range(10), "t", max_attempts=2)
    await queues[0].enqueue_many(range(10), "t", max_attempts=1)
    await queues[0].claim_many(20, "t")
    clock.advance(100)
    done = await asyncio.gather(*(queue.reclaim_stale() for queue in queues * 2))
    assert sum(each.requeued for each in done) == 10
    assert sum(each.failed for each in done) == 10


async def test_second_of_two_reclaimers_that_saw_the_same_jobs_counts_none(
    queue: AsyncJobQueue, rival: AsyncJobQueue, clock: ManualClock, database: Any
) -> None:
    """One of the jobs has lost its token, to a claim that failed midway."""
    await queue.enqueue_many([1, 2, 3], "t", max_attempts=2)
    await queue.claim_many(3, "t")
    await database["fairlane_jobs"].update_one({"payload": 1}, {"$set": {"token": None}})
    clock.advance(100)
    others: list[Reclaimed] = []

    async def reclaim(_: object) -> None:
        others.append(await rival.reclaim_stale())

    after(queue._store.jobs, "find", once(reclaim))
    assert await queue.reclaim_stale() == Reclaimed(requeued=0, failed=0)
    assert others == [Reclaimed(requeued=3, failed=0)]


@pytest.mark.parametrize("older_than", [None, 0, 5])
async def test_reclaim_never_takes_a_live_lease(
    queue: AsyncJobQueue, clock: ManualClock, older_than: Any
) -> None:
    """Fault 11: a healthy job of any age, whose lease is renewed."""
    await queue.enqueue(1, "t")
    job = await claimed_from(queue)
    for _ in range(50):
        clock.advance(20)
        job = await queue.extend(job)
        assert await queue.reclaim_stale(older_than=older_than) == Reclaimed(requeued=0, failed=0)
        assert await queue.claim("t") is None
    assert await queue.ack(job)


async def test_reclaim_leaves_younger_jobs_alone(queue: AsyncJobQueue, clock: ManualClock) -> None:
    await queue.enqueue_many([1, 2], "t")
    await queue.claim("t", lease=1)
    clock.advance(60)
    await queue.claim_many(2, "t", lease=1)
    clock.advance(40)
    assert await queue.reclaim_stale(older_than=50) == Reclaimed(requeued=0, failed=0)
    assert await queue.reclaim_stale(older_than=39) == Reclaimed(requeued=2, failed=0)


async def test_reclaim_of_more_jobs_than_one_look_finds_takes_them_all(
    queue: AsyncJobQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlane.jobs._upkeep.CHUNK", 4)
    await queue.enqueue_many(range(10), "t", max_attempts=2)
    await queue.enqueue_many(range(3), "t", max_attempts=1)
    await queue.claim_many(13, "t")
    clock.advance(60)
    assert await queue.reclaim_stale() == Reclaimed(requeued=10, failed=3)


@pytest.mark.parametrize("strike", [cancel, lose_reply])
async def test_interrupted_claim_of_many_leaves_every_job_to_be_cancelled_or_claimed(
    queue: AsyncJobQueue, commands: Commands, strike: Any
) -> None:
    """After whichever command: nobody works on the jobs, so they wait like any other."""
    point = -1
    while point < 0 or commands.has_struck:
        point += 2
        await queue.clear()
        enqueued = await queue.enqueue_many([1, 2, 3], "t")
        claim = await commands.disturb(queue.claim_many(3, "t"), point, strike)
        if commands.has_struck:
            assert claim.cancelled() or isinstance(claim.exception(), AutoReconnect)
            assert await queue.cancel(str(enqueued.ids[0]))
            assert len(await queue.claim_many(3, "t")) == 2
    assert point >= 7


@pytest.mark.parametrize("verb", ["ack", "fail", "nack", "release"])
async def test_cancelled_settlement_is_done_or_was_not_begun(
    queue: AsyncJobQueue, commands: Commands, verb: str
) -> None:
    point = 0
    while point == 0 or commands.has_struck:
        await queue.clear()
        await queue.enqueue(1, "t")
        job = await claimed_from(queue)
        task = await commands.disturb(getattr(queue, verb)(job), point, cancel)
        assert task.cancelled() == commands.has_struck
        assert not await queue.ack(job)  # so it was done
        point += 1
    assert point == 3


async def test_redrive_takes_nothing_that_was_redriven_and_claimed_since(
    queue: AsyncJobQueue, rival: AsyncJobQueue
) -> None:
    await queue.enqueue(1, "t")
    await queue.fail(await claimed_from(queue))
    jobs: list[Job] = []
    read = queue._store.jobs.each

    async def overtaken(*args: Any, **options: Any) -> Any:
        async for document in read(*args, **options):
            await rival.redrive()
            jobs.append(await claimed_from(rival))
            yield document

    queue._store.jobs.each = overtaken  # type: ignore[method-assign]
    assert await queue.redrive() == 0
    assert await rival.ack(jobs[0])
