"""The life of a job, as MongoDB::Queue has it: behaviours B6.1 to B6.10 and B6.22 to B6.37."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlane import AsyncJobQueue, Job, Outcome
from fairlane.jobs import Reclaimed
from fairlane.testing import ManualClock

MakeQueue = Callable[..., AsyncJobQueue]
Claimed = Callable[..., Awaitable[Job]]

WAYS: list[dict[str, Any]] = [
    {"strategy": strategy, "partitions": partitions}
    for strategy in ("find_one_and_update", "update_one")
    for partitions in (1, 4)
]


@pytest.fixture(params=WAYS, ids=lambda way: f"{way['strategy']}-{way['partitions']}")
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    options: dict[str, Any] = request.param
    return options


async def counts(queue: AsyncJobQueue) -> tuple[int, int, int, int]:
    """Return how many jobs wait, are in flight, have failed, and are there at all."""
    return (
        await queue.size(),
        await queue.in_flight(),
        await queue.failed(),
        await queue.total(),
    )


async def drained(queue: AsyncJobQueue, *types: str) -> list[Any]:
    """Claim and ack until nothing is due; return the payloads in the order they came."""
    payloads = []
    while (job := await queue.claim(*types)) is not None:
        payloads.append(job.payload)
        assert await queue.ack(job)
    return payloads


async def test_enqueued_job_is_counted_and_has_a_hexadecimal_id(queue: AsyncJobQueue) -> None:
    """B6.1."""
    assert await counts(queue) == (0, 0, 0, 0)
    enqueued = await queue.enqueue({"n": 1}, "test-job")
    assert enqueued.created
    assert len(enqueued.id) == 32
    assert int(enqueued.id, 16)
    assert await counts(queue) == (1, 0, 0, 1)


async def test_claimed_job_is_whole_and_acked_once(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """B6.2: settled by the claimed Job, not by its id, which does not tell whose lease it is."""
    enqueued = await queue.enqueue({"n": 1}, "test-job")
    job = await claimed("test-job")
    assert (job.id, job.payload, job.state, job.attempts) == (
        *(enqueued.id, {"n": 1}),
        *("processing", 1),
    )
    assert await counts(queue) == (0, 1, 0, 1)
    assert await queue.ack(job)
    assert await counts(queue) == (0, 0, 0, 1)


@pytest.mark.parametrize("types", [("test-job",), ("a", "b"), ()], ids=len)
async def test_claim_on_an_empty_queue_returns_none(
    queue: AsyncJobQueue, types: tuple[str, ...]
) -> None:
    """B6.3."""
    assert await queue.claim(*types) is None
    assert await queue.claim_many(5, *types) == []


async def test_nacked_job_comes_back_until_its_attempts_are_used_up(
    queue: AsyncJobQueue, claimed: Claimed
) -> None:
    """B6.4; the outcome tells besides whether the job comes back."""
    enqueued = await queue.enqueue(1, "test-job", max_attempts=3)
    outcomes = []
    for attempt in (1, 2, 3):
        job = await claimed("test-job")
        assert (job.id, job.attempts) == (enqueued.id, attempt)
        outcomes.append(await queue.nack(job))
    assert outcomes == [Outcome.RETRY, Outcome.RETRY, Outcome.FAILED]
    assert all(outcomes)
    assert await counts(queue) == (0, 0, 1, 1)


async def test_failed_job_is_counted_as_one(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """B6.5."""
    await queue.enqueue_many([1, 2], "test-job", max_attempts=1)
    await queue.nack(await claimed("test-job"))
    assert await queue.fail(await claimed("test-job"))
    assert await queue.failed() == 2


@pytest.mark.parametrize("way", [WAYS[0], WAYS[2]], indirect=True, ids=str)
async def test_higher_priority_comes_first(queue: AsyncJobQueue) -> None:
    """B6.6: exactly within a partition."""
    for priority in (0, 5, 2):
        await queue.enqueue(priority, "test-job", priority=priority)
    assert await drained(queue, "test-job") == [5, 2, 0]


async def test_delayed_job_is_invisible(queue: AsyncJobQueue) -> None:
    """B6.7."""
    await queue.enqueue("late", "test-job", delay=60)
    await queue.enqueue("now", "test-job", delay=0)
    assert await drained(queue, "test-job") == ["now"]


async def test_stale_job_is_reclaimed(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock
) -> None:
    """B6.8: by its age, once its lease is over; a live lease is never taken."""
    await queue.enqueue(1, "test-job")
    await claimed("test-job", lease=5)
    clock.advance(100)
    assert await queue.reclaim_stale(older_than=10) == Reclaimed(requeued=1, failed=0)
    assert await counts(queue) == (1, 0, 0, 1)


async def test_stats_count_all_states(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """B6.9: pending is told apart by whether it is due."""
    await queue.enqueue_many([1, 2], "test-job")
    await claimed("test-job")
    stats = await queue.stats()
    assert (stats.ready, stats.delayed, stats.processing) == (1, 0, 1)
    assert (stats.done, stats.failed, stats.total) == (0, 0, 2)


async def test_purge_deletes_what_is_done(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """B6.10."""
    await queue.enqueue(1, "test-job")
    await queue.ack(await claimed("test-job"))
    assert await queue.purge() == 1
    assert await queue.total() == 0


@pytest.mark.parametrize("way", [WAYS[0], WAYS[2]], indirect=True, ids=str)
async def test_ten_priorities_come_out_strictly_descending(queue: AsyncJobQueue) -> None:
    """B6.22."""
    for priority in (0, 5, 3, 9, 1, 7, 2, 8, 4, 6):
        await queue.enqueue(priority, "test-job", priority=priority)
    assert await queue.size() == 10
    assert await drained(queue, "test-job") == list(range(9, -1, -1))


async def test_jobs_of_one_priority_come_once_each(queue: AsyncJobQueue) -> None:
    """B6.23."""
    await queue.enqueue_many(range(5), "test-job")
    assert sorted(await drained(queue, "test-job")) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("way", [WAYS[0], WAYS[2]], indirect=True, ids=str)
async def test_jobs_of_one_priority_come_as_they_were_due(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    """B6.23 leaves the order open; ours is first in, first out within a partition."""
    for number in range(5):
        await queue.enqueue(number, "test-job")
        clock.advance(0.001)
    assert await drained(queue, "test-job") == [0, 1, 2, 3, 4]


async def test_delayed_job_appears_when_its_delay_is_over(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    """B6.24, and at that moment: the filter is `<=`."""
    enqueued = await queue.enqueue(1, "test-job", delay=2)
    clock.advance(1.999)
    assert await queue.claim("test-job") is None
    clock.advance(0.001)
    job = await queue.claim("test-job")
    assert job is not None
    assert job.id == enqueued.id


async def test_nack_with_a_delay_keeps_the_job_away_for_it(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock
) -> None:
    """B6.25."""
    enqueued = await queue.enqueue(1, "test-job", max_attempts=5)
    assert await queue.nack(await claimed("test-job"), delay=2) is Outcome.RETRY
    clock.advance(1.999)
    assert await queue.claim("test-job") is None
    clock.advance(0.001)
    job = await claimed("test-job")
    assert (job.id, job.attempts) == (enqueued.id, 2)


async def test_exhausted_job_is_failed_at_once_and_never_claimed_again(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock
) -> None:
    """B6.26 and A12.61: not at the next claim, which a delay would put off."""
    await queue.enqueue(1, "test-job", max_attempts=3)
    for _ in range(3):
        assert await queue.nack(await claimed("test-job"))
    assert await counts(queue) == (0, 0, 1, 1)
    clock.advance(1_000_000)
    assert await queue.claim("test-job") is None


async def test_fail_ends_a_job_whatever_attempts_are_left(
    queue: AsyncJobQueue, claimed: Claimed
) -> None:
    """B6.27."""
    await queue.enqueue(1, "test-job", max_attempts=10)
    assert await queue.fail(await claimed("test-job"), error="why")
    assert await counts(queue) == (0, 0, 1, 1)


async def test_all_stale_jobs_are_reclaimed(queue: AsyncJobQueue, clock: ManualClock) -> None:
    """B6.28."""
    await queue.enqueue_many(range(3), "test-job")
    assert len(await queue.claim_many(3, "test-job", lease=10)) == 3
    clock.advance(200)
    assert await queue.reclaim_stale(older_than=10) == Reclaimed(requeued=3, failed=0)
    assert await counts(queue) == (3, 0, 0, 3)


async def test_stale_job_without_an_attempt_left_fails(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock
) -> None:
    """B6.29."""
    enqueued = await queue.enqueue(1, "test-job", max_attempts=2)
    await queue.nack(await claimed("test-job"))
    await claimed("test-job", worker_id="ghost-worker")
    clock.advance(200)
    assert await queue.reclaim_stale(older_than=10) == Reclaimed(requeued=0, failed=1)
    assert await counts(queue) == (0, 0, 1, 1)
    job = await queue.get(enqueued.id)
    assert job is not None
    assert (job.attempts, job.locked_by) == (2, "ghost-worker")
    assert "no attempt is left" in str(job.last_error)


async def test_urgent_job_overtakes_twenty_others(queue: AsyncJobQueue) -> None:
    """B6.32: in whichever partition it is, one claim of many finds it."""
    await queue.enqueue_many(range(20), "test-job")
    await queue.enqueue("urgent", "test-job", priority=100)
    if queue.partitions == 1:
        assert (await drained(queue, "test-job"))[0] == "urgent"
    else:
        assert "urgent" in {job.payload for job in await queue.claim_many(21, "test-job")}


async def test_stats_and_purge_tell_four_jobs_apart(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """B6.33."""
    await queue.enqueue_many(range(4), "test-job")
    await queue.ack(await claimed("test-job"))
    await queue.fail(await claimed("test-job"))
    stats = await queue.stats()
    assert (stats.ready, stats.processing, stats.done, stats.failed, stats.total) == (2, 0, 1, 1, 4)
    assert await queue.purge() == 2
    assert await queue.total() == 2


async def test_two_queues_on_one_collection_see_the_same_jobs(make_queue: MakeQueue) -> None:
    """B6.34."""
    producer, consumer = make_queue(), make_queue(partitions=None)
    await producer.enqueue("hello", "test-job")
    job = await consumer.claim("test-job")
    assert job is not None
    assert job.payload == "hello"
    assert await consumer.ack(job)
    assert await producer.total() == 1


async def test_two_hundred_jobs_are_drained(queue: AsyncJobQueue) -> None:
    """B6.35: the rate is a matter of the benchmarks."""
    await queue.enqueue_many(range(200), "test-job")
    drained = 0
    while jobs := await queue.claim_many(50, "test-job"):
        drained += await queue.ack_many(jobs)
    assert (drained, await queue.size()) == (200, 0)


async def test_purge_leaves_what_has_not_ended(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """B6.36."""
    await queue.enqueue_many(range(3), "test-job")
    await queue.ack(await claimed("test-job"))
    await queue.fail(await claimed("test-job"))
    assert await queue.total() == 3
    assert await queue.purge() == 2
    assert await counts(queue) == (1, 0, 0, 1)


async def test_clear_deletes_everything(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """B6.37."""
    await queue.enqueue_many(range(2), "test-job")
    await claimed("test-job")
    assert await queue.clear() == 2
    assert await counts(queue) == (0, 0, 0, 0)
