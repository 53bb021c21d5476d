"""Where jobs are, and who agrees on it. A12.31, A12.32 and A12.40; untested upstream."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from contract.batches import after, once
from fairlane import AsyncJobQueue, AsyncMongoTransport, ConfigurationError, Job
from fairlane.lease.settings import REREAD, SWITCH
from fairlane.schema import partition_of
from fairlane.testing import ManualClock

MakeQueue = Callable[..., AsyncJobQueue]
Stored = Callable[..., Awaitable[list[dict[str, Any]]]]

MISPLACED: list[Any] = [None, -1, 8, 1.5, "0"]


@pytest.fixture
def way() -> dict[str, Any]:
    return {"partitions": 4}


@pytest.fixture
def make_program(make_queue: MakeQueue, clock: ManualClock) -> MakeQueue:
    """Return a factory of queues that stand for programs: their settings age by the clock."""

    def make(**options: Any) -> AsyncJobQueue:
        queue = make_queue(**{"partitions": None, **options})
        queue._store._monotonic = clock
        return queue

    return make


async def drained(queue: AsyncJobQueue) -> list[Any]:
    payloads = []
    while (job := await queue.claim("t", lease=600)) is not None:
        payloads.append(job.payload)
    return sorted(payloads)


async def move(database: Any, payload: Any, partition: Any) -> None:
    await database["fairlane_jobs"].update_one(
        {"payload": payload}, {"$set": {"partition": partition}}
    )


async def test_job_is_in_the_partition_of_its_id(queue: AsyncJobQueue, stored: Stored) -> None:
    """A12.40."""
    await queue.enqueue_many(range(40), "t")
    partitions = {job["partition"] for job in await stored()}
    assert partitions == {0, 1, 2, 3}
    assert all(job["partition"] == partition_of(job["_id"], 4) for job in await stored())


async def test_producer_that_never_works_uses_the_stored_number(
    make_queue: MakeQueue, stored: Stored
) -> None:
    """Untested upstream, where its jobs wait for a reconciler."""
    worker, producer = make_queue(), make_queue(partitions=None)
    assert await worker.claim("t") is None
    await producer.enqueue_many(range(40), "t")
    assert producer.partitions == 4
    assert {job["partition"] for job in await stored()} == {0, 1, 2, 3}
    assert await drained(worker) == list(range(40))


async def test_first_program_that_says_nothing_means_one_partition(make_queue: MakeQueue) -> None:
    queue = make_queue(partitions=None)
    await queue.enqueue(1, "t")
    assert queue.partitions == 1


@pytest.mark.parametrize("verb", ["enqueue", "claim", "stats"])
async def test_program_that_asks_for_another_number_is_told(
    make_queue: MakeQueue, stored: Stored, verb: str
) -> None:
    """Untested upstream: another system lets the smaller one move the larger one's jobs away."""
    await make_queue().total()
    arguments = {"enqueue": (1, "t"), "claim": ("t",), "stats": ()}[verb]
    with pytest.raises(ConfigurationError, match=r"is set to partitions=4.*asks for partitions=8"):
        await getattr(make_queue(partitions=8), verb)(*arguments)
    assert await stored() == []


async def test_number_of_the_jobs_is_not_that_of_the_groups(
    queue: AsyncJobQueue, client: Any, db_name: str, clock: ManualClock
) -> None:
    transport: AsyncMongoTransport[Any] = AsyncMongoTransport(
        client, db_name, clock=clock, partitions=2
    )
    await transport.publish("g", 1)
    await queue.enqueue(1, "t")
    assert (transport.partitions, queue.partitions) == (2, 4)


async def test_reconciler_moves_what_no_claimer_would_find(
    queue: AsyncJobQueue, database: Any, stored: Stored
) -> None:
    """A12.31: what is missing, out of range or no number at all; a right one stays."""
    await queue.enqueue_many([*map(repr, MISPLACED), "missing", "right"], "t")
    for partition in MISPLACED:
        await move(database, repr(partition), partition)
    await database["fairlane_jobs"].update_one({"payload": "missing"}, {"$unset": {"partition": 1}})
    assert await queue.reconcile() == len(MISPLACED) + 1
    assert all(job["partition"] == partition_of(job["_id"], 4) for job in await stored())
    assert await queue.reconcile() == 0
    assert len(await drained(queue)) == len(MISPLACED) + 2


async def test_reconciler_never_moves_a_job_under_a_live_lease(
    queue: AsyncJobQueue, database: Any, stored: Stored, clock: ManualClock
) -> None:
    """A12.31: it is found again when the lease has run out."""
    await queue.enqueue(1, "t", max_attempts=9)
    assert await queue.claim("t", lease=30) is not None
    await move(database, 1, 9)
    before = await stored()
    assert await queue.reconcile() == 0
    assert await stored() == before
    clock.advance(30)
    assert await queue.reconcile() == 1
    assert await drained(queue) == [1]


