"""`AsyncJobQueue`: what a user of the job queue calls."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Self

from fairlane import checks
from fairlane.checks import MOST_AT_ONCE, Seconds
from fairlane.clock import Clock
from fairlane.driver import Driver
from fairlane.errors import FairlaneError, JobLost
from fairlane.jobs import _arguments
from fairlane.jobs._claim import Claimer, Request
from fairlane.jobs._drafts import (
    Draft,
    NewJob,
    OnDuplicate,
    checked_defaults,
    checked_key,
    checked_on_duplicate,
    checked_types,
    with_defaults,
)
from fairlane.jobs._enqueue import Enqueuer
from fairlane.jobs._history import History
from fairlane.jobs._listen import Handler, Listener, Pace
from fairlane.jobs._recurring import Recurrer
from fairlane.jobs._settle import Retention, Settler
from fairlane.jobs._store import Hint, JobStore, checked_hint
from fairlane.jobs._upkeep import Upkeep
from fairlane.jobs._view import View
from fairlane.jobs.model import (
    Enqueued,
    EnqueuedMany,
    Execution,
    Job,
    JobStats,
    Outcome,
    Reclaimed,
)
from fairlane.jobs.working import WorkingSide
from fairlane.lease.site import checked_setup
from fairlane.lease.strategy import Strategy
from fairlane.opening import Opening
from fairlane.payload import as_bson
from fairlane.product import Product
from fairlane.retry import Backoff

__all__ = ("AsyncJobQueue",)


class AsyncJobQueue(Product):
    """Jobs on MongoDB: each is started by one worker at a time, and ends once.

    A job waits until it is due, is claimed for as long as its lease lasts, and ends as done or as
    failed. A worker that dies leaves its job to the next one when the lease has run out; the claim
    has counted the attempt. Higher priorities come first, then what has been due longest (exactly
    within a partition, about so between partitions). One queue serves any number of tasks of one
    event loop.

    Args:
        client: an `AsyncIOMotorClient` or a PyMongo `AsyncMongoClient`. It stays yours.
        db_name: database to use.
        prefix: of the names of the collections.
        clock: returns epoch seconds; by default the server's time.
        partitions: over how many partitions jobs are spread, 1 to 1,024, so that many claimers do
            not get into each other's way. All programs must agree; None means what is stored, or 1.
        strategy: how a job is claimed, as for `AsyncMongoTransport`.
        lease: seconds for which a claimed job is nobody else's, unless the claim says otherwise.
        max_attempts: how often a job is started before it fails, unless it says otherwise.
        keep_done: seconds for which a done job is kept; 0 deletes it at once, None keeps it until
            `purge`.
        keep_failed: the same of failed jobs.
        hint: which index claims of some types name: "by_type", "by_priority", or "adaptive": which
            of them costs less, as measured now and then by `reconcile`.
        ensure_indexes: create missing indexes at first use; False for a user without that right.
        wakeups: let worker pools be woken by a change stream, where the server has those (a replica
            set); False leaves them to their polls.

    Raises:
        ConfigurationError: naming the argument and what is allowed.

    Example:
        >>> async with AsyncJobQueue.connect("mongodb://localhost:27017", "app") as queue:
        ...     await queue.enqueue({"to": "ann@example.org"}, "email")
    """

    _OPTIONS = frozenset(
        {
            *("prefix", "clock", "partitions", "strategy", "lease", "max_attempts"),
            *("keep_done", "keep_failed", "hint", "ensure_indexes", "wakeups"),
        }
    )
    WEEK = timedelta(days=7)

    def __init__(
        self,
        client: Any,
        db_name: str = "fairlane",
        prefix: str = "fairlane",
        clock: Clock | None = None,
        *,
        partitions: int | None = None,
        strategy: Strategy = "auto",
        lease: Seconds = 30.0,
        max_attempts: int = 3,
        keep_done: Seconds | None = None,
        keep_failed: Seconds | None = WEEK,
        hint: Hint = "adaptive",
        ensure_indexes: bool = True,
        wakeups: bool = True,
    ) -> None:
        setup = checked_setup(
            db_name=db_name,
            prefix=prefix,
            clock=clock,
            partitions=partitions,
            strategy=strategy,
            ensure_indexes=ensure_indexes,
            wakeups=wakeups,
        )
        self._lease = checks.positive_seconds("lease", lease)
        self._max_attempts = checks.count("max_attempts", max_attempts)
        kept = Retention(
            done=_arguments.retention("keep_done", keep_done),
            failed=_arguments.retention("keep_failed", keep_failed),
        )
        self._store = store = JobStore(Driver(client), setup, checked_hint(hint))
        super().__init__(store)
        self._enqueuer = Enqueuer(store)
        self._settler = Settler(store, kept)
        self._claimer = Claimer(store, self._settler)
        self._upkeep = Upkeep(store, self._settler)
        self._view = View(store)
        self._recurrer = Recurrer(store)
        self._history = History(store)

    @classmethod
    def connect(
        cls,
        url: str = "mongodb://localhost:27017",
        db_name: str = "fairlane",
        *,
        driver: str = "motor",
        connect_timeout: Seconds = 10.0,
        **options: Any,
    ) -> Opening[Self]:
        """Open a client of its own: `await` the result, or enter it with `async with`.

        Arguments and errors are those of `AsyncMongoTransport.from_url`.
        """
        return cls._by_url(
            "connect",
            url,
            db_name,
            driver=driver,
            connect_timeout=connect_timeout,
            options=options,
        )

    async def enqueue(
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
        """Add a job; when this returns it is stored on a majority.

        A call that raised may have happened; with a `unique_key` it can be repeated without harm.

        Args:
            payload: any BSON value, as for `publish`.
            type: what kind of work it is; claims name it.
            priority: an int of 32 bits; higher ones are claimed first.
            delay: seconds before it may be claimed.
            run_at: instead of a delay the moment, as a datetime with a tzinfo.
            max_attempts: how often it is started before it fails.
            unique_key: of which this type has one job at a time that has not ended.
            on_duplicate: if there is one: "skip" leaves it as it is, "replace" gives it this
                payload, priority, time and number of attempts if nobody works on it, "raise"
                raises. What is returned tells. Without a `unique_key` nothing is a duplicate, so
                only "skip" is allowed.

        Raises:
            ConfigurationError: a bad argument; nothing was written.
            PayloadError: the payload cannot be stored; nothing was written.
            Duplicate: `on_duplicate` is "raise", and the key is taken.
        """
        job = NewJob(payload, type, priority, delay, run_at, max_attempts, unique_key)
        checked_key(job, checked_on_duplicate(on_duplicate))
        draft = Draft.checked(job, max_attempts=self._max_attempts)
        await self._store.ready()
        enqueued = await self._enqueuer.enqueue(draft, on_duplicate)
        self._announcer.announce()
        return enqueued

    async def enqueue_many(
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
        """Add many jobs in one command, and one or two more if unique keys are taken.

        Each item is a payload, or a `NewJob` with options of its own; the arguments are those of
        `enqueue`, for what the items leave out. A bad item does not keep the others from being
        stored: its error is in `errors`, with its index, and so is the `Duplicate` of one whose key
        is taken if `on_duplicate` is "raise", which says nothing about items without a key.

        Raises:
            ConfigurationError: a bad argument, or nothing names a type; nothing was written.
        """
        checked_on_duplicate(on_duplicate)
        defaults = NewJob(None, type, priority, delay, run_at, max_attempts)
        checked_defaults(defaults)
        items = _arguments.several("payloads", payloads)
        checked_types(items, type)
        drafts = [self._draft(item, defaults) for item in items]
        await self._store.ready()
        enqueued = await self._enqueuer.enqueue_many(drafts, on_duplicate)
        self._announcer.announce()
        return enqueued

    def _draft(self, item: Any, defaults: NewJob) -> Draft | Exception:
        try:
            return Draft.checked(with_defaults(item, defaults), max_attempts=self._max_attempts)
        except FairlaneError as error:
            return error

    async def claim(
        self, *types: str, worker_id: str | None = None, lease: Seconds | None = None
    ) -> Job | None:
        """Lease the most urgent due job of these types, or of any; None if there is none.

        What is given are types: the name of a worker goes to `worker_id`.

        Until it is settled or the lease has run out no other claim returns it. The claim counts as
        an attempt, also if the worker dies. A job that it finds without an attempt left fails, and
        the claim goes on. At least half of the lease is left on return. Cancelled, it gives back
        what it leased.

        Args:
            types: what to claim; none means everything.
            worker_id: names the claimer, for people; made of host and process if not given.
            lease: seconds, above 0.
        """
        request = self._request(types, worker_id, lease)
        return await self._claimer.claim(request)

    dequeue = claim

    async def claim_many(
        self,
        n: int,
        *types: str,
        worker_id: str | None = None,
        lease: Seconds | None = None,
    ) -> list[Job]:
        """Lease up to `n` jobs (1 to 1,000), in three commands or four.

        Fewer than `n` if no more are due, or if others were quicker; none only if none is due, or
        if the database is so slow that all leases came too late. Arguments are those of `claim`.
        """
        checks.count("n", n, most=MOST_AT_ONCE)
        request = self._request(types, worker_id, lease)
        return await self._claimer.claim_many(request, n)

    async def ack(self, job: Job, result: Any = None) -> bool:
        """End the job as done, with a BSON value to be kept with it.

        Returns False, and changes nothing, if its lease is no longer held. Succeeds after the lease
        has run out as long as nobody else has claimed it. Cancelled, it is finished all the same.

        Raises:
            TypeError: not a claimed `Job`.
        """
        held = _arguments.job(job)
        kept = None if result is None else as_bson("result", result, beside=0)
        await self._store.ready()
        (is_held,) = await self._settler.ack([held], kept)
        return is_held

    async def ack_many(self, jobs: Iterable[Job]) -> int:
        """End each job as `ack` does, in one command or two; return how many were held."""
        held = _arguments.jobs(jobs)
        await self._store.ready()
        return sum(await self._settler.ack(held))

    async def nack(self, job: Job, *, delay: Seconds = 0.0, error: str | None = None) -> Outcome:
        """Give the job back for another attempt after `delay` seconds; after its last one it fails.

        `error` is kept as `last_error`. Raises as `ack`.
        """
        held = _arguments.job(job)
        seconds = checks.seconds("delay", delay)
        text = checks.optional_text("error", error)
        await self._store.ready()
        return await self._settler.nack(held, seconds, text)

    async def fail(self, job: Job, *, error: str | None = None) -> bool:
        """End the job as failed, whatever attempts are left. Returns and raises as `ack`."""
        held = _arguments.job(job)
        text = checks.optional_text("error", error)
        await self._store.ready()
        (is_held,) = await self._settler.fail([held], text)
        return is_held

    async def release(self, job: Job, *, interrupted: bool = False) -> bool:
        """Give the job back at once without counting the attempt. Returns and raises as `ack`.

        `interrupted` counts it among those whose handler was stopped: `Job.interrupted`.
        """
        held = _arguments.job(job)
        was_begun = checks.flag("interrupted", interrupted)
        await self._store.ready()
        (is_held,) = await self._settler.release([held], begun=was_begun)
        return is_held

    async def release_many(self, jobs: Iterable[Job]) -> list[bool]:
        """Give jobs back as `release` does, in one command; return the results in order."""
        held = _arguments.jobs(jobs)
        await self._store.ready()
        return await self._settler.release(held)

    async def extend(self, job: Job, lease: Seconds | None = None) -> Job:
        """Hold the job for at least `lease` seconds from now; return it with its new end.

        Raises:
            JobLost: its lease is no longer held; nothing was changed. It is a `LeaseLost`.
        """
        held = _arguments.job(job)
        seconds = self._lease if lease is None else checks.positive_seconds("lease", lease)
        await self._store.ready()
        (extended,) = await self._settler.extend_many([held], seconds)
        if extended is None:
            raise JobLost(held.id, held.type, held.epoch)
        return extended

    async def extend_many(
        self, jobs: Iterable[Job], lease: Seconds | None = None
    ) -> list[Job | None]:
        """Hold each job as `extend` does, in one command; None for one that is held no longer."""
        held = _arguments.jobs(jobs)
        seconds = self._lease if lease is None else checks.positive_seconds("lease", lease)
        await self._store.ready()
        return await self._settler.extend_many(held, seconds)

    async def reclaim_stale(
        self, *, older_than: Seconds | None = None, type: str | None = None
    ) -> Reclaimed:
        """Put back jobs whose lease has run out; those without an attempt left fail.

        Claims find them anyway: this makes the counts tell of them. A live lease is never taken.

        Args:
            older_than: only those that were claimed more than so many seconds ago.
            type: only those of this type.
        """
        seconds = None if older_than is None else checks.seconds("older_than", older_than)
        kind = None if type is None else _arguments.job_type("type", type)
        return await self._upkeep.reclaim(seconds, kind)

    async def size(self, type: str | None = None) -> int:
        """Count the jobs that wait, those that are not due yet included."""
        return await self._count("pending", type)

    async def in_flight(self, type: str | None = None) -> int:
        """Count the jobs that were claimed and not settled, whether or not their leases last."""
        return await self._count("processing", type)

    async def failed(self, type: str | None = None) -> int:
        """Count the jobs that failed, and are kept."""
        return await self._count("failed", type)

    async def total(self, type: str | None = None) -> int:
        """Count all jobs, those that have ended and are kept included."""
        return await self._count(None, type)

    async def stats(self, type: str | None = None) -> JobStats:
        """Count jobs by what they are, all at one moment."""
        kind = None if type is None else _arguments.job_type("type", type)
        await self._store.ready()
        return await self._view.stats(kind)

    async def get(self, id: str) -> Job | None:
        """Return a job as it is now; it cannot be settled with that."""
        key = _arguments.key(id)
        await self._store.ready()
        return await self._view.get(key)

    async def cancel(self, id: str) -> bool:
        """Delete a job that waits; False if somebody works on it, or if there is none."""
        key = _arguments.key(id)
        await self._store.ready()
        return await self._upkeep.cancel(key)

    async def redrive(self, id: str | None = None, *, type: str | None = None) -> int:
        """Give failed jobs all their attempts again, at once; return how many.

        With neither argument all of them. One whose unique key another job has stays failed.
        """
        key = None if id is None else _arguments.key(id)
        kind = None if type is None else _arguments.job_type("type", type)
        await self._store.ready()
        number = await self._upkeep.redrive(key, kind)
        self._announcer.announce()
        return number

    async def purge(self, type: str | None = None) -> int:
        """Delete the jobs that have ended, of one type or of all; return how many."""
        kind = None if type is None else _arguments.job_type("type", type)
        await self._store.ready()
        return await self._upkeep.purge(kind)

    async def force_ack(self, id: str) -> bool:
        """End a job as done, whoever works on it: for administration. It is logged."""
        return await self._force(id, "done")

    async def force_fail(self, id: str) -> bool:
        """End a job as failed, whoever works on it: for administration. It is logged."""
        return await self._force(id, "failed")

    async def force_release(self, id: str) -> bool:
        """Let a job be claimed, whoever works on it: for administration. It is logged."""
        return await self._force(id, "pending")

    async def remove_recurring(self, name: str) -> bool:
        """Delete a recurring job, whoever runs it; False if there is none.

        Take its definition out of all programs first: a pool that starts with it creates it again.
        A run that is under way ends as one whose lease was lost.
        """
        kind = _arguments.job_type("name", name)
        await self._store.ready()
        return await self._recurrer.remove(kind)

    async def history(
        self, type: str | None = None, *, job_id: str | None = None, limit: int = 100
    ) -> list[Execution]:
        """Return the latest executions of the jobs whose type has `keep_history`, newest first.

        A row is written when an execution starts, and again when it has ended. One whose worker
        died is "running" until a pool claims its job again.
        """
        kind = None if type is None else _arguments.job_type("type", type)
        key = None if job_id is None else _arguments.key(job_id)
        checks.count("limit", limit)
        await self._store.ready()
        return await self._history.rows(kind, key, limit)

    async def reconcile(self) -> int:
        """Put jobs into a partition that claimers look into; return how many.

        Measures now and then which index suits claims, too. Safe at any time and from many
        processes; a loop in the background should call it each minute or so.
        """
        return await self._upkeep.reconcile()

    async def listen(
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
        """Let `handler(job)` work on the jobs of one type, one after the other, until cancelled.

        A job is acked when the handler returns or raises `Discard`, fails when it raises `Fail` or
        `Reject`, and is nacked with its error when it raises anything else: after the delay of a
        `Retry`, else after the back-off. An answer that is returned counts as raised. Leases are
        renewed meanwhile, those of jobs that wait for their turn too; a handler whose lease is
        lost is cancelled. Cancelled, it gives back what it has not settled, uncounted: also a job
        whose plain function then still runs to its end, which will be repeated. Errors of
        the database are logged, and it goes on. Local enqueues are seen at once.

        Args:
            handler: `async def handle(job)`, or `def handle(job)`, which runs in a thread.
            type: of the jobs to work on.
            poll_interval: seconds between two looks for work when there is none.
            reclaim_every: seconds between two rounds of `reclaim_stale`, of this type, and
                `reconcile`.
            batch: so many jobs are claimed together.
            backoff: how long a failed job waits for its next attempt.
        """
        pace = Pace(
            poll_interval=checks.positive_seconds("poll_interval", poll_interval),
            reclaim_every=checks.positive_seconds("reclaim_every", reclaim_every),
            batch=checks.count("batch", batch, most=MOST_AT_ONCE),
            backoff=_arguments.backoff(backoff),
        )
        checked_handler = _arguments.handler(handler)
        request = self._request((_arguments.job_type("type", type),), worker_id, None)
        await self._store.ready()
        listener = Listener(
            self._claimer,
            self._settler,
            self._upkeep,
            handler=checked_handler,
            request=request,
            pace=pace,
        )
        unsubscribe = self.subscribe(listener.wake)
        try:
            await listener.run()
        finally:
            unsubscribe()

    async def clear(self) -> int:
        """Delete all jobs, whatever they are; return how many."""
        await self._store.ready()
        return await self._upkeep.clear()

    async def drop(self) -> None:
        """Drop the collection and its settings."""
        await self._upkeep.drop()

    def working_side(self) -> WorkingSide:
        """Return what a `WorkerPool` works on."""
        return WorkingSide(
            self._store,
            claimer=self._claimer,
            settler=self._settler,
            upkeep=self._upkeep,
            recurrer=self._recurrer,
            history=self._history,
            lease=self._lease,
            subscribe=self.subscribe,
            separate=self.separate,
        )

    def _request(
        self, types: tuple[str, ...], worker_id: str | None, lease: Seconds | None
    ) -> Request:
        return Request(
            types=_arguments.types(types),
            worker_id=_arguments.worker_id(worker_id),
            lease=self._lease if lease is None else checks.positive_seconds("lease", lease),
        )

    async def _count(self, state: str | None, type: str | None) -> int:
        kind = None if type is None else _arguments.job_type("type", type)
        await self._store.ready()
        return await self._view.count(state, kind)

    async def _force(self, id: str, state: Any) -> bool:
        key = _arguments.key(id)
        await self._store.ready()
        return await self._upkeep.force(key, state)
