"""huey over huey-mongodb: a task, and its consumer with a thread for each worker.

huey takes a message out of the queue before it runs it and acknowledges nothing: a message counts
as settled when its function returns.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from huey_mongodb import MongoHuey

from benchmarks.peers._child import BlockingSubject, Event, run
from benchmarks.peers._log import Log
from benchmarks.peers._records import Orders


def opened(orders: Orders) -> Any:
    return MongoHuey("bench", database=orders.database, host=orders.url)


@contextmanager
def publishing(orders: Orders) -> Iterator[Callable[[str, Event], Any]]:
    def handle(group: str, event: Event) -> None:
        """Stand for the consumer's function."""

    yield opened(orders).task(name="handle")(handle)


@contextmanager
def working(orders: Orders) -> Iterator[Callable[[Log], None]]:
    huey = opened(orders)

    def work(log: Log) -> None:
        def handle(group: str, event: Event) -> None:
            log.handled(event["n"])
            log.settled(event["n"])

        huey.task(name="handle")(handle)
        huey.create_consumer(workers=orders.sizes.workers, worker_type="thread").start()
        log.await_over()

    yield work


if __name__ == "__main__":
    run(BlockingSubject(publishing, working))
