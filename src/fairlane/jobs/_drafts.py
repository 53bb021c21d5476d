"""Jobs to be enqueued, checked before anything is written."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from fairlane import checks
from fairlane.checks import Seconds
from fairlane.errors import ConfigurationError
from fairlane.payload import as_bson

__all__ = (
    "Draft",
    "NewJob",
    "OnDuplicate",
    "checked_defaults",
    "checked_key",
    "checked_on_duplicate",
    "checked_priority",
    "checked_types",
    "with_defaults",
)

OnDuplicate = Literal["skip", "replace", "raise"]
ON_DUPLICATE = ("skip", "replace", "raise")


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be enqueued, with options of its own; see `AsyncJobQueue.enqueue` for each."""

    payload: Any
    type: str | None = None
    priority: int | None = None
    delay: Seconds | None = None
    run_at: datetime | None = None
    max_attempts: int | None = None
    unique_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A checked job that is not stored yet. `due_at` or `delay` is set, or none for now."""

    type: str
    payload: Any
    priority: int
    delay: float
    due_at: float | None
    max_attempts: int
    unique_key: str | None

    @classmethod
    def checked(cls, job: NewJob, *, max_attempts: int) -> "Draft":
        """Return a draft; raises `ConfigurationError` or `PayloadError` for the first bad part."""
        kind = _nonempty("type", job.type)
        key = None if job.unique_key is None else _nonempty("unique_key", job.unique_key)
        if job.delay is not None and job.run_at is not None:
            raise ConfigurationError("give delay or run_at, not both")
        beside = 4 * len(kind.encode()) + len((key or "").encode())
        attempts = max_attempts if job.max_attempts is None else job.max_attempts
        return cls(
            type=kind,
            priority=checked_priority(0 if job.priority is None else job.priority),
            delay=checks.seconds("delay", 0.0 if job.delay is None else job.delay),
            due_at=None if job.run_at is None else _epoch(job.run_at),
            max_attempts=checks.count("max_attempts", attempts),
            unique_key=key,
            payload=as_bson("payload", job.payload, beside=beside),
        )


def checked_on_duplicate(value: OnDuplicate) -> OnDuplicate:
    if value not in ON_DUPLICATE:
        raise ConfigurationError(f"on_duplicate must be one of {ON_DUPLICATE}, not {value!r}")
    return value


def checked_key(job: NewJob, on_duplicate: OnDuplicate) -> None:
    """Refuse to look for duplicates of a job that can have none: they would all be stored."""
    if job.unique_key is None and on_duplicate != "skip":
        raise ConfigurationError(
            f"on_duplicate={on_duplicate!r} needs a unique_key: jobs without one are never "
            "duplicates, whatever their payloads"
        )


def checked_types(items: Iterable[Any], type: str | None) -> None:
    """Refuse a call in which nobody names a type."""
    named = [isinstance(item, NewJob) and item.type is not None for item in items]
    if type is None and named and not any(named):
        raise ConfigurationError(
            "no item names a type: enqueue_many(payloads, type), or NewJob(payload, type) as items"
        )


def checked_defaults(defaults: NewJob) -> None:
    """Refuse what would be wrong for every job that leaves it out."""
    Draft.checked(
        replace(defaults, type="any" if defaults.type is None else defaults.type), max_attempts=1
    )


def with_defaults(item: Any, defaults: NewJob) -> NewJob:
    """Return an item of `enqueue_many` as a job: what it leaves out is as for all of them."""
    if not isinstance(item, NewJob):
        return replace(defaults, payload=item)
    given = {
        name: value
        for name in ("type", "priority", "max_attempts", "unique_key")
        if (value := getattr(item, name)) is not None
    }
    if item.delay is not None or item.run_at is not None:
        given |= {"delay": item.delay, "run_at": item.run_at}
    return replace(defaults, payload=item.payload, **given)


def _nonempty(name: str, value: object) -> str:
    if not checks.text(name, value):
        raise ConfigurationError(f"{name} must not be empty")
    return str(value)


def checked_priority(value: object, name: str = "priority") -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise ConfigurationError(f"{name} must be an int of 32 bits, not {value!r}")
    return value


def _epoch(value: object) -> float:
    return checks.moment("run_at", value).timestamp()
