"""`JobQueue`: the job queue for programs without an event loop."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Self

from fairlane.checks import Seconds
from fairlane.jobs import (
    AsyncJobQueue,
    Enqueued,
    EnqueuedMany,
    Execution,
    Handler,
    Job,
    JobStats,
    OnDuplicate,
    Outcome,
    Reclaimed,
)
from fairlane.retry import Backoff
from fairlane.sync._product import BlockingProduct, read_here

__all__ = ("JobQueue",)


class JobQueue(BlockingProduct[AsyncJobQueue]):
    """`AsyncJobQueue` with the same verbs, blocking; see there for what each guarantees.

    Threads, forks and Ctrl-C are as with `MongoTransport`.

    Args:
        factory: called without arguments in the event loop of the facade; returns an awaitable or
            an asynchronous context manager that opens an `AsyncJobQueue`, as its `connect` does.

    Raises:
        ConfigurationError: from any method called while an event loop runs in the thread.
        FairlaneError: from any method after `close()`.

    Example:
        >>> with JobQueue.connect("mongodb://localhost:27017", "app") as queue:
        ...     queue.enqueue({"to": "ann@example.org"}, "email")
    """

    _kind = AsyncJobQueue
    _opener = "connect"

    @classmethod
    def connect(
        cls,
        url: str = "mongodb://localhost:27017",
        db_name: str = "fairlane",
        *,
        driver: str = "motor",
        connect_timeout: Seconds = 10.0,
        **options: Any,
    ) -> Self:
        """Open a client in a loop of its own. Arguments as `AsyncJobQueue.connect`.

        Raises:
            ServerUnreachable: no server answered in time; the address is named, the password not.
            ConfigurationError: bad URL, option, driver or credentials, or a running event loop.
        """
        return cls._by_url(
            url, db_name, driver=driver, connect_timeout=connect_timeout, options=options
        )

    def enqueue(
        self,
        payload: Any,
        type: str,
        *,
        priority: int = 0,
        delay: Seconds | None = None,
        run_at: datetime | None = None,
        max_attempts: int | None = None,
        unique_key: str | None = None,
        on_duplicate: OnDuplicate = "skip",
    ) -> Enqueued:
        """Add a job; when this returns it is stored on a majority."""
        return self._call(
            lambda q: q.enqueue(
                payload,
                type,
                priority=priority,
                delay=delay,
                run_at=run_at,
                max_attempts=max_attempts,
                unique_key=unique_key,
                on_duplicate=on_duplicate,
            )
        )

    def enqueue_many(
        self,
        payloads: Iterable[Any],
        type: str | None = None,
        *,
        priority: int = 0,
        delay: Seconds | None = None,
        run_at: datetime | None = None,
        max_attempts: int | None = None,
        on_duplicate: OnDuplicate = "skip",
    ) -> EnqueuedMany:
        """Add many jobs in one command; bad items are told by their index."""
        held = read_here(payloads)
        return self._call(
            lambda q: q.enqueue_many(
                held,
                type,
                priority=priority,
                delay=delay,
                run_at=run_at,
                max_attempts=max_attempts,
                on_duplicate=on_duplicate,
            )
        )

    def claim(
        self, *types: str, worker_id: str | None = None, lease: Seconds | None = None
    ) -> Job | None:
        """Lease the most urgent due job of these types, or of any; None if there is none."""
        return self._call(
            lambda q: q.claim(*types, worker_id=worker_id, lease=lease),
            undo=lambda q, job: _give_back(q, [job] if job else []),
        )

    dequeue = claim

    def claim_many(
        self,
        n: int,
        *types: str,
        worker_id: str | None = None,
        lease: Seconds | None = None,
    ) -> list[Job]:
        """Lease up to `n` jobs in three or four commands."""
        return self._call(
            lambda q: q.claim_many(n, *types, worker_id=worker_id, lease=lease), undo=_give_back
        )

    def ack(self, job: Job, result: Any = None) -> bool:
        """End the job as done. Returns False if its lease is no longer held."""
        return self._call(lambda q: q.ack(job, result))

    def ack_many(self, jobs: Iterable[Job]) -> int:
        """End each job as `ack` does; return how many were held."""
        held = read_here(jobs)
        return self._call(lambda q: q.ack_many(held))

    def nack(self, job: Job, *, delay: Seconds = 0.0, error: str | None = None) -> Outcome:
        """Give the job back for another attempt; after its last one it fails."""
        return self._call(lambda q: q.nack(job, delay=delay, error=error))

    def fail(self, job: Job, *, error: str | None = None) -> bool:
        """End the job as failed, whatever attempts are left. Returns as `ack`."""
        return self._call(lambda q: q.fail(job, error=error))

    def release(self, job: Job, *, interrupted: bool = False) -> bool:
        """Give the job back at once without counting the attempt. Returns as `ack`."""
        return self._call(lambda q: q.release(job, interrupted=interrupted))

    def release_many(self, jobs: Iterable[Job]) -> list[bool]:
        """Give jobs back as `release` does, in one command; return the results in order."""
        held = read_here(jobs)
        return self._call(lambda q: q.release_many(held))

    def extend(self, job: Job, lease: Seconds | None = None) -> Job:
        """Hold the job for at least `lease` seconds from now; raises `JobLost` if it is lost."""
        return self._call(lambda q: q.extend(job, lease))

    def extend_many(self, jobs: Iterable[Job], lease: Seconds | None = None) -> list[Job | None]:
        """Hold each job as `extend` does, in one command; None for one that is held no longer."""
        held = read_here(jobs)
        return self._call(lambda q: q.extend_many(held, lease))

    def reclaim_stale(
        self, *, older_than: Seconds | None = None, type: str | None = None
    ) -> Reclaimed:
        """Put back jobs whose lease has run out; those without an attempt left fail."""
        return self._call(lambda q: q.reclaim_stale(older_than=older_than, type=type))

    def size(self, type: str | None = None) -> int:
        """Count the jobs that wait, those that are not due yet included."""
        return self._call(lambda q: q.size(type))

    def in_flight(self, type: str | None = None) -> int:
        """Count the jobs that were claimed and not settled."""
        return self._call(lambda q: q.in_flight(type))

    def failed(self, type: str | None = None) -> int:
        """Count the jobs that failed."""
        return self._call(lambda q: q.failed(type))

    def total(self, type: str | None = None) -> int:
        """Count all jobs, whatever they are."""
        return self._call(lambda q: q.total(type))

    def stats(self, type: str | None = None) -> JobStats:
        """Count jobs by what they are, all at one moment."""
        return self._call(lambda q: q.stats(type))

    def get(self, id: str) -> Job | None:
        """Return a job as it is now; it cannot be settled with that."""
        return self._call(lambda q: q.get(id))

    def cancel(self, id: str) -> bool:
        """Delete a job that waits; False if somebody works on it, or if there is none."""
        return self._call(lambda q: q.cancel(id))

    def redrive(self, id: str | None = None, *, type: str | None = None) -> int:
        """Give failed jobs all their attempts again; return how many."""
        return self._call(lambda q: q.redrive(id, type=type))

    def purge(self, type: str | None = None) -> int:
        """Delete the jobs that have ended; return how many."""
        return self._call(lambda q: q.purge(type))

    def force_ack(self, id: str) -> bool:
        """End a job as done, whoever works on it: for administration. It is logged."""
        return self._call(lambda q: q.force_ack(id))

    def force_fail(self, id: str) -> bool:
        """End a job as failed, whoever works on it: for administration. It is logged."""
        return self._call(lambda q: q.force_fail(id))

    def force_release(self, id: str) -> bool:
        """Let a job be claimed, whoever works on it: for administration. It is logged."""
        return self._call(lambda q: q.force_release(id))

    def listen(
        self,
        handler: Handler,
        type: str,
        *,
        worker_id: str | None = None,
        poll_interval: Seconds = 1.0,
        reclaim_every: Seconds = 60.0,
        batch: int = 1,
        backoff: Backoff | None = None,
    ) -> None:
        """Let `handler(job)` work on the jobs of one type until Ctrl-C, in a thread."""
        return self._call(
            lambda q: q.listen(
                handler,
                type,
                worker_id=worker_id,
                poll_interval=poll_interval,
                reclaim_every=reclaim_every,
                batch=batch,
                backoff=backoff,
            )
        )

    def remove_recurring(self, name: str) -> bool:
        """Delete a recurring job, whoever runs it; False if there is none."""
        return self._call(lambda q: q.remove_recurring(name))

    def history(
        self, type: str | None = None, *, job_id: str | None = None, limit: int = 100
    ) -> list[Execution]:
        """Return the latest executions of the jobs whose type has `keep_history`, newest first."""
        return self._call(lambda q: q.history(type, job_id=job_id, limit=limit))

    def reconcile(self) -> int:
        """Put jobs into a partition that claimers look into; return how many."""
        return self._call(lambda q: q.reconcile())

    def clear(self) -> int:
        """Delete all jobs, whatever they are; return how many."""
        return self._call(lambda q: q.clear())

    def drop(self) -> None:
        """Drop the collection and its settings."""
        self._call(lambda q: q.drop())


async def _give_back(queue: AsyncJobQueue, jobs: list[Job]) -> None:
    await queue.release_many(jobs)
