"""taskiq over taskiq-mongodb: `kiq` to publish, its receiver with as many tasks as workers.

Messages are acknowledged when they have been executed (`--ack-type when_executed`), so that its
middleware sees when that is done; nothing is stored of results.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from taskiq import TaskiqMiddleware
from taskiq.acks import AcknowledgeType
from taskiq.api import run_receiver_task
from taskiq_mongodb import MongoBroker

from benchmarks.peers._child import AsyncSubject, Event, run
from benchmarks.peers._log import Log
from benchmarks.peers._records import Orders


class Settlements(TaskiqMiddleware):
    """Writes down what has been acknowledged."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def post_execute(self, message: Any, result: Any) -> None:
        self._log.settled(message.args[1]["n"])


@asynccontextmanager
async def publishing(orders: Orders) -> AsyncIterator[Callable[[str, Event], Awaitable[None]]]:
    broker = MongoBroker(orders.url, orders.database)

    async def handle(group: str, event: Event) -> None:
        """Stand for the worker's function."""

    task = broker.register_task(handle, task_name="handle")
    await broker.startup()
    yield task.kiq


@asynccontextmanager
async def working(orders: Orders) -> AsyncIterator[Callable[[Log], Awaitable[None]]]:
    broker = MongoBroker(orders.url, orders.database)

    async def work(log: Log) -> None:
        async def handle(group: str, event: dict[str, Any]) -> None:
            log.handled(event["n"])

        broker.register_task(handle, task_name="handle")
        broker.add_middlewares(Settlements(log))
        await run_receiver_task(
            broker,
            max_async_tasks=orders.sizes.workers,
            ack_time=AcknowledgeType.WHEN_EXECUTED,
        )

    await broker.startup()
    yield work


if __name__ == "__main__":
    run(AsyncSubject(publishing, working))
