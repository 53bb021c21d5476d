"""Which source of work a pool gets from what an application gives it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fairlane.errors import ConfigurationError
from fairlane.jobs import AsyncJobQueue, Jobs
from fairlane.worker._calling import checked_handler
from fairlane.worker._jobs import JobHooks, JobSource
from fairlane.worker._messages import Messages
from fairlane.worker._middleware import Middleware
from fairlane.worker._settings import Settings, checked_shares
from fairlane.worker._together import Together
from fairlane.worker._work import WorkSource
from fairlane.worker.source import checked_source, oddity_of, problem_of, takes_batches

__all__ = ("Opener", "Parts", "checked_parts", "opener")

Opener = Callable[[], WorkSource[Any]]
"""Returns the source of one run: what a run counts begins anew."""

OF_TRANSPORTS = {
    "visibility": 30.0,
    "min_priority": 0,
    "order": "fair",
    "batch": 1,
    "max_attempts": 5,
}
"""Arguments that say nothing about jobs, and what they are when they are left out."""

OF_TYPES = "each type of jobs says its own, @jobs.event(name, {}=...)"
OF_JOBS = {
    "visibility": OF_TYPES.format("lease"),
    "min_priority": "a pool claims jobs of every priority",
    "order": "jobs of higher priority always come first",
    "batch": "a job is handled alone",
    "max_attempts": OF_TYPES.format("max_attempts"),
}
"""What to do about jobs instead."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Pairs of source and handler that one pool serves, and what share of its slots each has."""

    pairs: Sequence[tuple[Any, Any]]
    shares: Sequence[float]


def opener(
    source: Any, handler: Any, settings: Settings, hooks: JobHooks, middleware: Sequence[Middleware]
) -> Opener:
    """Return what opens the source; raises `ConfigurationError` for what does not go together."""
    parts = source if isinstance(source, Parts) else Parts([(source, handler)], [1.0])
    of_jobs = [_is_of_jobs(*pair) for pair in parts.pairs]
    if not any(of_jobs) and hooks != JobHooks():
        raise ConfigurationError("guard and on_exhausted are for jobs: leave them out")
    if all(of_jobs):
        _refuse_of_transports(settings)
    if any(of_jobs) and settings.lanes is not None:
        raise ConfigurationError(f"lanes are for transports: {OF_JOBS['min_priority']}")
    open_part = partial(_of_part, settings=settings, hooks=hooks, middleware=middleware)
    openers = [open_part(*pair) for pair in parts.pairs]
    if len(openers) == 1:
        return openers[0]
    return lambda: Together([each() for each in openers], parts.shares, settings)


def _refuse_of_transports(settings: Settings) -> None:
    for name, default in OF_TRANSPORTS.items():
        if settings.says_more_than(**{name: default}):
            raise ConfigurationError(f"{name} is for transports: {OF_JOBS[name]}")


def checked_parts(parts: Sequence[Any], shares: object) -> Parts:
    """Return pairs of source and handler, with their shares."""
    if not parts or not all(isinstance(part, tuple) and len(part) == 2 for part in parts):
        raise ConfigurationError(
            "give pairs of source and handler: together((transport, handle), (queue, jobs))"
        )
    return Parts(parts, checked_shares(shares, len(parts)))


def _is_of_jobs(source: object, handler: object) -> bool:
    return isinstance(source, AsyncJobQueue) or isinstance(handler, Jobs)


def _of_part(
    source: Any,
    handler: Any,
    *,
    settings: Settings,
    hooks: JobHooks,
    middleware: Sequence[Middleware],
) -> Opener:
    _refuse_swapped(source, handler)
    if _is_of_jobs(source, handler):
        queue, jobs = _checked_jobs(source, handler)
        return lambda: JobSource(queue.working_side(), tuple(jobs), settings, hooks, middleware)
    checked_source(source)
    if settings.batch > 1 and not takes_batches(source):
        raise ConfigurationError(
            f"batch must be 1: claims and settlements of {_named(source)} have no batch= and done="
        )
    if settings.batch > 1 and settings.max_attempts == 1:
        raise ConfigurationError(
            "with a batch max_attempts must be 2 at least: the death of a worker is charged to the "
            "first message of its batch, whichever of them caused it"
        )
    messages: Messages[Any] = Messages(source, checked_handler(handler), settings, middleware)
    return lambda: messages


def _refuse_swapped(source: object, handler: object) -> None:
    if isinstance(source, Jobs):
        raise ConfigurationError("the queue comes first, the Jobs second: WorkerPool(queue, jobs)")
    if problem_of(source) is not None and problem_of(handler) is None and callable(source):
        name = type(handler).__name__
        raise ConfigurationError(
            f"the {name} comes first, its handler second: WorkerPool(transport, handle)"
        )


def _checked_jobs(queue: object, jobs: object) -> tuple[AsyncJobQueue, Jobs]:
    if not isinstance(jobs, Jobs):
        raise ConfigurationError(
            f"the handlers of an AsyncJobQueue are a Jobs registry, not {_named(jobs)}: "
            "WorkerPool(queue, jobs), with `jobs = Jobs()`"
        )
    if not isinstance(queue, AsyncJobQueue):
        problem = oddity_of(queue) or f"{_named(queue)} is no queue"
        raise ConfigurationError(
            f"a Jobs registry goes with an AsyncJobQueue, WorkerPool(queue, jobs): {problem}"
        )
    if not len(jobs):
        raise ConfigurationError("no job is registered: the pool would have nothing to claim")
    return queue, jobs


def _named(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