async def test_reconciler_moves_no_job_that_was_claimed_since_it_looked(
    queue: AsyncJobQueue, make_queue: MakeQueue, database: Any, stored: Stored
) -> None:
    """A12.32: the claim wins."""
    await queue.enqueue(1, "t")
    await move(database, 1, 9)
    rival = make_queue()
    await rival.total()

    async def claim(_: object) -> None:
        await move(database, 1, 2)
        assert await rival.claim("t") is not None
        await move(database, 1, 9)

    after(queue._store.jobs, "find", once(claim))
    assert await queue.reconcile() == 0
    assert [job["partition"] for job in await stored()] == [9]


async def test_reconciler_leaves_ended_jobs_without_a_partition(
    queue: AsyncJobQueue, stored: Stored
) -> None:
    """A12.31: no claim may find them."""
    await queue.enqueue_many([1, 2], "t")
    done, failed = await queue.claim_many(2, "t")
    await queue.ack(done)
    await queue.fail(failed)
    before = await stored()
    assert await queue.reconcile() == 0
    assert await stored() == before
    assert all("partition" not in job for job in before)


async def test_reconcilers_at_the_same_time_count_each_job_once(
    make_queue: MakeQueue, database: Any
) -> None:
    queues = [make_queue() for _ in range(3)]
    await queues[0].enqueue_many(range(30), "t")
    await database["fairlane_jobs"].update_many({}, {"$set": {"partition": -1}})
    assert sum(await asyncio.gather(*(queue.reconcile() for queue in queues))) == 30


async def test_redriven_job_is_in_its_partition_again(queue: AsyncJobQueue, stored: Stored) -> None:
    await queue.enqueue_many(range(8), "t")
    for job in await queue.claim_many(8, "t"):
        await queue.fail(job)
    assert await queue.redrive() == 8
    assert all(job["partition"] == partition_of(job["_id"], 4) for job in await stored())


@pytest.mark.parametrize(("before", "afterwards"), [(8, 2), (2, 8), (1, 5)])
@pytest.mark.parametrize("later", [0.0, REREAD, SWITCH, 3 * SWITCH])
async def test_running_program_finds_every_job_while_the_number_changes(
    make_program: MakeQueue, clock: ManualClock, before: int, afterwards: int, later: float
) -> None:
    worker, producer = make_program(partitions=before), make_program()
    await worker.enqueue_many(range(10), "t")
    await producer.repartition(afterwards)
    clock.advance(later)
    await producer.enqueue_many(range(10, 20), "t")
    assert await drained(worker) == list(range(20))


async def test_jobs_are_moved_after_a_change_and_claimers_stop_looking_elsewhere(
    make_program: MakeQueue, clock: ManualClock, stored: Stored
) -> None:
    queue = make_program(partitions=8)
    await queue.enqueue_many(range(24), "t")
    await queue.repartition(2)
    clock.advance(3 * SWITCH)
    assert await queue.reconcile() > 0
    assert await queue.reconcile() == 0
    assert {job["partition"] for job in await stored()} == {0, 1}
    assert (queue.partitions, queue._store.partitioning.span) == (2, 2)
    assert await drained(queue) == list(range(24))


async def test_listener_learns_of_another_number_while_it_listens(
    make_program: MakeQueue, clock: ManualClock
) -> None:
    """It calls no verb of the queue that would look at the settings for it."""
    listening, other = make_program(), make_program()
    handled, is_done = set[Any](), asyncio.Event()

    async def handle(job: Job) -> None:
        handled.add(job.payload)
        if len(handled) == 20:
            is_done.set()

    task = asyncio.ensure_future(listening.listen(handle, "t", poll_interval=0.01))
    await other.repartition(8)
    clock.advance(SWITCH + REREAD)
    await other.enqueue_many(range(20), "t")
    async with asyncio.timeout(20):
        await is_done.wait()
    task.cancel()
    await asyncio.wait((task,))
    assert listening.partitions == 8


async def test_drop_of_the_transport_leaves_the_number_of_the_jobs(
    make_program: MakeQueue, client: Any, db_name: str, clock: ManualClock
) -> None:
    queue = make_program(partitions=4)
    await queue.enqueue(1, "t")
    transport: AsyncMongoTransport[Any] = AsyncMongoTransport(client, db_name, clock=clock)
    await transport.publish("g", 1)
    await transport.drop()
    assert await make_program().claim("t") is not None
    assert await transport.publish("g", 1) == 1


async def test_error_about_the_number_names_what_changes_it(make_queue: MakeQueue) -> None:
    await make_queue().total()
    with pytest.raises(ConfigurationError, match=r"await queue\.repartition\(8\)"):
        await make_queue(partitions=8).total()


async def test_settings_that_cannot_be_read_any_more_do_not_stop_a_settlement(
    make_program: MakeQueue,
    database: Any,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = make_program(partitions=4)
    await queue.enqueue(1, "t")
    job = await queue.claim("t", lease=600)
    assert job is not None
    damaged = {"$set": {"partitions": "many"}}
    await database["fairlane_counters"].update_one({"_id": "settings:jobs"}, damaged)
    clock.advance(REREAD)
    assert await queue.ack(job)
    assert queue.partitions == 4
    assert "settings cannot be read" in caplog.text


async def test_making_indexes_does_not_decide_the_number(make_queue: MakeQueue) -> None:
    await make_queue(partitions=None).ensure_indexes()
    assert await make_queue(partitions=8).total() == 0
