"""Many at once: each job is delivered once. B6.30 and B6.31; fault 33; A12.44 and A12.103."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fairlane import AsyncJobQueue, Job
from fairlane.jobs import NewJob
from fairlane.testing import ManualClock

MakeQueue = Callable[..., AsyncJobQueue]

WAYS: list[dict[str, Any]] = [
    {"strategy": strategy, "partitions": partitions}
    for strategy in ("find_one_and_update", "update_one")
    for partitions in (1, 8)
]


@pytest.fixture(params=WAYS, ids=lambda way: f"{way['strategy']}-{way['partitions']}")
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    options: dict[str, Any] = request.param
    return options


async def drain(queue: AsyncJobQueue, name: str) -> list[Any]:
    """Work until nothing is due; a claim rests only when it missed every partition."""
    payloads = []
    while (job := await queue.claim("t", worker_id=name)) is not None:
        payloads.append(job.payload)
        assert await queue.ack(job)
    return payloads


async def test_jobs_of_eight_producers_are_worked_off_by_six_workers_once_each(
    make_queue: MakeQueue,
) -> None:
    """B6.30 and B6.31."""
    producers = [make_queue() for _ in range(8)]

    async def produce(number: int) -> None:
        for each in range(10):
            await producers[number].enqueue([number, each], "t")

    await asyncio.gather(*(produce(number) for number in range(8)))
    queue = producers[0]
    assert await queue.size() == 80
    workers = [drain(producers[number], f"battle-worker-{number}") for number in range(6)]
    delivered = [payload for batch in await asyncio.gather(*workers) for payload in batch]
    assert sorted(delivered) == [[number, each] for number in range(8) for each in range(10)]
    assert (await queue.size(), await queue.in_flight()) == (0, 0)


async def test_sixteen_claimers_of_many_get_two_hundred_jobs_once_each(
    queue: AsyncJobQueue, database: Any
) -> None:
    """A12.103: jobs, tokens and stored leases are as many, each has one attempt, none is left."""
    await queue.enqueue_many(range(200), "t")

    async def take(name: str) -> list[Job]:
        taken: list[Job] = []
        while jobs := await queue.claim_many(9, "t", worker_id=name, lease=600):
            taken += jobs
        return taken

    batches = await asyncio.gather(*(take(f"w{number}") for number in range(16)))
    jobs = [job for batch in batches for job in batch]
    assert sorted(job.payload for job in jobs) == list(range(200))
    assert len({job.id for job in jobs}) == len({job.token for job in jobs}) == 200
    stored = await database["fairlane_jobs"].find({}).to_list(None)
    assert {job["_id"]: job["token"] for job in stored} == {job.id: job.token for job in jobs}
    assert {job["attempts"] for job in stored} == {1}
    assert await queue.claim("t") is None


async def test_claimers_at_the_same_time_get_distinct_jobs(queue: AsyncJobQueue) -> None:
    await queue.enqueue_many(range(20), "t")
    jobs = await asyncio.gather(*(queue.claim("t") for _ in range(20)))
    assert sorted(job.payload for job in jobs if job) == list(range(20))


async def test_jobs_that_fail_now_and_then_are_all_done_in_the_end(
    queue: AsyncJobQueue,
) -> None:
    """Workers nack, release and forget; every job ends once, with as many attempts as starts."""
    await queue.enqueue_many(range(30), "t", max_attempts=20)
    starts: dict[Any, int] = {}
    done: list[Any] = []

    async def work(number: int) -> None:
        turn = number
        while (job := await queue.claim("t")) is not None:
            turn += 1
            if turn % 4 == 1:
                assert await queue.release(job)
                continue
            starts[job.payload] = starts.get(job.payload, 0) + 1
            assert job.attempts == starts[job.payload]
            if turn % 4 == 2:
                assert await queue.nack(job)
            else:
                assert await queue.ack(job)
                done.append(job.payload)

    await asyncio.gather(*(work(number) for number in range(6)))
    assert sorted(done) == list(range(30))
    assert (await queue.stats()).done == 30


async def test_first_calls_of_many_programs_at_once_agree(make_queue: MakeQueue) -> None:
    """Indexes and settings are made by whoever comes first."""
    queues = [make_queue() for _ in range(12)]
    await asyncio.gather(*(queue.enqueue(n, "t") for n, queue in enumerate(queues)))
    assert len(await queues[0].claim_many(20, "t")) == 12


async def test_low_priority_waits_for_every_due_one_above_it(
    make_queue: MakeQueue, clock: ManualClock
) -> None:
    """Fault 33: strict within a partition; there is no ageing."""
    queue = make_queue(partitions=None, prefix="one", strategy="find_one_and_update")
    await queue.enqueue("low", "t")
    delivered = []
    for number in range(10):
        clock.advance(60)
        await queue.enqueue_many([NewJob(number, priority=1)], "t")
        job = await queue.claim("t")
        assert job is not None
        delivered.append(job.payload)
        await queue.ack(job)
    assert delivered == list(range(10))
    assert await drain(queue, "w") == ["low"]


async def test_high_priority_that_is_not_due_holds_nobody_up(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    await queue.enqueue_many(range(10), "t", priority=9, delay=5)
    await queue.enqueue("low", "t")
    assert await drain(queue, "w") == ["low"]
    clock.advance(5)
    assert sorted(await drain(queue, "w")) == list(range(10))


async def test_claim_finds_the_only_due_job_wherever_it_is(queue: AsyncJobQueue) -> None:
    """A12.5: it rests only when it has missed every partition."""
    for number in range(12):
        await queue.enqueue(number, "t")
        assert await drain(queue, "w") == [number]
