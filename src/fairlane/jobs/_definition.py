"""Definitions: what an application says once about a type of jobs."""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from fairlane import checks
from fairlane.conversion import validated
from fairlane.errors import ConfigurationError, PayloadError
from fairlane.jobs._arguments import job_type, several
from fairlane.jobs._drafts import NewJob, checked_priority
from fairlane.jobs._params import checked_model, dumped
from fairlane.jobs._schedule import Misfire, Schedule, is_missed
from fairlane.jobs.model import EnqueuedMany, Job
from fairlane.retry import RetryPolicy, checked_policy

__all__ = (
    "Definition",
    "EnqueuingQueue",
    "EventJob",
    "One",
    "RecurringJob",
    "checked_definition",
    "checked_queue",
)

RECURRING_ATTEMPTS = 3


One = TypeVar("One", covariant=True)
Many = TypeVar("Many", covariant=True)


class EnqueuingQueue(Protocol[One, Many]):
    """What a definition needs of a queue: an `AsyncJobQueue`, or a blocking `JobQueue`.

    `One` and `Many` are what its verbs return: of the one an awaitable, of the other the thing.
    """

    @property
    def enqueue(self) -> Callable[..., One]: ...

    @property
    def enqueue_many(self) -> Callable[..., Many]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """One type of jobs, checked. Durations are seconds; None means what queue or pool say.

    `schedule` and `misfire` are those of a recurring job; without a schedule it is an event job.
    """

    name: str
    handler: Callable[..., Any]
    model: type[Any] | None
    max_attempts: int | None
    lease: float | None
    priority: int
    retry: RetryPolicy | None
    max_concurrency: int | None
    on_error: Callable[..., Any] | None
    on_stale: Callable[..., Any] | None
    keep_history: float | None
    stale_priority: int | None = None
    schedule: Schedule | None = None
    misfire: Misfire = "coalesce"

    @property
    def is_recurring(self) -> bool:
        return self.schedule is not None

    def params(self, payload: Any) -> Any:
        """Return what the handler gets for a stored payload. Raises `PayloadError`."""
        return validated(self.model, payload)

    def lowers(self, job: Job) -> bool:
        """Tell whether a job whose worker died, or was too slow, is to have a lower priority."""
        return self.stale_priority is not None and self.stale_priority < job.priority

    def misses(self, tick: float, now: float) -> bool:
        """Tell whether it is too late for the run of a tick; epoch seconds."""
        return is_missed(self.misfire, tick=tick, now=now)

    @property
    def attempts_of_a_run(self) -> int:
        """How often one run of a recurring job is started before the next regular one."""
        return RECURRING_ATTEMPTS if self.max_attempts is None else self.max_attempts


def checked_definition(
    name: Any, handler: Any, options: Mapping[str, Any], **schedule: Any
) -> Definition:
    """Return a definition; raises `ConfigurationError` naming the first bad option."""
    is_recurring = bool(schedule)
    arguments = ("ctx",) if is_recurring else ("ctx", "params")
    return Definition(
        name=job_type("name", name),
        handler=checks.function("handler", handler, *arguments),
        model=checked_model(options.get("payload")),
        max_attempts=_optional(checks.count, "max_attempts", options),
        lease=_optional(checks.positive_seconds, "lease", options),
        priority=checked_priority(options["priority"]),
        retry=_policy(options["retry"]),
        max_concurrency=_optional(checks.count, "max_concurrency", options),
        on_error=checks.optional_function("on_error", options["on_error"], "error", "ctx"),
        on_stale=checks.optional_function("on_stale", options["on_stale"], "ctx"),
        keep_history=_optional(checks.positive_seconds, "keep_history", options),
        stale_priority=_optional(_checked_priority, "stale_priority", options),
        **schedule,
    )


def _optional(check: Callable[[str, Any], Any], name: str, options: Mapping[str, Any]) -> Any:
    value = options.get(name)
    return None if value is None else check(name, value)


def _checked_priority(name: str, value: Any) -> int:
    return checked_priority(value, name)


def _policy(value: Any) -> RetryPolicy | None:
    return None if value is None else checked_policy("retry", value)


