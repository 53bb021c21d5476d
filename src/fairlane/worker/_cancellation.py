"""Tell the cancellation of a task of the pool from that of something it waited for."""

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager

import anyio

__all__ = ("is_being_cancelled", "only_own_cancellation")


def is_being_cancelled() -> bool:
    task = asyncio.current_task()
    is_cancelled = task is not None and task.cancelling() > 0
    return is_cancelled or anyio.current_effective_deadline() == -math.inf


@contextmanager
def only_own_cancellation() -> Iterator[None]:
    """Make an error like any other of a `CancelledError` that is not meant for this task.

    It would end the task without a word, and the pool would go on without it.
    """
    try:
        yield
    except asyncio.CancelledError as error:
        if is_being_cancelled():
            raise
        raise RuntimeError("something that the source waited for was cancelled") from error
