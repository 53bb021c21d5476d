"""What people do to jobs from outside: look, cancel, redrive, purge, force. Fault 37."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlane import AsyncJobQueue, Job
from fairlane.errors import JobLost
from fairlane.testing import ManualClock

MakeQueue = Callable[..., AsyncJobQueue]
Claimed = Callable[..., Awaitable[Job]]
Stored = Callable[..., Awaitable[list[dict[str, Any]]]]

SETTLEMENTS = ["ack", "nack", "fail", "release", "extend"]
FORCES = {"force_ack": "done", "force_fail": "failed", "force_release": "pending"}


async def state(queue: AsyncJobQueue, id: str) -> str:
    job = await queue.get(id)
    assert job is not None
    return job.state


@pytest.mark.parametrize("verb", SETTLEMENTS)
async def test_bare_id_is_a_type_error_that_says_what_to_give(
    queue: AsyncJobQueue, claimed: Claimed, verb: str
) -> None:
    await queue.enqueue(1, "t")
    job = await claimed("t")
    with pytest.raises(TypeError, match=r"the Job that claim returned, not its id.*force_ack"):
        await getattr(queue, verb)(job.id)
    assert await state(queue, job.id) == "processing"


@pytest.mark.parametrize("verb", SETTLEMENTS)
@pytest.mark.parametrize("value", [None, 5, {"id": "x"}, b"x"], ids=repr)
async def test_what_is_no_job_is_a_type_error(queue: AsyncJobQueue, verb: str, value: Any) -> None:
    with pytest.raises(TypeError, match="the Job that claim returned"):
        await getattr(queue, verb)(value)


@pytest.mark.parametrize("verb", SETTLEMENTS)
async def test_job_that_was_only_looked_at_is_a_type_error(
    queue: AsyncJobQueue, claimed: Claimed, verb: str
) -> None:
    await queue.enqueue(1, "t")
    job = await queue.get((await claimed("t")).id)
    assert job is not None
    with pytest.raises(TypeError, match=f"{job.id} was only looked at"):
        await getattr(queue, verb)(job)


@pytest.mark.parametrize("verb", FORCES)
async def test_forced_job_is_logged_and_its_holder_loses_it(
    queue: AsyncJobQueue, claimed: Claimed, caplog: Any, verb: str
) -> None:
    await queue.enqueue(1, "t")
    job = await claimed("t")
    with caplog.at_level(logging.WARNING, logger="fairlane.jobs"):
        assert await getattr(queue, verb)(job.id)
    assert f"job {job.id} was forced to be {FORCES[verb]}" in caplog.text
    assert await state(queue, job.id) == FORCES[verb]
    assert not await queue.ack(job)
    with pytest.raises(JobLost):
        await queue.extend(job)
    assert await state(queue, job.id) == FORCES[verb]


@pytest.mark.parametrize("verb", FORCES)
@pytest.mark.parametrize("end", ["ack", "fail"])
async def test_force_reopens_nothing(
    queue: AsyncJobQueue, claimed: Claimed, caplog: Any, verb: str, end: str
) -> None:
    await queue.enqueue(1, "t")
    job = await claimed("t")
    await getattr(queue, end)(job)
    before = await state(queue, job.id)
    assert not await getattr(queue, verb)(job.id)
    assert not await getattr(queue, verb)("unknown")
    assert await state(queue, job.id) == before
    assert caplog.text == ""


async def test_forced_release_makes_a_job_claimable_at_once(
    queue: AsyncJobQueue, claimed: Claimed
) -> None:
    enqueued = await queue.enqueue(1, "t", delay=500)
    assert await queue.claim("t") is None
    for _ in range(2):
        await queue.force_release(enqueued.id)
        job = await claimed("t")
    assert job.attempts == 2


@pytest.mark.parametrize("verb", ["force_ack", "force_fail"])
async def test_forced_end_gives_the_unique_key_free(
    queue: AsyncJobQueue, claimed: Claimed, verb: str
) -> None:
    await queue.enqueue(1, "t", unique_key="k")
    await getattr(queue, verb)((await claimed("t")).id)
    assert (await queue.enqueue(2, "t", unique_key="k")).created


async def test_redrive_of_a_job_that_was_forced_to_fail_brings_its_unique_key_back(
    queue: AsyncJobQueue,
) -> None:
    forced = await queue.enqueue(1, "t", unique_key="k")
    await queue.force_fail(forced.id)
    assert await queue.redrive() == 1
    again = await queue.enqueue(2, "t", unique_key="k")
    assert (again.id, again.created) == (forced.id, False)


async def test_cancel_deletes_a_job_that_waits(queue: AsyncJobQueue, claimed: Claimed) -> None:
    waiting = await queue.enqueue(1, "t")
    assert await queue.cancel(waiting.id)
    assert not await queue.cancel(waiting.id)
    assert await queue.get(waiting.id) is None
    assert await queue.claim("t") is None


async def test_cancel_deletes_a_job_that_waits_for_its_retry(
    queue: AsyncJobQueue, claimed: Claimed
) -> None:
    await queue.enqueue(1, "t", unique_key="k")
    job = await claimed("t")
    await queue.nack(job, delay=60)
    assert await queue.cancel(job.id)
    assert (await queue.enqueue(2, "t", unique_key="k")).created


async def test_cancel_leaves_a_job_at_work_alone(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock
) -> None:
    await queue.enqueue(1, "t")
    job = await claimed("t")
    assert not await queue.cancel(job.id)
    assert await queue.ack(job)
    assert not await queue.cancel(job.id)


@pytest.mark.parametrize("is_reclaimed", [False, True])
async def test_cancel_deletes_a_job_whose_lease_is_over(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock, is_reclaimed: bool
) -> None:
    await queue.enqueue(1, "t")
    job = await claimed("t")
    clock.advance(1_000)
    if is_reclaimed:
        await queue.reclaim_stale()
    assert await queue.cancel(job.id)
    assert not await queue.ack(job)


async def test_late_worker_may_settle_what_was_put_back_and_nobody_claimed(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock
) -> None:
    await queue.enqueue(1, "t")
    job = await claimed("t")
    clock.advance(1_000)
    await queue.reclaim_stale()
    assert await queue.ack(job)
    assert (await queue.stats()).done == 1


async def test_redrive_takes_failed_jobs_only(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """Fault 37."""
    enqueued = await queue.enqueue_many(["done", "failed", "running", "waiting"], "t")
    await queue.ack(await claimed("t"))
    await queue.fail(await claimed("t"))
    await claimed("t")
    assert sum([await queue.redrive(id) for id in enqueued.ids]) == 1
    stats = await queue.stats()
    assert (stats.done, stats.failed, stats.processing, stats.ready) == (1, 0, 1, 2)


async def test_redrives_at_the_same_time_count_each_job_once(
    queue: AsyncJobQueue, claimed: Claimed
) -> None:
    """Fault 37: twice at once."""
    await queue.enqueue_many(range(6), "t")
    for _ in range(6):
        await queue.fail(await claimed("t"))
    assert sum(await asyncio.gather(*(queue.redrive() for _ in range(4)))) == 6
    assert await queue.size() == 6


async def test_redriven_job_is_as_new(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock, stored: Stored
) -> None:
    """It is due at once, never expires, and may be settled."""
    await queue.enqueue(1, "t", max_attempts=1)
    await queue.nack(await claimed("t"), error="why")
    clock.advance(50)
    await queue.redrive()
    (document,) = await stored()
    assert {"done_at", "expires_at", "settled_key"}.isdisjoint(document)
    assert document["available_at"] == clock()
    assert await queue.ack(await claimed("t"))


async def test_get_of_an_unknown_id_is_none(queue: AsyncJobQueue) -> None:
    assert await queue.get("unknown") is None


async def test_drop_leaves_nothing_and_the_queue_usable(
    queue: AsyncJobQueue, database: Any, claimed: Claimed
) -> None:
    await queue.enqueue(1, "t")
    await queue.drop()
    assert "fairlane_jobs" not in await database.list_collection_names()
    await queue.enqueue(2, "t")
    assert (await claimed("t")).payload == 2
    assert len(await database["fairlane_jobs"].index_information()) > 4
