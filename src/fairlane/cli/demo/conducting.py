"""Run a performance to its end, or until a signal asks to stop."""

import asyncio
import logging
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from fairlane.cli.demo.display import Display

__all__ = ("Stopped", "conduct", "ignore_signals")

SIGNALS = (signal.SIGINT, signal.SIGTERM)

T = TypeVar("T")


class Stopped(Exception):
    """A signal asked the demo to end; all that it started is gone."""

    def __init__(self, number: int) -> None:
        self.number: int = number
        super().__init__(f"stopped by {signal.Signals(number).name}")


def conduct(work: Coroutine[Any, Any, T], display: Display) -> T:
    """Return what the work returns; of a group of errors only the first is raised."""
    logging.getLogger("fairlane").addHandler(logging.NullHandler())  # errors are shown as such
    try:
        with display:
            return asyncio.run(_stoppable(work, display))
    except BaseExceptionGroup as group:
        raise _first(group) from group


async def _stoppable(work: Coroutine[Any, Any, T], display: Display) -> T:
    """Clean up and raise `Stopped` on SIGINT and SIGTERM; impatient repetitions change nothing."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task is not None
    received: list[int] = []

    def stop(number: int, _: object) -> None:
        if not received:
            loop.call_soon_threadsafe(display.stopping)
            loop.call_soon_threadsafe(task.cancel)
        received.append(number)

    # Not the loop's handlers: those go with the loop, and the process dies of the next signal.
    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        return await work
    except asyncio.CancelledError:
        if received:
            raise Stopped(received[0]) from None
        raise
    finally:
        if not received:
            for number, handler in before.items():
                signal.signal(number, handler)


def ignore_signals() -> None:
    """Let the process end with its own status, whatever else it is sent."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
