"""dramatiq over dramatiq-mongodb: `actor.send`, and its `Worker` with a thread for each worker."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import dramatiq
from dramatiq_mongodb.broker import MongoDBBroker
from pymongo import MongoClient

from benchmarks.peers._child import BlockingSubject, Event, run
from benchmarks.peers._log import Log
from benchmarks.peers._records import Orders


class Settlements(dramatiq.Middleware):
    """Writes down what has been acknowledged."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def after_ack(self, broker: Any, message: Any) -> None:
        self._log.settled(message.args[1]["n"])


def broker_of(orders: Orders) -> Any:
    client: Any = MongoClient(orders.url)
    return MongoDBBroker(database=client[orders.database])


def actor(broker: Any, function: Callable[[str, Event], None]) -> Any:
    return dramatiq.actor(function, actor_name="handle", broker=broker)


@contextmanager
def publishing(orders: Orders) -> Iterator[Callable[[str, Event], Any]]:
    yield actor(broker_of(orders), lambda group, event: None).send


@contextmanager
def working(orders: Orders) -> Iterator[Callable[[Log], None]]:
    broker = broker_of(orders)

    def work(log: Log) -> None:
        broker.add_middleware(Settlements(log))
        actor(broker, lambda group, event: log.handled(event["n"]))
        worker = dramatiq.Worker(broker, worker_threads=orders.sizes.workers)
        worker.start()
        log.await_over()

    yield work


if __name__ == "__main__":
    run(BlockingSubject(publishing, working))
