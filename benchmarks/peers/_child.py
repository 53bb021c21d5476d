"""The frame of a library's program: one process that publishes, or one that works.

It reads its `Orders` as one line of JSON, connects, says "ready", begins with the next line, and
prints its `Share`. When standard input ends it ends as well: its parent is gone. What a library
prints goes to standard error.
"""

import asyncio
import io
import os
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import distributions
from typing import Any

from pymongo import monitoring

from benchmarks.peers._log import Commands, Log, Mark
from benchmarks.peers._records import Orders, Publication, Share

__all__ = ("IDLE", "AsyncSubject", "BlockingSubject", "Event", "rested", "run")

IDLE = 0.05
"""Seconds that a loop waits that has found nothing, where a library leaves the loop to its user."""

GRACE = 3.0
STDIN, STDOUT, STDERR = 0, 1, 2
CONCERNED = (
    *("fairlane", "harel", "taskiq", "taskiq-mongodb", "mongo-taskqueue", "dramatiq"),
    *("dramatiq-mongodb", "huey", "huey-mongodb", "celery", "kombu", "beanie"),
    *("beanie-batteries-queue", "motor", "pymongo"),
)

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AsyncSubject:
    """A library that is used from an event loop.

    Attributes:
        publishing: yields `publish(group, event)`, which many tasks call at once.
        working: starts workers and handles messages until the log is over.
    """

    publishing: Callable[
        [Orders], AbstractAsyncContextManager[Callable[[str, Event], Awaitable[Any]]]
    ]
    working: Callable[[Orders], AbstractAsyncContextManager[Callable[[Log], Awaitable[None]]]]


@dataclass(frozen=True, slots=True)
class BlockingSubject:
    """A library that is used from threads; otherwise as `AsyncSubject`."""

    publishing: Callable[[Orders], AbstractContextManager[Callable[[str, Event], Any]]]
    working: Callable[[Orders], AbstractContextManager[Callable[[Log], None]]]


class Process:
    """This process and its parent: begun when the parent says so."""

    def __init__(self) -> None:
        self._answers = os.fdopen(os.dup(STDOUT), "w")
        os.dup2(STDERR, STDOUT)
        self._stdin = io.FileIO(STDIN, closefd=False)
        self.orders = Orders.from_json(self._stdin.readline())
        self.commands = Commands()
        monitoring.register(self.commands)

    def mark(self) -> Mark:
        return Mark.now(self.commands)

    def await_sign(self) -> Mark:
        print("ready", file=self._answers, flush=True)
        if not self._stdin.readline():
            raise SystemExit("the parent has gone")
        threading.Thread(target=_end_with_parent, daemon=True).start()
        return self.mark()

    def log(self) -> Log:
        return Log(self.orders, self.mark, clock=time.perf_counter)

    def tell_published(self, began: Mark, published: list[Publication]) -> None:
        self._tell(began, self.mark(), published=tuple(published))

    def tell_worked(self, began: Mark, log: Log) -> None:
        """Tell what was handled; of a run that was cut off, up to the last settlement."""
        ended = self.mark() if log.is_complete else log.last or began
        self._tell(began, ended, delivered=log.deliveries())

    def _tell(self, began: Mark, ended: Mark, **did: Any) -> None:
        share = Share(
            began=began.at,
            cpu=ended.cpu - began.cpu,
            commands=dict(ended.commands - began.commands),
            written=ended.written - began.written,
            versions=_versions(),
            **did,
        )
        print(share.to_json(), file=self._answers, flush=True)
        os._exit(0)  # how long a library takes to stop is not asked


def run(subject: AsyncSubject | BlockingSubject) -> None:
    process = Process()
    if isinstance(subject, AsyncSubject):
        publishes = process.orders.role == "publish"
        asyncio.run((_publish_in_tasks if publishes else _work_in_loop)(subject, process))
    elif process.orders.role == "publish":
        _publish_in_threads(subject, process)
    else:
        _work_in_threads(subject, process)


async def rested(log: Log) -> None:
    """Return when there is nothing more to be done."""
    await asyncio.to_thread(log.await_over)


async def _publish_in_tasks(subject: AsyncSubject, process: Process) -> None:
    orders, published = process.orders, list[Publication]()
    async with subject.publishing(orders) as publish:
        began = process.await_sign()

        async def publish_share(publisher: int) -> None:
            for number in orders.sizes.share_of(publisher):
                start = time.perf_counter()
                if start > began.at + orders.seconds:
                    return
                await publish(*_message(orders, number))
                published.append(Publication(number, start, time.perf_counter()))

        async with asyncio.TaskGroup() as tasks:
            for publisher in range(orders.sizes.publishers):
                tasks.create_task(publish_share(publisher))
        process.tell_published(began, published)


async def _work_in_loop(subject: AsyncSubject, process: Process) -> None:
    async with subject.working(process.orders) as work:
        began, log = process.await_sign(), process.log()
        working = asyncio.ensure_future(work(log))
        await asyncio.wait(
            (working, asyncio.ensure_future(rested(log))), return_when="FIRST_COMPLETED"
        )
        done, _ = await asyncio.wait((working,), timeout=GRACE)
        for task in done:
            task.result()
        process.tell_worked(began, log)


def _publish_in_threads(subject: BlockingSubject, process: Process) -> None:
    orders, published = process.orders, list[Publication]()
    with subject.publishing(orders) as publish:
        began = process.await_sign()

        def publish_share(publisher: int) -> None:
            for number in orders.sizes.share_of(publisher):
                start = time.perf_counter()
                if start > began.at + orders.seconds:
                    return
                publish(*_message(orders, number))
                published.append(Publication(number, start, time.perf_counter()))

        with ThreadPoolExecutor(orders.sizes.publishers) as threads:
            list(threads.map(publish_share, range(orders.sizes.publishers)))
        process.tell_published(began, published)


def _work_in_threads(subject: BlockingSubject, process: Process) -> None:
    """Work in the main thread, where some libraries need to be, and watch from another."""
    with subject.working(process.orders) as work:
        began, log = process.await_sign(), process.log()
        threading.Thread(target=_watch, args=(process, began, log), daemon=True).start()
        work(log)
        process.tell_worked(began, log)


def _watch(process: Process, began: Mark, log: Log) -> None:
    log.await_over()
    process.tell_worked(began, log)


def _message(orders: Orders, number: int) -> tuple[str, Event]:
    group = f"group-{number % orders.sizes.groups}"
    return group, {"n": number, "payload": "x" * orders.sizes.size}


def _versions() -> dict[str, str]:
    installed = {each.name.lower().replace("_", "-"): each.version for each in distributions()}
    return {name: installed[name] for name in CONCERNED if name in installed}


def _end_with_parent() -> None:
    while os.read(STDIN, 1):  # the bare descriptor: nothing is left locked at exit
        pass
    os._exit(1)
