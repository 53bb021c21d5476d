"""Reach an event loop from other threads."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

__all__ = ("in_loop", "in_this_loop", "name_this_task")


def in_this_loop(action: Callable[[], None]) -> Callable[[], None]:
    """Return `action` for callers in any thread."""
    return in_loop(asyncio.get_running_loop(), action)


def in_loop(loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(action)

    return call


def name_this_task(name: str) -> None:
    """Let whoever looks at the tasks of this loop know what this one is."""
    task = asyncio.current_task()
    if task is not None:
        task.set_name(name)
