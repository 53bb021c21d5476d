"""Documents that somebody else has put among the jobs: they keep nobody from working."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from bson.binary import Binary
from bson.objectid import ObjectId

from fairlane import AsyncJobQueue, Job
from fairlane.jobs import Reclaimed
from fairlane.testing import ManualClock

MakeQueue = Callable[..., AsyncJobQueue]
Stored = Callable[..., Awaitable[list[dict[str, Any]]]]

BROKEN_UUID = Binary(b"abc", subtype=4)  # of three bytes: it can be stored, and not be decoded

WAYS: list[dict[str, Any]] = [
    {"strategy": strategy, "partitions": partitions}
    for strategy in ("find_one_and_update", "update_one")
    for partitions in (1, 4)
]

DEFECTS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "undecodable": ({"payload": {"id": BROKEN_UUID}}, ()),
    "no type": ({}, ("type",)),
    "no payload": ({}, ("payload",)),
    "no max_attempts": ({}, ("max_attempts",)),
    "no created_at": ({}, ("created_at",)),
    "created_at of another kind": ({"created_at": "now"}, ()),
    "created_at in a far future": ({"created_at": 1e300}, ()),
    "max_attempts of another kind": ({"max_attempts": "many"}, ()),
}


@pytest.fixture(params=WAYS, ids=lambda way: f"{way['strategy']}-{way['partitions']}")
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    options: dict[str, Any] = request.param
    return options


@pytest.fixture
async def opened(queue: AsyncJobQueue) -> AsyncJobQueue:
    await queue.total()
    return queue


Put = Callable[..., Awaitable[None]]


@pytest.fixture
def put(opened: AsyncJobQueue, database: Any, clock: ManualClock) -> Put:
    """Return what makes a stored job one that is not as a queue writes it."""

    async def spoil(values: dict[str, Any], missing: tuple[str, ...], priority: int = 9) -> None:
        enqueued = await opened.enqueue({"n": 1}, "t", priority=priority)
        update: dict[str, Any] = {"$set": values} if values else {}
        if missing:
            update["$unset"] = dict.fromkeys(missing, "")
        await database["fairlane_jobs"].update_one({"_id": enqueued.id}, update)

    return spoil


async def each(queue: AsyncJobQueue) -> list[Job]:
    """Claim one after the other until nothing is due."""
    jobs = []
    while (job := await queue.claim()) is not None:
        jobs.append(job)
    return jobs


async def states(database: Any) -> list[tuple[str, Any]]:
    fields = {"state": 1, "attempts": 1}
    found = await database["fairlane_jobs"].find({}, fields).to_list(None)
    return sorted((job["state"], job["attempts"]) for job in found)


@pytest.mark.parametrize(("values", "missing"), DEFECTS.values(), ids=DEFECTS)
@pytest.mark.parametrize("many", [False, True], ids=["claim", "claim_many"])
async def test_claim_fails_what_cannot_be_read_and_goes_on_with_others(
    opened: AsyncJobQueue,
    put: Put,
    database: Any,
    caplog: Any,
    values: dict[str, Any],
    missing: tuple[str, ...],
    *,
    many: bool,
) -> None:
    await put(values, missing)
    await opened.enqueue("good", "t")
    with caplog.at_level(logging.ERROR, logger="fairlane.jobs"):
        jobs = await (opened.claim_many(5) if many else each(opened))
    assert [job.payload for job in jobs] == ["good"]
    assert await states(database) == [("failed", 0), ("processing", 1)]
    assert "a job failed: its document cannot be read" in caplog.text


async def test_only_document_that_cannot_be_read_is_no_job(
    opened: AsyncJobQueue, put: Put, database: Any
) -> None:
    await put({"payload": BROKEN_UUID}, ())
    assert await opened.claim_many(5) == []
    await put({"payload": BROKEN_UUID}, ())
    assert await opened.claim() is None
    assert await states(database) == [("failed", 0), ("failed", 0)]
    assert await opened.purge() == 2


async def test_job_that_was_undecodable_by_mistake_can_be_mended_and_redriven(
    opened: AsyncJobQueue, put: Put, database: Any
) -> None:
    await put({"payload": BROKEN_UUID}, ())
    await opened.claim_many(5)
    await database["fairlane_jobs"].update_many({}, {"$set": {"payload": "mended"}})
    assert await opened.redrive() == 1
    (job,) = await opened.claim_many(5)
    assert (job.payload, job.attempts) == ("mended", 1)


@pytest.mark.parametrize(("values", "missing"), DEFECTS.values(), ids=DEFECTS)
async def test_reclaim_reconcile_and_counts_go_on(
    opened: AsyncJobQueue,
    put: Put,
    database: Any,
    clock: ManualClock,
    values: dict[str, Any],
    missing: tuple[str, ...],
) -> None:
    await put(
        {**values, "state": "processing", "token": "theirs", "partition": 99, "locked_at": 1.0},
        missing,
    )
    await opened.enqueue("good", "t")
    assert await opened.reconcile() == 1
    stats = await opened.stats()
    assert (stats.total, stats.ready) == (2, 2)
    assert sum(each.total for each in stats.by_type.values()) == 2 - ("type" in missing)
    assert await opened.reclaim_stale(older_than=5) == Reclaimed(requeued=1, failed=0)
    assert await opened.size() == 2


async def test_document_with_an_id_of_another_kind_is_a_job_like_any_other(
    opened: AsyncJobQueue, database: Any, clock: ManualClock, stored: Stored
) -> None:
    """Such as the server's own tools give; the reconciler puts it where claimers look."""
    await opened.enqueue("mine", "t")
    (document,) = await stored()
    theirs = {**document, "_id": ObjectId(), "payload": "theirs"}
    del theirs["partition"]
    await database["fairlane_jobs"].insert_one(theirs)
    assert await opened.reconcile() == 1
    jobs = await opened.claim_many(5)
    assert sorted(job.payload for job in jobs) == ["mine", "theirs"]
    assert await opened.ack_many(jobs) == 2
