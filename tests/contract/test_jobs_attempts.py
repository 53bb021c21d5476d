"""How often a job is started: the claim counts. Faults 14, 35 and 36; A12.22 to A12.28, A12.53."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from contract.batches import Commands, cancel
from fairlane import AsyncJobQueue, Job, Outcome
from fairlane.testing import ManualClock

MakeQueue = Callable[..., AsyncJobQueue]
Claimed = Callable[..., Awaitable[Job]]
Stored = Callable[..., Awaitable[list[dict[str, Any]]]]


@pytest.fixture(params=["find_one_and_update", "update_one"])
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"strategy": request.param}


async def die(queue: AsyncJobQueue, clock: ManualClock) -> Job | None:
    """Claim, and be killed: nobody settles, the lease runs out."""
    job = await queue.claim("t")
    clock.advance(30)
    return job


async def seen(queue: AsyncJobQueue, id: str) -> Job:
    job = await queue.get(id)
    assert job is not None
    return job


async def test_claim_counts_the_attempt(queue: AsyncJobQueue, stored: Stored) -> None:
    """A12.26, and A12.22: what is stored is what the claim returns."""
    await queue.enqueue(1, "t")
    (job,) = await queue.claim_many(2, "t")
    (document,) = await stored()
    assert (job.attempts, document["attempts"]) == (1, 1)
    assert (job.token, job.epoch) == (document["token"], document["epoch"])


async def test_attempt_of_a_dead_worker_is_counted(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock
) -> None:
    """A12.25, and A12.22: the claim tells that it was stale."""
    await queue.enqueue(1, "t")
    await die(queue, clock)
    job = await claimed("t")
    assert (job.attempts, job.was_stale) == (2, True)
    await queue.nack(job)
    assert not (await claimed("t")).was_stale


@pytest.mark.parametrize("many", [False, True], ids=["claim", "claim_many"])
async def test_job_that_kills_its_workers_fails_after_its_attempts(
    queue: AsyncJobQueue, clock: ManualClock, caplog: Any, *, many: bool
) -> None:
    """Fault 35, A12.53 and A12.60: three starts, then a claim fails it; attempts are the starts."""
    enqueued = await queue.enqueue(1, "t", max_attempts=3)
    starts = [await die(queue, clock) for _ in range(3)]
    assert [job.attempts for job in starts if job] == [1, 2, 3]
    with caplog.at_level(logging.WARNING, logger="fairlane.jobs"):
        assert not (await queue.claim_many(5, "t") if many else await queue.claim("t"))
    job = await seen(queue, enqueued.id)
    assert (job.state, job.attempts) == ("failed", 3)
    assert "no attempt is left" in str(job.last_error)
    assert enqueued.id in caplog.text


@pytest.mark.parametrize("keep_failed", [0, None])
async def test_claim_that_finds_attempts_exhausted_goes_on_with_others(
    make_queue: MakeQueue, clock: ManualClock, keep_failed: Any
) -> None:
    """A12.55: the exhausted one is more urgent, and is not returned."""
    queue = make_queue(keep_failed=keep_failed)
    await queue.enqueue("poison", "t", max_attempts=1, priority=9)
    await die(queue, clock)
    await queue.enqueue("good", "t")
    job = await queue.claim("t")
    assert job is not None
    assert job.payload == "good"
    assert await queue.failed() == (0 if keep_failed == 0 else 1)


async def test_batch_fails_what_is_exhausted_and_returns_the_others(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    """Faults 14 and 35."""
    await queue.enqueue_many(["p1", "p2"], "t", max_attempts=1, priority=9)
    await queue.claim_many(2, "t")
    clock.advance(30)
    await queue.enqueue_many(["a", "b"], "t")
    jobs = await queue.claim_many(10, "t")
    assert sorted(job.payload for job in jobs) == ["a", "b"]
    stats = await queue.stats()
    assert (stats.failed, stats.processing) == (2, 2)


async def test_batch_whose_exhausted_jobs_cannot_be_failed_gives_all_back(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    """They need not wait for their leases to run out."""
    await queue.enqueue("poison", "t", max_attempts=1)
    await die(queue, clock)
    await queue.enqueue_many(["a", "b"], "t")

    async def cut(*_: Any) -> list[bool]:
        raise AutoReconnect("connection closed")

    with pytest.MonkeyPatch.context() as outage:
        outage.setattr(queue._settler, "fail_unstarted", cut)
        with pytest.raises(AutoReconnect):
            await queue.claim_many(5, "t")
    jobs = await queue.claim_many(5, "t")
    assert sorted((job.payload, job.attempts) for job in jobs) == [("a", 1), ("b", 1)]


async def test_exhausted_job_gives_its_unique_key_free(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    await queue.enqueue(1, "t", max_attempts=1, unique_key="k")
    await die(queue, clock)
    assert await queue.claim("t") is None
    assert (await queue.enqueue(2, "t", unique_key="k")).created


@pytest.mark.parametrize("max_attempts", [1, 2, 5])
async def test_job_is_started_as_often_as_it_says(
    queue: AsyncJobQueue, claimed: Claimed, max_attempts: int
) -> None:
    """A12.54: what the job says goes before what the queue says."""
    await queue.enqueue(1, "t", max_attempts=max_attempts)
    outcomes: list[Outcome] = []
    while not outcomes or outcomes[-1] is Outcome.RETRY:
        outcomes.append(await queue.nack(await claimed("t")))
    assert len(outcomes) == max_attempts
    assert outcomes[-1] is Outcome.FAILED


async def test_queue_says_for_jobs_that_do_not(make_queue: MakeQueue) -> None:
    queue = make_queue(max_attempts=7)
    many = await queue.enqueue_many([1], "t")
    ids = [(await queue.enqueue(1, "t")).id, *many.ids]
    assert [(await seen(queue, str(id))).max_attempts for id in ids] == [7, 7]


async def test_job_that_succeeds_on_its_last_attempt_is_done(
    queue: AsyncJobQueue, claimed: Claimed
) -> None:
    """A12.57 and A12.28: whatever happened before."""
    await queue.enqueue(1, "t", max_attempts=2)
    await queue.nack(await claimed("t"))
    assert await queue.ack(await claimed("t"))
    assert ((await queue.stats()).done, (await queue.stats()).failed) == (1, 0)


async def test_release_does_not_count_the_attempt(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """Fault 36: five shutdowns during one job, which has two attempts."""
    await queue.enqueue(1, "t", max_attempts=2)
    for _ in range(5):
        job = await claimed("t")
        assert job.attempts == 1
        assert await queue.release(job)
    job = await seen(queue, job.id)
    assert (job.state, job.attempts) == ("pending", 0)


async def test_interruptions_of_a_job_are_counted_until_it_begins_anew(
    queue: AsyncJobQueue, claimed: Claimed
) -> None:
    """Fault 36."""
    await queue.enqueue(1, "t", max_attempts=2)
    for times in range(5):
        job = await claimed("t")
        assert (job.attempts, job.interrupted) == (1, times)
        assert await queue.release(job, interrupted=True)
    await queue.nack(await claimed("t"))
    await queue.fail(await claimed("t"))
    job = await seen(queue, job.id)
    assert (job.state, job.attempts, job.interrupted) == ("failed", 2, 5)
    await queue.redrive()
    assert (await claimed("t")).interrupted == 0


@pytest.mark.parametrize("many", [False, True], ids=["claim", "claim_many"])
async def test_cancelled_claim_counts_nothing_wherever_it_is_cancelled(
    queue: AsyncJobQueue, commands: Commands, *, many: bool
) -> None:
    """Fault 36."""
    await queue.enqueue_many([1, 2, 3], "t")
    point = 0
    while point == 0 or commands.has_struck:
        claim = queue.claim_many(5, "t") if many else queue.claim("t")
        cancelled = await commands.disturb(claim, point, cancel)
        assert cancelled.cancelled() == commands.has_struck
        point += 1
        jobs = await queue.claim_many(5, "t")
        if commands.has_struck:
            assert [job.attempts for job in jobs] == [1, 1, 1]
        for job in jobs:
            await queue.release(job)
    assert point > (6 if many else 2)


async def test_epoch_grows_with_every_lease(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock
) -> None:
    """Other systems refuse by it what a late worker says."""
    await queue.enqueue(1, "t", max_attempts=9)
    epochs = []
    for end in (queue.release, queue.nack, queue.nack):
        job = await claimed("t")
        epochs.append(job.epoch)
        await end(job)
    await die(queue, clock)
    epochs.append((await claimed("t")).epoch)
    assert epochs == [1, 2, 3, 5]


async def test_attempts_begin_anew_with_a_redrive(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock
) -> None:
    """A12.16."""
    await queue.enqueue(1, "t", max_attempts=2)
    await die(queue, clock)
    await queue.fail(await claimed("t"))
    assert await queue.redrive() == 1
    assert (await claimed("t")).attempts == 1
