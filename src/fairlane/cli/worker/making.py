"""A pool from what an application names: the pool itself, or a factory."""

import inspect
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from fairlane.cli.outcome import Refused
from fairlane.worker import WorkerPool

__all__ = ("made",)

ALLOWED = (
    "a WorkerPool, or a function without arguments that makes one: plain, async, or an "
    "@asynccontextmanager that yields it"
)


@asynccontextmanager
async def made(found: Any, target: str) -> AsyncIterator[WorkerPool[Any]]:
    """Make the pool; leaving closes what its factory has opened.

    Raises `Refused` for what is none, and whatever a factory raises.
    """
    async with AsyncExitStack() as stack:
        pool = found if isinstance(found, WorkerPool) else await _product(found, target, stack)
        yield _checked(pool, target)


async def _product(factory: Any, target: str, stack: AsyncExitStack) -> Any:
    product = _checked_factory(factory, target)()
    if inspect.isawaitable(product) and not _is_manager(product):
        product = await product
    if _is_manager(product):
        product = await stack.enter_async_context(product)
    return product


def _checked_factory(factory: Any, target: str) -> Any:
    if not callable(factory):
        raise Refused(f"{target} is of type {type(factory).__name__}; it must be {ALLOWED}")
    if inspect.isasyncgenfunction(factory) or inspect.isgeneratorfunction(factory):
        raise Refused(f"{target} yields: make it an `async def` under @asynccontextmanager")
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise Refused(f"{target} must be callable without arguments: {error}") from None
    except ValueError:  # written in C, and does not tell
        pass
    return factory


def _is_manager(product: object) -> bool:
    """Say whether to enter it: a pool is a context manager, too, but of its own background."""
    is_manager = isinstance(product, AbstractAsyncContextManager)
    return is_manager and not isinstance(product, WorkerPool)


def _checked(pool: Any, target: str) -> WorkerPool[Any]:
    if not isinstance(pool, WorkerPool):
        raise Refused(f"{target} has made a {type(pool).__name__}; it must be {ALLOWED}")
    if pool.signals:
        raise Refused(f"the pool of {target} has signals=True: leave it out, this command has them")
    return pool
