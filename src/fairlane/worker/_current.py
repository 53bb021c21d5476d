"""Which piece of work the running code is part of."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fairlane.jobs import JobContext
from fairlane.model import Lease

__all__ = ("at_work_on", "current_job", "current_lease")

_current: ContextVar[Lease[Any] | JobContext | None] = ContextVar("fairlane.work", default=None)


def current_lease() -> Lease[Any] | None:
    """Return the lease that a handler of messages works under; None anywhere else.

    It is known to all that a handler calls, to its middleware, to tasks that it starts and to
    `asyncio.to_thread`, also where the handler itself runs in a thread. A `threading.Thread` of
    your own knows of none.
    """
    current = _current.get()
    return current if isinstance(current, Lease) else None


def current_job() -> JobContext | None:
    """Return the context of the job that a handler works on; None anywhere else.

    The same goes as for `current_lease`. The guard of a job knows it, too.
    """
    current = _current.get()
    return current if isinstance(current, JobContext) else None


@contextmanager
def at_work_on(work: Lease[Any] | JobContext) -> Iterator[None]:
    token = _current.set(work)
    try:
        yield
    finally:
        _current.reset(token)
