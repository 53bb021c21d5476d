"""Many jobs at once, each for itself: A12.33 to A12.39, A12.79 to A12.88, and untested upstream."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, DuplicateKeyError

from fairlane import AsyncJobQueue, ConfigurationError, Duplicate, Job, PayloadError
from fairlane.jobs import EnqueuedMany, NewJob
from fairlane.schema import partition_of
from fairlane.testing import ManualClock

MakeQueue = Callable[..., AsyncJobQueue]
Stored = Callable[..., Awaitable[list[dict[str, Any]]]]


@pytest.fixture(params=[1, 4])
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"partitions": request.param}


async def test_jobs_are_stored_and_told_in_order(queue: AsyncJobQueue, stored: Stored) -> None:
    """A12.33, A12.35 and A12.83: with the type, and in the partition of their id."""
    enqueued = await queue.enqueue_many(["a", "b", "c"], "t")
    assert (enqueued.created, enqueued.skipped, enqueued.replaced, enqueued.errors) == (3, 0, 0, ())
    jobs = [await queue.get(str(id)) for id in enqueued.ids]
    assert [job.payload for job in jobs if job] == ["a", "b", "c"]
    for document in await stored():
        assert (document["kind"], document["type"], document["state"]) == ("event", "t", "pending")
        assert document["partition"] == partition_of(document["_id"], queue.partitions)


@pytest.mark.parametrize("items", [[], (), iter([])], ids=["list", "tuple", "iterator"])
async def test_nothing_gives_zeros(queue: AsyncJobQueue, stored: Stored, items: Any) -> None:
    """A12.34 and A12.87."""
    nothing = EnqueuedMany(ids=(), created=0, skipped=0, replaced=0, errors=())
    assert await queue.enqueue_many(items, "t") == nothing
    assert await stored() == []


async def test_priorities_are_stored_as_given(queue: AsyncJobQueue, stored: Stored) -> None:
    """A12.39, and 0 as 0, which another system makes 100."""
    priorities = [300, 200, 100, 0, -5, 2**31 - 1, -(2**31)]
    items = [NewJob(priority, priority=priority) for priority in priorities]
    await queue.enqueue_many(items, "t", priority=7)
    assert all(job["priority"] == job["payload"] for job in await stored())
    assert (await queue.enqueue(0, "u", priority=0)).created
    assert [job["priority"] for job in await stored(type="u")] == [0]


async def test_urgency_goes_from_positive_to_negative(make_queue: MakeQueue) -> None:
    queue = make_queue(partitions=1, prefix="one")
    priorities = [0, -5, 2**31 - 1, 300, -(2**31)]
    await queue.enqueue_many([NewJob(each, priority=each) for each in priorities], "t")
    jobs = [await queue.claim("t") for _ in priorities]
    assert [job.payload for job in jobs if job] == sorted(priorities, reverse=True)


async def test_times_are_stored_as_told(
    queue: AsyncJobQueue, stored: Stored, clock: ManualClock
) -> None:
    """A12.79 to A12.81, A12.85 and A12.88: a delay, a moment, or none, which is now."""
    at = datetime(2040, 1, 1, tzinfo=UTC)
    items = [
        NewJob("delay", delay=5, priority=100),
        NewJob("timedelta", delay=timedelta(minutes=1)),
        NewJob("moment", run_at=at, priority=150),
        NewJob("zone", run_at=at.astimezone()),
        "now",
    ]
    await queue.enqueue_many(items, "t", priority=200)
    found = {job["payload"]: (job["available_at"], job["priority"]) for job in await stored()}
    assert found == {
        "delay": (clock() + 5, 100),
        "timedelta": (clock() + 60, 200),
        "moment": (at.timestamp(), 150),
        "zone": (at.timestamp(), 200),
        "now": (clock(), 200),
    }


async def test_items_have_options_of_their_own(queue: AsyncJobQueue, stored: Stored) -> None:
    """A time of an item goes before that of all, whichever of the two kinds it is."""
    at = datetime(2040, 1, 1, tzinfo=UTC)
    items = [NewJob(1, "own", max_attempts=9, delay=1), NewJob(2, unique_key="k"), 3]
    await queue.enqueue_many(items, "t", max_attempts=4, run_at=at)
    jobs = sorted(await stored(), key=lambda job: int(job["payload"]))
    assert [job["type"] for job in jobs] == ["own", "t", "t"]
    assert [job["max_attempts"] for job in jobs] == [9, 4, 4]
    assert [job.get("unique_key") for job in jobs] == [None, "k", None]
    assert [job["available_at"] == at.timestamp() for job in jobs] == [False, True, True]


BAD = {
    "time": (NewJob(2, run_at=datetime(2030, 1, 1)), ConfigurationError, "run_at"),  # noqa: DTZ001
    "delay": (NewJob(2, delay=-1), ConfigurationError, "delay"),
    "priority": (NewJob(2, priority=1.5), ConfigurationError, "priority"),  # type: ignore[arg-type]
    "attempts": (NewJob(2, max_attempts=0), ConfigurationError, "max_attempts"),
    "type": (NewJob(2, type=""), ConfigurationError, "type"),
    "payload": ({"a": [object()]}, PayloadError, r"payload\.a\[0\]"),
}


@pytest.mark.parametrize(("item", "kind", "named"), BAD.values(), ids=BAD)
async def test_bad_item_is_told_by_its_index_and_the_others_are_stored(
    queue: AsyncJobQueue, stored: Stored, item: Any, kind: type[Exception], named: str
) -> None:
    """A12.38 and A12.84: of three, the one in the middle."""
    enqueued = await queue.enqueue_many([1, item, 3], "t")
    assert (enqueued.created, enqueued.skipped) == (2, 0)
    ((index, error),) = enqueued.errors
    assert index == 1
    with pytest.raises(kind, match=named):
        raise error
    assert [id is None for id in enqueued.ids] == [False, True, False]
    assert sorted(job["payload"] for job in await stored()) == [1, 3]


async def test_duplicates_in_a_bulk_are_told_apart(queue: AsyncJobQueue) -> None:
    """A12.36: with the stored job, and with one of the same bulk."""
    first = await queue.enqueue("old", "t", unique_key="k")
    items = [NewJob(1, unique_key="k"), 2, NewJob(3, unique_key="n"), NewJob(4, unique_key="n")]
    enqueued = await queue.enqueue_many(items, "t")
    assert (enqueued.created, enqueued.skipped, enqueued.errors) == (2, 2, ())
    assert enqueued.ids[0] == first.id
    assert enqueued.ids[2] == enqueued.ids[3]


async def test_bulk_that_replaces_tells_how_many(queue: AsyncJobQueue) -> None:
    await queue.enqueue("old", "t", unique_key="k")
    await queue.enqueue("held", "u", unique_key="k")
    await queue.claim("u")
    items = [NewJob(1, unique_key="k"), NewJob(2, "u", unique_key="k"), 3]
    enqueued = await queue.enqueue_many(items, "t", on_duplicate="replace")
    assert (enqueued.created, enqueued.replaced, enqueued.skipped) == (1, 1, 1)


async def test_bulk_that_refuses_duplicates_tells_them_by_index(queue: AsyncJobQueue) -> None:
    await queue.enqueue("old", "t", unique_key="k")
    enqueued = await queue.enqueue_many([1, NewJob(2, unique_key="k")], "t", on_duplicate="raise")
    ((index, error),) = enqueued.errors
    assert (index, type(error), enqueued.created) == (1, Duplicate, 1)


async def test_error_about_one_duplicate_does_not_hide_what_became_of_the_others(
    queue: AsyncJobQueue,
) -> None:
    """The connection ends before it is known in whose way the second one is."""
    await queue.enqueue("old", "t", unique_key="k")

    async def cut(_: Any) -> Any:
        raise AutoReconnect("connection closed")

    queue._enqueuer._taken = cut  # type: ignore[method-assign, assignment]
    enqueued = await queue.enqueue_many([1, NewJob(2, unique_key="k"), 3], "t")
    ((index, error),) = enqueued.errors
    assert (index, type(error), enqueued.created) == (1, AutoReconnect, 2)


@pytest.mark.parametrize("unique_key", [None, "k"])
async def test_insert_that_the_driver_repeats_makes_one_job(
    queue: AsyncJobQueue, unique_key: str | None
) -> None:
    """Its reply was lost, and a server without retryable writes is told again."""
    insert_each = queue._store.jobs.insert_each

    async def twice(documents: Any) -> Any:
        await insert_each(documents)
        return await insert_each(documents)

    queue._store.jobs.insert_each = twice  # type: ignore[method-assign]
    enqueued = await queue.enqueue(1, "t", unique_key=unique_key)
    assert enqueued.created
    assert [job.id for job in await queue.claim_many(5, "t")] == [enqueued.id]


async def test_insert_that_is_repeated_after_its_job_was_done_makes_no_other(
    make_queue: MakeQueue,
) -> None:
    """It is gone, and its key is free; but it was created, and done."""
    queue = make_queue(keep_done=0)
    insert_each = queue._store.jobs.insert_each

    async def done_meanwhile(documents: Any) -> Any:
        await insert_each(documents)
        job = await queue.claim("t")
        assert job is not None
        await queue.ack(job)
        return {0: DuplicateKeyError("E11000", 11000)}

    queue._store.jobs.insert_each = done_meanwhile  # type: ignore[method-assign]
    assert (await queue.enqueue(1, "t")).created
    assert await queue.total() == 0


async def test_bulk_that_the_driver_repeats_makes_each_job_once(queue: AsyncJobQueue) -> None:
    insert_each = queue._store.jobs.insert_each

    async def twice(documents: Any) -> Any:
        await insert_each(documents)
        return await insert_each(documents)

    queue._store.jobs.insert_each = twice  # type: ignore[method-assign]
    enqueued = await queue.enqueue_many([1, NewJob(2, unique_key="k"), 3], "t")
    assert (enqueued.created, enqueued.skipped, enqueued.errors) == (3, 0, ())
    assert await queue.total() == 3


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 500])
async def test_claim_many_takes_as_many_as_there_are_and_it_may(
    queue: AsyncJobQueue, n: int
) -> None:
    await queue.enqueue_many(range(8), "t")
    jobs = await queue.claim_many(n, "t", worker_id="w", lease=50)
    assert len({job.id for job in jobs}) == len(jobs) == min(n, 8)
    assert len({job.token for job in jobs}) == len(jobs)
    assert {job.locked_by for job in jobs} == {"w"}


async def test_claim_many_takes_the_most_urgent(make_queue: MakeQueue) -> None:
    queue = make_queue(partitions=1, prefix="one")
    await queue.enqueue_many([NewJob(n, priority=n % 5) for n in range(20)], "t")
    jobs = await queue.claim_many(8, "t")
    assert [job.priority for job in jobs] == [4, 4, 4, 4, 3, 3, 3, 3]


@pytest.mark.parametrize("is_recent", [True, False], ids=["recent", "old"])
@pytest.mark.parametrize("keep_done", [0, None])
async def test_ack_many_counts_those_that_were_held(
    make_queue: MakeQueue, clock: ManualClock, keep_done: Any, *, is_recent: bool
) -> None:
    """A lost one changes nothing, whoever has it by now, and one given twice counts once."""
    queue = make_queue(keep_done=keep_done)
    await queue.enqueue_many(range(6), "t")
    queue._store.driver.has_cross_collection_bulk &= is_recent
    jobs = await queue.claim_many(6, "t")
    clock.advance(30)
    (lost,) = await queue.claim_many(1, "t")
    assert await queue.ack_many([*jobs, jobs[0], jobs[1]]) == 5
    stats = await queue.stats()
    assert (stats.done, stats.processing) == (0 if keep_done == 0 else 5, 1)
    assert await queue.ack(lost)


async def test_ack_many_of_nothing_is_zero(queue: AsyncJobQueue) -> None:
    assert await queue.ack_many([]) == 0


async def test_ack_many_settles_none_if_one_is_no_job(queue: AsyncJobQueue) -> None:
    await queue.enqueue(1, "t")
    (job,) = await queue.claim_many(5, "t")
    for bad in ([job, job.id], job.id, job, None):
        with pytest.raises(TypeError, match="job"):
            await queue.ack_many(bad)  # type: ignore[arg-type]
    assert await queue.ack(job)


async def test_batches_at_the_same_time_share_the_jobs_out(queue: AsyncJobQueue) -> None:
    await queue.enqueue_many(range(40), "t")
    batches = await asyncio.gather(*(queue.claim_many(9, "t") for _ in range(6)))
    jobs: list[Job] = [job for batch in batches for job in batch]
    assert len({job.id for job in jobs}) == len(jobs)
    rest = await queue.claim_many(40, "t")
    assert len(jobs) + len(rest) == 40
