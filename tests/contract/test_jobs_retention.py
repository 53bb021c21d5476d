"""How long ended jobs are kept; the server never deletes one that lives. A12.64 to A12.66."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlane import AsyncJobQueue, Job
from fairlane.testing import ManualClock

MakeQueue = Callable[..., AsyncJobQueue]
Stored = Callable[..., Awaitable[list[dict[str, Any]]]]

WEEK = timedelta(days=7)
Settle = Callable[[AsyncJobQueue, list[Job]], Awaitable[object]]


@pytest.fixture
def clock() -> ManualClock:
    """A clock that is ahead: the server deletes by its own, while the tests look."""
    return ManualClock(4_000_000_000.0)


async def ack_each(queue: AsyncJobQueue, jobs: list[Job]) -> None:
    assert all([await queue.ack(job) for job in jobs])


async def ack_many(queue: AsyncJobQueue, jobs: list[Job]) -> None:
    assert await queue.ack_many(jobs) == len(jobs)


async def fail_each(queue: AsyncJobQueue, jobs: list[Job]) -> None:
    assert all([await queue.fail(job) for job in jobs])


async def nack_each(queue: AsyncJobQueue, jobs: list[Job]) -> None:
    assert all([await queue.nack(job) for job in jobs])


def expires_at(document: dict[str, Any]) -> float:
    expiry: datetime = document["expires_at"]
    return expiry.replace(tzinfo=UTC).timestamp()


ENDS: dict[str, tuple[str, Settle]] = {
    "ack": ("keep_done", ack_each),
    "ack_many": ("keep_done", ack_many),
    "fail": ("keep_failed", fail_each),
    "the last nack": ("keep_failed", nack_each),
}
every_end = pytest.mark.parametrize(("option", "end"), ENDS.values(), ids=ENDS)


async def ended(queue: AsyncJobQueue, end: Settle) -> None:
    await queue.enqueue_many(range(3), "t", max_attempts=1)
    await end(queue, await queue.claim_many(3, "t"))


@every_end
async def test_ended_job_is_deleted_at_once(
    make_queue: MakeQueue, stored: Stored, option: str, end: Settle
) -> None:
    await ended(make_queue(**{option: 0}), end)
    assert await stored() == []


@every_end
@pytest.mark.parametrize("keep", [60, timedelta(minutes=1)], ids=repr)
async def test_ended_job_expires_after_its_time(
    make_queue: MakeQueue, stored: Stored, clock: ManualClock, option: str, end: Settle, keep: Any
) -> None:
    """A12.65: by the TTL index, on the server's clock."""
    await ended(make_queue(**{option: keep}), end)
    assert [expires_at(job) for job in await stored()] == [clock() + 60] * 3


@every_end
async def test_ended_job_is_kept_until_a_purge(
    make_queue: MakeQueue, stored: Stored, option: str, end: Settle
) -> None:
    """A12.66."""
    queue = make_queue(**{option: None})
    await ended(queue, end)
    documents = await stored()
    assert len(documents) == 3
    assert all("expires_at" not in job for job in documents)
    assert await queue.purge() == 3


async def test_failed_jobs_are_kept_for_a_week_and_done_ones_for_ever_by_default(
    client: Any, db_name: str, stored: Stored, clock: ManualClock
) -> None:
    """A12.64."""
    queue = AsyncJobQueue(client, db_name, clock=clock)
    await queue.enqueue_many([1, 2], "t")
    done, failed = await queue.claim_many(2, "t")
    await queue.ack(done)
    await queue.fail(failed)
    (kept,) = await stored(state="done")
    (expiring,) = await stored(state="failed")
    assert "expires_at" not in kept
    assert expires_at(expiring) == clock() + WEEK.total_seconds()


async def test_reclaimed_and_exhausted_jobs_expire_as_failed_ones(
    make_queue: MakeQueue, stored: Stored, clock: ManualClock
) -> None:
    queue = make_queue(keep_failed=60)
    await queue.enqueue_many([1, 2], "t", max_attempts=1)
    await queue.claim_many(2, "t")
    clock.advance(100)
    assert await queue.claim("t") is None
    await queue.enqueue(3, "t", max_attempts=1)
    await queue.claim("t")
    clock.advance(100)
    await queue.reclaim_stale()
    ends = sorted(expires_at(job) for job in await stored())
    assert ends == [clock() - 40, clock() - 40, clock() + 60]


@pytest.mark.parametrize("keep", [0, 1])
async def test_live_job_never_has_an_expiry(
    make_queue: MakeQueue, stored: Stored, clock: ManualClock, keep: float
) -> None:
    """Whatever happens to it: the server deletes what has an expiry, and nothing else."""
    queue = make_queue(keep_done=keep, keep_failed=60)
    await queue.enqueue(1, "t", max_attempts=9, unique_key="k")

    async def look() -> None:
        assert [job for job in await stored() if "expires_at" in job] == []

    for settle in (queue.release, queue.extend, queue.nack):
        job = await queue.claim("t")
        assert job is not None
        await look()
        await settle(job)
        await look()
        clock.advance(60)
    await queue.reclaim_stale()
    await look()
    job = await queue.claim("t")
    assert job is not None
    await queue.fail(job)
    assert await queue.redrive() == 1
    await look()


async def test_expiry_is_an_index_of_the_server(queue: AsyncJobQueue, database: Any) -> None:
    """A12.65."""
    await queue.ensure_indexes()
    indexes = await database["fairlane_jobs"].index_information()
    assert indexes["expires_at_1"]["expireAfterSeconds"] == 0


async def test_result_of_a_job_that_is_not_kept_is_no_obstacle(
    make_queue: MakeQueue, stored: Stored
) -> None:
    queue = make_queue(keep_done=0)
    await queue.enqueue(1, "t", unique_key="k")
    job = await queue.claim("t")
    assert job is not None
    assert await queue.ack(job, {"n": 1})
    assert await stored() == []


async def test_deletion_that_fails_leaves_a_done_job_that_expires(
    make_queue: MakeQueue, stored: Stored, clock: ManualClock
) -> None:
    """The end decides: what is left is never claimed again, and the server deletes it."""
    queue = make_queue(keep_done=0)
    await queue.enqueue_many([1, 2], "t")
    jobs = await queue.claim_many(2, "t")

    async def cut(_: Any) -> int:
        raise ConnectionError("closed")

    queue._store.jobs.delete_many = cut  # type: ignore[method-assign, assignment]
    with pytest.raises(ConnectionError):
        await queue.ack_many(jobs)
    assert {job["state"] for job in await stored()} == {"done"}
    assert all("expires_at" in job for job in await stored())
    clock.advance(1_000)
    assert await queue.claim("t") is None


async def test_settlement_stands_where_the_deletion_after_it_fails(
    make_queue: Any, fail_command: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """`expires_at` lets the server delete what could not be deleted at once."""
    queue = make_queue(keep_done=0)
    await queue.enqueue_many([1, 2], "t")
    jobs = await queue.claim_many(2, "t")
    await fail_command("delete", errorCode=8000)
    assert await queue.ack_many(jobs) == 2
    assert "deleted by the server" in caplog.text
    assert (await queue.stats()).done == 2
