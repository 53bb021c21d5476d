"""Cancel a driver's call once, however often its caller is cancelled.

anyio cancels a task again and again until it has left the cancelled scope. A call of an
`AsyncMongoClient` that waits for a server bears that on Python 3.12 and later only: before,
`asyncio.wait_for` gives up at the second time the task that is about to take the client's lock
(PyMongo 4.20, `pymongo.lock`). Nobody ever releases it then, and no later call of the client ends.
A first cancellation may get lost in the same place, so it is repeated, but not before the call had
time to end.
"""

import asyncio
import sys
from collections.abc import Awaitable
from typing import TypeVar

from fairlane.driver._kinds import Kind
from fairlane.shield import outlast

__all__ = ("cancelled_once", "end", "guarded")

T = TypeVar("T")

REPEAT_AFTER = 0.25
IS_FRAGILE: bool = sys.version_info < (3, 12)


def guarded(kind: Kind, call: Awaitable[T]) -> Awaitable[T]:
    """Return a call whose cancellation cannot break the client."""
    return cancelled_once(call) if IS_FRAGILE and kind == "pymongo" else call


async def cancelled_once(call: Awaitable[T]) -> T:
    """Run the call in a task of its own; cancelled, cancel that once and wait for its end."""
    task = asyncio.ensure_future(call)
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:
        await end(task)
        raise
    return task.result()


async def end(task: "asyncio.Future[T]") -> None:
    """Cancel it, if it is not done, and wait for its end."""
    while not task.done():
        task.cancel()
        await outlast(task, REPEAT_AFTER)
    if not task.cancelled():
        task.exception()  # nobody is there to hear it
