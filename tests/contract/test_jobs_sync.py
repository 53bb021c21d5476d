"""The blocking job queue on a real server: the same life of a job, from many threads."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pymongo import MongoClient

from fairlane import ConfigurationError, Job, JobQueue, Outcome, PayloadError
from fairlane.errors import JobLost
from fairlane.jobs import EnqueuedMany, NewJob, Reclaimed
from fairlane.testing import ManualClock

Make = Callable[..., JobQueue]


@pytest.fixture(autouse=True)
def no_blocking_call() -> None:
    """Watch nothing: the loops at work here serve nobody but the threads that wait for them."""


@pytest.fixture
def make(fairlane_url: str, db_name: str, driver: str) -> Iterator[Make]:
    """Return a factory of blocking queues on the test's database, which is dropped."""
    made: list[JobQueue] = []

    def open_queue(**options: Any) -> JobQueue:
        made.append(JobQueue.connect(fairlane_url, db_name, driver=driver, **options))
        return made[-1]

    yield open_queue
    for queue in made:
        queue.close()
    with MongoClient[Any](fairlane_url) as client:
        client.drop_database(db_name)


@pytest.fixture
def blocking(make: Make, clock: ManualClock) -> JobQueue:
    return make(clock=clock, keep_failed=None, partitions=4)


def claimed(queue: JobQueue, *types: str) -> Job:
    job = queue.claim(*types)
    assert job is not None
    return job


def test_job_is_enqueued_claimed_and_acked(blocking: JobQueue) -> None:
    enqueued = blocking.enqueue({"to": "ann"}, "email", priority=3, unique_key="k")
    job = claimed(blocking, "email")
    assert (job.id, job.payload, job.priority) == (enqueued.id, {"to": "ann"}, 3)
    assert blocking.ack(job, {"sent": True}) is True
    assert blocking.ack(job) is False
    done = blocking.get(job.id)
    assert done is not None
    assert (done.state, done.result) == ("done", {"sent": True})


def test_options_of_an_enqueue_arrive(blocking: JobQueue, clock: ManualClock) -> None:
    first = blocking.enqueue("old", "t", delay=60, unique_key="k")
    again = blocking.enqueue("new", "t", max_attempts=9, unique_key="k", on_duplicate="replace")
    assert (again.id, again.replaced) == (first.id, True)
    job = claimed(blocking, "t")
    assert (job.payload, job.max_attempts) == ("new", 9)
    assert job.available_at == clock() + 30


def test_jobs_in_bulk(blocking: JobQueue) -> None:
    enqueued = blocking.enqueue_many((NewJob(n, priority=n) for n in range(5)), "t")
    assert (enqueued.created, len(enqueued.ids)) == (5, 5)
    jobs = blocking.claim_many(9, "t")
    assert sorted(job.payload for job in jobs) == [0, 1, 2, 3, 4]
    assert blocking.ack_many(iter(jobs)) == 5
    assert blocking.enqueue_many([]) == EnqueuedMany(
        ids=(), created=0, skipped=0, replaced=0, errors=()
    )


def test_iterable_is_read_in_the_thread_of_the_caller(blocking: JobQueue) -> None:
    threads = []

    def items() -> Iterator[int]:
        threads.append(threading.current_thread())
        yield 1

    blocking.enqueue_many(items(), "t")
    assert threads == [threading.current_thread()]


@pytest.mark.parametrize("payloads", [None, 5, "ab", b"ab", {"a": 1}], ids=repr)
def test_one_payload_in_place_of_many_is_refused(blocking: JobQueue, payloads: Any) -> None:
    with pytest.raises(ConfigurationError, match="payloads must be several"):
        blocking.enqueue_many(payloads, "t")
    with pytest.raises(TypeError, match="job"):
        blocking.ack_many(payloads)


