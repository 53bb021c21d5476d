"""Celery over kombu's MongoDB transport: `delay`, and a worker with a pool of threads.

kombu takes a message out of the queue before it is acknowledged: a message counts as settled when
its function returns. The default pool, a process for each worker, is not sane for this many.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from celery import Celery

from benchmarks.peers._child import BlockingSubject, Event, run
from benchmarks.peers._log import Log
from benchmarks.peers._records import Orders


def opened(orders: Orders) -> Any:
    address = urlsplit(orders.url)
    broker = f"mongodb://{address.netloc}/{orders.database}"
    app = Celery("bench", broker=broker, set_as_current=True)
    app.conf.task_ignore_result = True
    return app


@contextmanager
def publishing(orders: Orders) -> Iterator[Callable[[str, Event], Any]]:
    def handle(group: str, event: Event) -> None:
        """Stand for the worker's function."""

    yield opened(orders).task(name="handle")(handle).delay


@contextmanager
def working(orders: Orders) -> Iterator[Callable[[Log], None]]:
    app = opened(orders)

    def work(log: Log) -> None:
        def handle(group: str, event: Event) -> None:
            log.handled(event["n"])
            log.settled(event["n"])

        app.task(name="handle")(handle)
        options = ("--pool=threads", f"--concurrency={orders.sizes.workers}", "--loglevel=ERROR")
        app.worker_main(["worker", *options])

    yield work


if __name__ == "__main__":
    run(BlockingSubject(publishing, working))