class _Defined:
    """A handler that was registered; it can still be called as the function that it is."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self.__doc__ = definition.handler.__doc__

    @property
    def name(self) -> str:
        return self.definition.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.definition.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class EventJob(_Defined):
    """A type of jobs that are enqueued; what `@jobs.event(...)` makes of a handler.

    Called, it is the handler. Its verbs do what those of the queue do that they are given: of an
    `AsyncJobQueue` they are awaited, of a `JobQueue` they block.

    Attributes:
        name: the type of the jobs.
        definition: what was said about it.

    Example:
        >>> await send_email.enqueue(queue, {"to": "ann"}, delay=60)
        >>> send_email.enqueue(blocking_queue, {"to": "ann"}, delay=60)
    """

    def enqueue(self, queue: EnqueuingQueue[One, Any], params: Any = None, **options: Any) -> One:
        """Enqueue a job of this type. The options are those of `AsyncJobQueue.enqueue`.

        `params` is an instance of the payload model, or what the model makes one of. Priority and
        `max_attempts` are those of the type unless given. Returns what the queue returns: an
        awaitable of `Enqueued`, or with a `JobQueue` that itself.

        Raises:
            PayloadError: the model refused it, or BSON cannot hold it; nothing was written.
            ConfigurationError: the first argument is no queue, or as the queue does.
        """
        checked_queue(queue, "enqueue(queue, params)")
        payload = dumped(self.definition.model, params)
        given = {name: value for name, value in options.items() if value is not None}
        return queue.enqueue(payload, self.name, **{**self._defaults(), **given})

    def enqueue_many(self, queue: EnqueuingQueue[Any, Many], items: Iterable[Any]) -> Many:
        """Enqueue many: each item is `params`, or a `NewJob` with options of its own.

        One that the model refuses does not keep the others from being stored: its error is in
        `errors`, with its index. Returns what the queue returns, as `enqueue` does.
        """
        checked_queue(queue, "enqueue_many(queue, items)")
        jobs: dict[int, NewJob] = {}
        refused: dict[int, Exception] = {}
        for index, item in enumerate(several("items", items)):
            try:
                jobs[index] = self.new(item)
            except PayloadError as error:
                refused[index] = error
        told: Any = queue.enqueue_many(list(jobs.values()), self.name)
        mend = partial(_with_refused, places=tuple(jobs), refused=refused)
        mended: Any = _later(told, mend) if inspect.isawaitable(told) else mend(told)
        return mended  # type: ignore[no-any-return]

    def new(self, item: Any) -> NewJob:
        """Return a valid job of this type for `enqueue_many` of a queue, among those of others.

        `item` is `params`, or a `NewJob` with options of its own.

        Raises:
            PayloadError: the model refused it.
        """
        job = item if isinstance(item, NewJob) else NewJob(item)
        defaults = self._defaults()
        return replace(
            job,
            payload=dumped(self.definition.model, job.payload),
            type=self.name,
            priority=defaults["priority"] if job.priority is None else job.priority,
            max_attempts=(
                self.definition.max_attempts if job.max_attempts is None else job.max_attempts
            ),
        )

    def _defaults(self) -> dict[str, Any]:
        defaults: dict[str, Any] = {"priority": self.definition.priority}
        if self.definition.max_attempts is not None:
            defaults["max_attempts"] = self.definition.max_attempts
        return defaults


class RecurringJob(_Defined):
    """A job that runs again and again; what `@jobs.recurring(...)` makes of a handler.

    Called, it is the handler. Nobody enqueues it: the first pool that starts with it creates it.

    Attributes:
        name: of the job, and the type of its record.
        definition: what was said about it.
    """


def checked_queue(queue: object, call: str) -> None:
    """Refuse what has no `enqueue` and `enqueue_many` of a queue; `call` is how it is done."""
    verbs = ("enqueue", "enqueue_many")
    is_queue = all(callable(getattr(queue, verb, None)) for verb in verbs)
    if is_queue and not isinstance(queue, type | EventJob):
        return
    given = f"the class {queue.__name__}" if isinstance(queue, type) else type(queue).__name__
    raise ConfigurationError(
        f"the queue comes first, {call}: an open AsyncJobQueue or JobQueue, not {given}"
    )


async def _later(
    told: Awaitable[EnqueuedMany], mend: Callable[[EnqueuedMany], EnqueuedMany]
) -> EnqueuedMany:
    return mend(await told)


def _with_refused(
    told: EnqueuedMany, places: tuple[int, ...], refused: Mapping[int, Exception]
) -> EnqueuedMany:
    """Return what became of all items: `told` is about those at `places`."""
    ids = dict(zip(places, told.ids, strict=True))
    errors = {**refused, **{places[number]: error for number, error in told.errors}}
    return replace(
        told,
        ids=tuple(ids.get(index) for index in range(len(places) + len(refused))),
        errors=tuple(sorted(errors.items(), key=lambda item: item[0])),
    )
