"""`Jobs`: the types of jobs that a program knows, and what it does about each."""

from collections.abc import Callable, Iterator
from typing import Any

from fairlane import checks
from fairlane.checks import Seconds
from fairlane.errors import ConfigurationError
from fairlane.jobs._definition import (
    Definition,
    EnqueuingQueue,
    EventJob,
    One,
    RecurringJob,
    checked_definition,
    checked_queue,
)
from fairlane.jobs._schedule import Misfire, checked_misfire, checked_schedule
from fairlane.retry import RetryPolicy

__all__ = ("Jobs",)


class Jobs:
    """A registry of jobs: a `WorkerPool` claims the types that are in it, and no others.

    Handlers are `async def`, or plain functions, which run in threads. What they raise decides:
    nothing is an ack; `Retry(delay)` starts the job again, as any other error does after the
    back-off of its type; `Reject(reason)` or `Fail(reason)` lets it fail at once; `Discard(reason)`
    ends it as if it were done. One of these that is returned counts as raised. When no attempt is
    left, an error or a `Retry` lets it fail.

    Other Parameters:
        priority: of its jobs; higher ones are claimed first.
        max_attempts: how often a job is started before it fails; by default what the queue says.
            Of a recurring job: how often one run is started (3) before its next regular run; it
            never fails for good.
        lease: seconds for which a claimed job is nobody else's; renewed while the handler works.
        max_concurrency: how many jobs of this type may run at once in each pool.
        retry: the `Backoff` after a failed attempt, or a dict of them by exception type (None:
            fail at once); by default that of the pool.
        on_error: `on_error(error, ctx)` returns `Retry`, `Discard` or `Fail`, or None for what
            would have happened anyway; not asked about those four themselves. If it raises, or
            returns something else, that is logged, and what would have happened anyway happens.
        on_stale: `on_stale(ctx)` hears that the lease was lost under the handler, or before it
            could be settled: the job may be running elsewhere. Its errors are logged.
        stale_priority: what the priority of such a job is lowered to, and of one whose worker died,
            so that other jobs come before its next start; None leaves it. A recurring job has its
            own again after the run.
        keep_history: seconds for which a row about each execution is kept, with what the handler
            returned; see `AsyncJobQueue.history`. None for no rows.

    Example:
        >>> jobs = Jobs()
        >>> @jobs.event("email.send", max_attempts=5, lease=60, max_concurrency=2)
        ... async def send_email(ctx: JobContext, params: dict) -> None: ...
        >>> await send_email.enqueue(queue, {"to": "ann@example.org"}, delay=60)
    """

    def __init__(self) -> None:
        self._definitions: dict[str, Definition] = {}
        self._events: dict[str, EventJob] = {}

    def __iter__(self) -> Iterator[Definition]:
        return iter(tuple(self._definitions.values()))

    def __len__(self) -> int:
        return len(self._definitions)

    def __contains__(self, name: object) -> bool:
        return name in self._definitions

    def event(
        self,
        name: str,
        *,
        payload: type[Any] | None = None,
        priority: int = 0,
        max_attempts: int | None = None,
        lease: Seconds | None = None,
        max_concurrency: int | None = None,
        retry: RetryPolicy | None = None,
        on_error: Callable[..., Any] | None = None,
        on_stale: Callable[..., Any] | None = None,
        stale_priority: int | None = None,
        keep_history: Seconds | None = None,
    ) -> Callable[[Callable[..., Any]], EventJob]:
        """Register `handler(ctx, params)` for jobs that are enqueued under this name.

        Args:
            name: the type of the jobs.
            payload: a class with `model_validate` and `model_dump`, such as a pydantic model, by
                which payloads are validated when they are enqueued and again when they are handled
                (one that is refused then lets its job fail). What it dumps must be BSON, and what
                it validates: pydantic's is asked for `by_alias` and `round_trip`. None for plain
                BSON values.

        The other options are told at the class.

        Raises:
            ConfigurationError: an option is bad, or the name is taken.
        """
        if callable(name):
            raise ConfigurationError('name must be a str: write @jobs.event("some.name")')
        options = {
            "payload": payload,
            "priority": priority,
            "max_attempts": max_attempts,
            "lease": lease,
            "max_concurrency": max_concurrency,
            "retry": retry,
            "on_error": on_error,
            "on_stale": on_stale,
            "stale_priority": stale_priority,
            "keep_history": keep_history,
        }

        def register(handler: Callable[..., Any]) -> EventJob:
            job = EventJob(self._add(checked_definition(name, handler, options)))
            self._events[job.name] = job
            return job

        return register

    def recurring(
        self,
        name: str,
        *,
        every: Seconds | str | None = None,
        cron: str | None = None,
        timezone: str | None = None,
        next_run: Callable[..., Any] | None = None,
        misfire: Misfire = "coalesce",
        priority: int = 0,
        max_attempts: int | None = None,
        lease: Seconds | None = None,
        max_concurrency: int | None = None,
        retry: RetryPolicy | None = None,
        on_error: Callable[..., Any] | None = None,
        on_stale: Callable[..., Any] | None = None,
        stale_priority: int | None = None,
        keep_history: Seconds | None = None,
    ) -> Callable[[Callable[..., Any]], RecurringJob]:
        """Register `handler(ctx)` for a job that runs by a schedule, once for each tick.

        It is one record, which the first pool that starts with it creates; any number of pools
        serve it together, and never two at once. The definition of the pool that started last
        decides. To remove one, take it out of the program and `await
        queue.remove_recurring(name)`.

        Args:
            name: of the job, and the type of its record.
            every: a duration: seconds, a `timedelta`, or text such as "24h", "90s", "1h30m". The
                first run is one duration after the job is first seen, and later ones keep step
                with it, however long runs take.
            cron: five fields (minute, hour, day of month, month, day of week), in `timezone`.
                Needs the extra `fairlane[cron]`.
            timezone: an IANA name such as "Europe/Berlin"; must be given with `cron`.
            next_run: a function of an aware datetime that returns the next one after it. That it
                names other moments by now is noticed after the next run.
            misfire: what becomes of ticks that passed while nobody could run them. "coalesce": one
                run makes up for all of them. "skip": a tick that is more than 60 seconds late is
                left out. "all": each is made up, but no more than the last 100.

        Exactly one of `every`, `cron` and `next_run`. When clocks are changed, a cron schedule
        with a fixed minute and hour runs once each day that it names: at a time that does not
        exist it runs at the moment of the change, and of a time that comes twice the first counts.
        One whose minute or hour begins with `*` follows the clock as it is: what is skipped is not
        made up, and what comes twice runs twice.

        The other options are told at the class.

        Raises:
            ConfigurationError: an option is bad, or the name is taken.
        """
        options = {
            "priority": priority,
            "max_attempts": max_attempts,
            "lease": lease,
            "max_concurrency": max_concurrency,
            "retry": retry,
            "on_error": on_error,
            "on_stale": on_stale,
            "stale_priority": stale_priority,
            "keep_history": keep_history,
        }
        schedule = checked_schedule(every=every, cron=cron, timezone=timezone, next_run=next_run)
        policy = checked_misfire(misfire)

        def register(handler: Callable[..., Any]) -> RecurringJob:
            definition = checked_definition(
                name, handler, options, schedule=schedule, misfire=policy
            )
            return RecurringJob(self._add(definition))

        return register

    def enqueue(
        self, queue: EnqueuingQueue[One, Any], name: str, params: Any = None, **options: Any
    ) -> One:
        """Enqueue a job by the name of its type, as its own `enqueue` does.

        Raises:
            ConfigurationError: nothing of this name was registered with `event`, or as there.
        """
        checked_queue(queue, "jobs.enqueue(queue, name, params)")
        job = self._events.get(checks.text("name", name))
        if job is None:
            known = ", ".join(map(repr, self._events)) or "none"
            raise ConfigurationError(f"no event job {name!r} is registered here, only {known}")
        return job.enqueue(queue, params, **options)

    def _add(self, definition: Definition) -> Definition:
        name = definition.name
        if name in self._definitions:
            first = _place(self._definitions[name].handler)
            raise ConfigurationError(f"a job named {name!r} is registered already, {first}")
        self._definitions[name] = definition
        return definition


def _place(handler: Callable[..., Any]) -> str:
    """Say where a function is, for people."""
    named = f"by {getattr(handler, '__qualname__', type(handler).__qualname__)}"
    code = getattr(handler, "__code__", None)
    return named if code is None else f"{named}, {code.co_filename}:{code.co_firstlineno}"
