"""What a type checker makes of handlers and middleware; mypy --strict runs over it."""

import asyncio
from dataclasses import dataclass
from typing import Any, assert_type

from fairlane import (
    AsyncJobQueue,
    AsyncMongoTransport,
    CallNext,
    JobContext,
    Jobs,
    Lease,
    Middleware,
    WorkerPool,
    current_job,
    current_lease,
)


@dataclass
class Order:
    number: int


async def handle(lease: Lease[Order]) -> None:
    assert_type(lease.event, Order)
    assert_type(current_lease(), Lease[Any] | None)
    assert_type(current_job(), JobContext | None)


def handle_in_a_thread(lease: Lease[Order]) -> None: ...


async def of_both(work: Lease[Any] | JobContext, call_next: CallNext) -> Any:
    return await call_next(work)


async def in_a_task(work: object, call_next: CallNext) -> Any:
    return await asyncio.create_task(call_next(work))


async def of_messages(lease: Lease[Any], call_next: CallNext) -> None:
    await call_next(lease)


class Counting:
    async def __call__(self, work: object, call_next: CallNext) -> object:
        return await call_next(work)


def pools_take_them(transport: AsyncMongoTransport[dict[str, Any]], queue: AsyncJobQueue) -> None:
    around: list[Middleware] = [of_both, of_messages, in_a_task, Counting()]
    pool = WorkerPool(transport, handle, middleware=around)
    assert_type(pool, WorkerPool[dict[str, Any]])
    WorkerPool(transport, handle_in_a_thread, middleware=(of_messages,))
    WorkerPool(queue, Jobs(), middleware=[of_both])
    WorkerPool.together((transport, handle), (queue, Jobs()), middleware=[of_both])