def test_settlements_of_all_kinds(blocking: JobQueue, clock: ManualClock) -> None:
    blocking.enqueue(1, "t", max_attempts=2)
    assert blocking.release(claimed(blocking)) is True
    assert blocking.nack(claimed(blocking), delay=5, error="why") is Outcome.RETRY
    assert blocking.dequeue("t") is None
    clock.advance(5)
    job = blocking.extend(claimed(blocking, "t"), 90)
    assert job.available_at == clock() + 90
    assert blocking.nack(job) is Outcome.FAILED
    with pytest.raises(JobLost):
        blocking.extend(job)
    assert blocking.redrive(job.id) == 1
    assert blocking.fail(claimed(blocking), error="no") is True
    assert blocking.failed() == 1


def test_counts_and_upkeep(blocking: JobQueue, clock: ManualClock) -> None:
    blocking.enqueue_many(range(4), "t")
    blocking.ack(claimed(blocking))
    claimed(blocking)
    counts = (blocking.size("t"), blocking.in_flight("t"), blocking.failed("t"), blocking.total())
    assert counts == (2, 1, 0, 4)
    stats = blocking.stats("t")
    assert (stats.ready, stats.processing, stats.done) == (2, 1, 1)
    clock.advance(60)
    assert blocking.reclaim_stale(older_than=5, type="t") == Reclaimed(requeued=1, failed=0)
    assert blocking.reconcile() == 0
    assert blocking.purge("t") == 1
    assert blocking.clear() == 3
    blocking.ensure_indexes()
    blocking.repartition(2)
    assert blocking.partitions == 2
    assert blocking.strategy in ("find_one_and_update", "update_one")
    blocking.drop()
    assert blocking.total() == 0


@pytest.mark.parametrize(
    ("verb", "state"),
    [("force_ack", "done"), ("force_fail", "failed"), ("force_release", "pending")],
)
def test_forced_settlements(blocking: JobQueue, verb: str, state: str) -> None:
    blocking.enqueue(1, "t")
    job = claimed(blocking)
    assert getattr(blocking, verb)(job.id) is True
    assert blocking.ack(job) is False
    found = blocking.get(job.id)
    assert found is not None
    assert found.state == state


def test_waiting_job_is_cancelled(blocking: JobQueue) -> None:
    enqueued = blocking.enqueue(1, "t")
    assert blocking.cancel(enqueued.id) is True
    assert blocking.cancel(enqueued.id) is False


def test_bare_id_is_a_type_error(blocking: JobQueue) -> None:
    with pytest.raises(TypeError, match="not its id"):
        blocking.ack("0" * 32)  # type: ignore[arg-type]


def test_payload_that_cannot_be_stored_is_refused(blocking: JobQueue) -> None:
    with pytest.raises(PayloadError, match=r"payload\.x"):
        blocking.enqueue({"x": object()}, "t")
    assert blocking.total() == 0


def test_threads_share_one_queue(blocking: JobQueue) -> None:
    blocking.enqueue_many(range(40), "t")

    def work(_: int) -> list[Any]:
        payloads = []
        while (job := blocking.claim("t")) is not None:
            payloads.append(job.payload)
            assert blocking.ack(job)
        return payloads

    with ThreadPoolExecutor(8) as threads:
        batches = list(threads.map(work, range(8)))
    assert sorted(payload for batch in batches for payload in batch) == list(range(40))


@pytest.mark.slow
def test_listener_works_in_a_thread_until_the_queue_is_closed(make: Make) -> None:
    queue, producer = make(), make()
    done = threading.Event()
    seen: list[Any] = []

    def handle(job: Job) -> None:
        seen.append(job.payload)
        done.set()

    def listen() -> None:
        with pytest.raises(Exception, match="closed"):
            queue.listen(handle, "t", poll_interval=0.01, batch=2)

    thread = threading.Thread(target=listen)
    thread.start()
    producer.enqueue("hello", "t")
    assert done.wait(20)
    queue.close()
    thread.join(20)
    assert not thread.is_alive()
    assert seen == ["hello"]
