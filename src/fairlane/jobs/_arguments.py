"""Arguments of the verbs, checked before anything is written."""

import os
import socket
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from fairlane import checks
from fairlane.checks import Seconds
from fairlane.errors import ConfigurationError
from fairlane.jobs._listen import Handler
from fairlane.jobs.model import Job
from fairlane.retry import Backoff

__all__ = (
    "backoff",
    "handler",
    "job",
    "job_type",
    "jobs",
    "key",
    "retention",
    "several",
    "types",
    "worker_id",
)


def job(value: object, name: str = "job") -> Job:
    """Return a claimed job; anything else is a `TypeError` that says what to give."""
    if isinstance(value, str):
        raise TypeError(
            f"{name} must be the Job that claim returned, not its id: an id does not tell whose "
            "lease it is (force_ack, force_fail and force_release end a job whoever holds it)"
        )
    if not isinstance(value, Job):
        raise TypeError(f"{name} must be the Job that claim returned, not {value!r:.100}")
    if value.token is None:
        raise TypeError(f"{name} must be a Job that claim returned; {value.id} was only looked at")
    return value


def jobs(values: Iterable[Job]) -> list[Job]:
    if isinstance(values, str | Job) or not isinstance(values, Iterable):
        raise TypeError(f"jobs must be several jobs, not {values!r:.100}")
    return [job(each, f"jobs[{number}]") for number, each in enumerate(values)]


def several(name: str, values: Any) -> list[Any]:
    """Return the items of an iterable; a text or a dict is one payload, not several."""
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        raise ConfigurationError(f"{name} must be several payloads, not {values!r:.100}")
    return list(values)


def types(values: tuple[object, ...]) -> tuple[str, ...]:
    for each in values:
        if isinstance(each, list | tuple | set | frozenset):
            raise ConfigurationError("types are given one by one: unpack them, claim(*types)")
        if isinstance(each, int | float | timedelta):
            raise ConfigurationError(
                f"types must be str, not {each!r}: the seconds of the lease go to lease="
            )
    return tuple(dict.fromkeys(job_type("types", each) for each in values))


def job_type(name: str, value: object) -> str:
    if not checks.text(name, value):
        raise ConfigurationError(f"{name} must not be empty")
    return str(value)


def key(value: object) -> str:
    """Return the id of a job. A dict would be an operator in a filter."""
    if isinstance(value, Job):
        return value.id
    return checks.text("id", value)


def worker_id(value: object) -> str:
    if value is None:
        return f"{socket.gethostname()}-{os.getpid()}"
    return job_type("worker_id", value)


def handler(value: Handler) -> Handler:
    return checks.function("handler", value, "job")


def backoff(value: Backoff | None) -> Backoff:
    if value is None:
        return Backoff()
    if not isinstance(value, Backoff):
        raise ConfigurationError(f"backoff must be a Backoff, not {value!r:.100}")
    return value


def retention(name: str, value: Seconds | None) -> float | None:
    return None if value is None else checks.seconds(name, value)
