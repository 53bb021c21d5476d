"""One job at a time with a key, of a type, that has not ended. Fault 13; A12.36, A12.37, A12.44."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from contract.batches import after, once
from fairlane import AsyncJobQueue, Duplicate, Job, Outcome
from fairlane.jobs import Enqueued, NewJob
from fairlane.testing import ManualClock

MakeQueue = Callable[..., AsyncJobQueue]
Claimed = Callable[..., Awaitable[Job]]
Stored = Callable[..., Awaitable[list[dict[str, Any]]]]


async def done(queue: AsyncJobQueue, job: Job) -> None:
    assert await queue.ack(job)


async def failed(queue: AsyncJobQueue, job: Job) -> None:
    assert await queue.fail(job)


async def exhausted(queue: AsyncJobQueue, job: Job) -> None:
    while await queue.nack(job) is Outcome.RETRY:
        again = await queue.claim()
        assert again is not None
        job = again


async def cancelled(queue: AsyncJobQueue, job: Job) -> None:
    await queue.release(job)
    assert await queue.cancel(job.id)


ENDS = (done, failed, exhausted, cancelled)


@pytest.mark.parametrize("keep", [0, 60, None])
@pytest.mark.parametrize("end", ENDS)
async def test_key_is_free_when_its_job_has_ended(
    make_queue: MakeQueue, end: Callable[..., Awaitable[None]], keep: Any
) -> None:
    """Also of a failed job that is kept for a week."""
    queue = make_queue(keep_done=keep, keep_failed=keep)
    first = await queue.enqueue(1, "t", unique_key="k")
    job = await queue.claim("t")
    assert job is not None
    assert not (await queue.enqueue(2, "t", unique_key="k")).created
    await end(queue, job)
    second = await queue.enqueue(2, "t", unique_key="k")
    assert second.created
    assert second.id != first.id


async def test_key_is_of_its_type(queue: AsyncJobQueue) -> None:
    assert (await queue.enqueue(1, "a", unique_key="k")).created
    assert (await queue.enqueue(1, "b", unique_key="k")).created
    assert not (await queue.enqueue(1, "a", unique_key="k")).created


async def test_jobs_without_a_key_are_never_duplicates(queue: AsyncJobQueue) -> None:
    assert all([(await queue.enqueue(1, "t")).created for _ in range(3)])


async def test_skip_leaves_the_job_as_it_is_and_names_it(
    queue: AsyncJobQueue, stored: Stored
) -> None:
    """A12.36: payload, time, priority and partition unchanged."""
    first = await queue.enqueue("old", "t", priority=40, delay=60, unique_key="k")
    before = await stored()
    second = await queue.enqueue("new", "t", priority=1, unique_key="k")
    assert second == Enqueued(id=first.id, created=False, replaced=False)
    assert await stored() == before


async def test_raise_names_the_job_that_has_the_key(queue: AsyncJobQueue, stored: Stored) -> None:
    first = await queue.enqueue("old", "t", unique_key="k")
    before = await stored()
    with pytest.raises(Duplicate, match=f"type 't' with unique_key='k'.*{first.id}"):
        await queue.enqueue("new", "t", unique_key="k", on_duplicate="raise")
    assert await stored() == before


async def test_replace_gives_a_waiting_job_all_that_is_new(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock
) -> None:
    first = await queue.enqueue("old", "t", priority=1, delay=600, unique_key="k")
    options: Any = {"unique_key": "k", "on_duplicate": "replace"}
    second = await queue.enqueue("new", "t", priority=7, delay=10, max_attempts=9, **options)
    assert second == Enqueued(id=first.id, created=False, replaced=True)
    clock.advance(10)
    job = await claimed("t")
    assert (job.payload, job.priority, job.max_attempts, job.attempts) == ("new", 7, 9, 1)
    assert await queue.total() == 1


async def test_replace_of_a_job_that_waits_for_a_retry_gives_all_attempts_again(
    queue: AsyncJobQueue, claimed: Claimed
) -> None:
    await queue.enqueue("old", "t", unique_key="k")
    await queue.nack(await claimed("t"), delay=600)
    assert (await queue.enqueue("new", "t", unique_key="k", on_duplicate="replace")).replaced
    assert (await claimed("t")).attempts == 1


async def test_replace_of_a_job_under_a_lease_changes_nothing(
    queue: AsyncJobQueue, claimed: Claimed, stored: Stored
) -> None:
    await queue.enqueue("old", "t", unique_key="k")
    job = await claimed("t")
    before = await stored()
    again = await queue.enqueue("new", "t", unique_key="k", on_duplicate="replace")
    assert again == Enqueued(id=job.id, created=False, replaced=False)
    assert await stored() == before
    assert await queue.ack(job)


async def test_replace_that_a_claim_overtakes_changes_nothing(
    queue: AsyncJobQueue, claimed: Claimed
) -> None:
    """The claim comes between the look at the job and its replacement."""
    await queue.enqueue("old", "t", unique_key="k")
    taken: list[Job] = []

    async def take(_: object) -> None:
        taken.append(await claimed("t"))

    after(queue._enqueuer, "_taken", once(take))
    again = await queue.enqueue("new", "t", unique_key="k", on_duplicate="replace")
    assert (again.created, again.replaced) == (False, False)
    assert await queue.ack(taken[0])
    assert (await queue.stats()).done == 1


async def test_key_that_comes_free_during_an_enqueue_is_taken(
    queue: AsyncJobQueue, claimed: Claimed
) -> None:
    """Its job ends between the refused insert and the look at it."""
    first = await queue.enqueue("old", "t", unique_key="k")
    job = await claimed("t")
    taken = queue._enqueuer._taken

    async def late(refused: Any) -> Any:
        await queue.ack(job)
        return await taken(refused)

    queue._enqueuer._taken = late  # type: ignore[method-assign]
    second = await queue.enqueue("new", "t", unique_key="k")
    assert second.created
    assert second.id != first.id


@pytest.mark.parametrize("on_duplicate", ["skip", "replace"])
async def test_enqueuers_at_the_same_time_create_one(
    make_queue: MakeQueue, claimed: Claimed, on_duplicate: Any
) -> None:
    """A12.44: and it runs once."""
    queues = [make_queue() for _ in range(4)]
    results = await asyncio.gather(
        *(
            queue.enqueue(number, "t", unique_key="k", on_duplicate=on_duplicate)
            for number, queue in enumerate(queues * 4)
        )
    )
    assert sum(result.created for result in results) == 1
    assert len({result.id for result in results}) == 1
    await queues[0].ack(await claimed("t"))
    assert await queues[0].claim("t") is None


async def test_four_callers_with_the_same_250_keys_create_250_jobs(
    make_queue: MakeQueue, stored: Stored
) -> None:
    """A12.37, and A12.104 in small: 250 created, 750 skipped, none an error."""
    queues = [make_queue(partitions=30) for _ in range(4)]
    items = [NewJob(number, unique_key=f"k{number}") for number in range(250)]
    results = await asyncio.gather(*(queue.enqueue_many(items, "t") for queue in queues))
    assert sum(result.created for result in results) == 250
    assert sum(result.skipped for result in results) == 750
    assert all(result.errors == () for result in results)
    assert len({result.ids for result in results}) == 1
    documents = await stored()
    assert len({document["unique_key"] for document in documents}) == len(documents) == 250
    assert {document["partition"] for document in documents} <= set(range(30))


async def test_retry_never_collides_with_a_sibling(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """Fault 13: the key is held from the enqueue to the end, so there is no sibling."""
    first = await queue.enqueue(1, "t", unique_key="k")
    job = await claimed("t")
    sibling = await queue.enqueue(2, "t", unique_key="k")
    assert (sibling.id, sibling.created) == (first.id, False)
    assert await queue.nack(job) is Outcome.RETRY
    again = await claimed("t")
    assert (again.id, again.attempts) == (first.id, 2)
    await queue.release(again)
    assert await queue.ack(await claimed("t"))
    assert await queue.claim("t") is None


async def test_redriven_job_has_its_key_again(queue: AsyncJobQueue, claimed: Claimed) -> None:
    failed = await queue.enqueue(1, "t", unique_key="k")
    await queue.fail(await claimed("t"))
    assert await queue.redrive(failed.id) == 1
    again = await queue.enqueue(2, "t", unique_key="k")
    assert (again.id, again.created) == (failed.id, False)


async def test_redrive_of_a_job_whose_key_is_taken_leaves_it_failed(
    queue: AsyncJobQueue, claimed: Claimed, caplog: Any
) -> None:
    """Fault 13: and it says so, and goes on with others."""
    old = await queue.enqueue(1, "t", unique_key="k")
    await queue.enqueue(2, "t")
    for _ in range(2):
        await queue.fail(await claimed("t"))
    await queue.enqueue(3, "t", unique_key="k")
    assert await queue.redrive() == 1
    assert f"job {old.id} stays failed" in caplog.text
    stats = await queue.stats()
    assert (stats.failed, stats.ready) == (1, 2)
    await queue.ack_many(await queue.claim_many(5, "t"))
    assert await queue.redrive() == 1


@pytest.mark.parametrize("reclaims", [False, True], ids=["claimed", "reclaimed"])
async def test_key_is_kept_while_a_dead_worker_holds_the_job(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock, *, reclaims: bool
) -> None:
    first = await queue.enqueue(1, "t", unique_key="k")
    await claimed("t")
    clock.advance(60)
    if reclaims:
        await queue.reclaim_stale()
    again = await queue.enqueue(2, "t", unique_key="k")
    assert (again.id, again.created) == (first.id, False)


async def test_more_taken_keys_than_one_command_can_hold_are_told_apart(
    queue: AsyncJobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlane.jobs._enqueue.AT_ONCE", 3)
    jobs = [NewJob(number, "t", unique_key=f"k{number}") for number in range(8)]
    await queue.enqueue_many(jobs[:7])
    done = await queue.enqueue_many(jobs)
    assert (done.created, done.skipped, done.errors) == (1, 7, ())
