"""Fixtures of every room that interrupts tasks: nothing is left behind, and tests stay quick."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from property.script import Crashed

__all__ = ("cheap_collections", "no_stray_errors")


@pytest.fixture(scope="session", autouse=True)
def cheap_collections() -> Iterator[None]:
    """Keep what was imported out of the garbage collections that follow each test."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
async def no_stray_errors() -> AsyncIterator[None]:
    """Invariant I6: no task dies unheard, nothing is left to the loop's exception handler."""
    stray: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: stray.append(context))
    yield
    gc.collect()
    await asyncio.sleep(0)
    loop.set_exception_handler(None)
    heard = [context for context in stray if not isinstance(context.get("exception"), Crashed)]
    assert heard == []
