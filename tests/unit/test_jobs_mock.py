"""The job queue on mongomock-motor, for those who use it in unit tests of their own.

It cannot judge a race (its calls never yield), so there is none here.
"""

from datetime import UTC, datetime
from typing import Any

import pytest
from mongomock_motor import AsyncMongoMockClient

from fairlane import AsyncJobQueue, ConfigurationError, Duplicate, Job, Outcome
from fairlane.jobs import NewJob, Reclaimed
from fairlane.testing import ManualClock

# mongomock still calls datetime.utcnow().
pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utc:DeprecationWarning")


@pytest.fixture
def queue(clock: ManualClock) -> AsyncJobQueue:
    return AsyncJobQueue(AsyncMongoMockClient(), clock=clock, partitions=3, keep_failed=None)


async def claimed(queue: AsyncJobQueue, *types: str) -> Job:
    job = await queue.claim(*types)
    assert job is not None
    return job


async def test_enqueue_claim_ack(queue: AsyncJobQueue) -> None:
    payload = {"a": [1, "x", None], "at": datetime(2030, 1, 1, tzinfo=UTC)}
    enqueued = await queue.enqueue(payload, "t", priority=2)
    job = await claimed(queue, "t")
    assert (job.id, job.payload, job.priority, job.attempts) == (enqueued.id, payload, 2, 1)
    assert await queue.claim("t") is None
    assert await queue.ack(job, {"rows": [1]})
    assert not await queue.ack(job)
    done = await queue.get(job.id)
    assert done is not None
    assert (done.state, done.result) == ("done", {"rows": [1]})


async def test_attempts_end(queue: AsyncJobQueue, clock: ManualClock) -> None:
    await queue.enqueue(1, "t", max_attempts=2)
    assert await queue.nack(await claimed(queue), delay=5, error="why") is Outcome.RETRY
    assert await queue.claim() is None
    clock.advance(5)
    await queue.release(await claimed(queue))
    job = await queue.extend(await claimed(queue), 60)
    clock.advance(59)
    assert await queue.claim() is None
    assert await queue.nack(job) is Outcome.FAILED
    assert await queue.redrive() == 1
    assert await queue.fail(await claimed(queue))


async def test_unique_keys(queue: AsyncJobQueue) -> None:
    first = await queue.enqueue(1, "t", unique_key="k")
    assert (await queue.enqueue(2, "t", unique_key="k")).id == first.id
    assert (await queue.enqueue({"n": 3}, "t", unique_key="k", on_duplicate="replace")).replaced
    with pytest.raises(Duplicate):
        await queue.enqueue(4, "t", unique_key="k", on_duplicate="raise")
    job = await claimed(queue, "t")
    assert job.payload == {"n": 3}
    await queue.ack(job)
    assert (await queue.enqueue(5, "t", unique_key="k")).created


async def test_many(queue: AsyncJobQueue) -> None:
    items = [NewJob(n, priority=n, unique_key=f"k{n % 4}") for n in range(6)]
    enqueued = await queue.enqueue_many([*items, NewJob(9, delay=-1)], "t")
    assert (enqueued.created, enqueued.skipped, len(enqueued.errors)) == (4, 2, 1)
    jobs = await queue.claim_many(10, "t")
    assert len(jobs) == 4
    assert await queue.ack_many(jobs[:3]) == 3
    stats = await queue.stats()
    assert (stats.done, stats.processing, stats.total) == (3, 1, 4)
    assert stats.by_type["t"].done == 3
    assert (await queue.purge(), await queue.clear()) == (3, 1)


async def test_upkeep(queue: AsyncJobQueue, clock: ManualClock) -> None:
    await queue.enqueue_many([1, 2, 3], "t", max_attempts=1)
    await queue.claim_many(2)
    clock.advance(60)
    assert await queue.reclaim_stale() == Reclaimed(requeued=0, failed=2)
    assert (await queue.size(), await queue.failed()) == (1, 2)
    await queue._store.jobs.update_one({"state": "pending"}, {"$set": {"partition": 9}})
    assert await queue.claim() is None
    assert await queue.reconcile() == 1
    job = await claimed(queue)
    assert await queue.force_release(job.id)
    assert await queue.cancel(job.id)
    await queue.drop()


async def test_exhausted_job_is_passed_over(queue: AsyncJobQueue, clock: ManualClock) -> None:
    await queue.enqueue("poison", "t", max_attempts=1)
    await queue.claim()
    clock.advance(60)
    await queue.enqueue("good", "t")
    assert (await claimed(queue)).payload == "good"
    assert await queue.claim() is None
    assert await queue.failed() == 1


async def test_document_without_a_state_is_claimed(queue: AsyncJobQueue) -> None:
    """A12.63: the state is for people, and for what has ended."""
    await queue.enqueue(1, "t")
    await queue._store.jobs.update_one({}, {"$unset": {"state": ""}})
    assert (await claimed(queue, "t")).state == "processing"


async def test_index_is_measured_for_the_types_that_are_claimed_and_not_without_any(
    queue: AsyncJobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A12.13, and A12.10: for all of them."""
    measured: list[Any] = []
    store = queue._store

    async def measure(partitions: int) -> bool:
        measured.append(store._asked_for(0)["type"]["$in"])
        return False

    monkeypatch.setattr(store._hints, "measure", measure)
    await queue.claim()
    await queue.reconcile()
    assert measured == []
    await queue.claim("a", "b")
    await queue.reconcile()
    assert measured == [["a", "b"]]


async def test_nothing_is_kept_that_is_not_to_be(clock: ManualClock) -> None:
    client: Any = AsyncMongoMockClient()
    queue = AsyncJobQueue(client, clock=clock, keep_done=0, keep_failed=0)
    await queue.enqueue_many(range(5), "t")
    await queue.ack(await claimed(queue))
    await queue.fail(await claimed(queue))
    await queue.ack_many(await queue.claim_many(5))
    assert await queue.total() == 0


@pytest.mark.parametrize("on_duplicate", ["replace", "raise"])
async def test_duplicates_of_a_job_without_a_key_cannot_be_met(
    queue: AsyncJobQueue, on_duplicate: Any
) -> None:
    """They would all be stored, whatever was hoped for."""
    with pytest.raises(ConfigurationError, match=f"'{on_duplicate}' needs a unique_key"):
        await queue.enqueue(1, "t", on_duplicate=on_duplicate)
    assert await queue.total() == 0


@pytest.mark.parametrize("items", [[{}], [1, NewJob(2)]], ids=["payload", "several"])
async def test_many_of_which_nobody_names_a_type_are_refused_together(
    queue: AsyncJobQueue, items: list[Any]
) -> None:
    with pytest.raises(ConfigurationError, match="no item names a type"):
        await queue.enqueue_many(items)
    assert await queue.total() == 0


async def test_item_without_a_type_beside_one_that_has_one_is_told_by_its_index(
    queue: AsyncJobQueue,
) -> None:
    told = await queue.enqueue_many([1, NewJob(2, "t")])
    assert (told.created, [index for index, _ in told.errors]) == (1, [0])


@pytest.mark.parametrize(
    ("given", "said"), [(30, "lease="), (["t"], r"claim\(\*types\)")], ids=["seconds", "list"]
)
async def test_claim_says_what_is_no_type(queue: AsyncJobQueue, given: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        await queue.claim("t", given)
