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
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from importlib.metadata import distributions
from typing import Any

from pymongo import monitoring

from benchmarks.peers._log import Commands, Log, Mark
from benchmarks.peers._records import Orders, Publication, Share

__all__ = ("IDLE", "AsyncSubject", "BlockingSubject", "Event", "Publishing", "rested", "run")

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

    def publishing(self, began: Mark) -> "Publishing":
        return Publishing(self.orders, began.at, clock=time.perf_counter)

    def tell_published(self, began: Mark, publishing: "Publishing") -> None:
        self._tell(began, self.mark(), published=tuple(publishing.published))

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


class Publishing:
    """What a process publishes until its time is over, and when each publish began and ended."""

    def __init__(self, orders: Orders, began: float, *, clock: Callable[[], float]) -> None:
        self._orders = orders
        self._deadline = began + orders.seconds
        self._clock = clock
        self.published: list[Publication] = []

    def messages_of(self, publisher: int) -> Iterator[tuple[str, Event]]:
        """Yield group and event of its messages; each has been published when the next is due."""
        sizes = self._orders.sizes
        for number in sizes.share_of(publisher):
            began = self._clock()
            if began > self._deadline:
                return
            yield f"group-{number % sizes.groups}", {"n": number, "payload": "x" * sizes.size}
            self.published.append(Publication(number, began, self._clock()))


async def _publish_in_tasks(subject: AsyncSubject, process: Process) -> None:
    async with subject.publishing(process.orders) as publish:
        began = process.await_sign()
        publishing = process.publishing(began)

        async def publish_all_of(publisher: int) -> None:
            for group, event in publishing.messages_of(publisher):
                await publish(group, event)

        async with asyncio.TaskGroup() as tasks:
            for publisher in range(process.orders.sizes.publishers):
                tasks.create_task(publish_all_of(publisher))
        process.tell_published(began, publishing)


def _publish_in_threads(subject: BlockingSubject, process: Process) -> None:
    with subject.publishing(process.orders) as publish:
        began = process.await_sign()
        publishing = process.publishing(began)

        def publish_all_of(publisher: int) -> None:
            for group, event in publishing.messages_of(publisher):
                publish(group, event)

        publishers = process.orders.sizes.publishers
        with ThreadPoolExecutor(publishers) as threads:
            list(threads.map(publish_all_of, range(publishers)))
        process.tell_published(began, publishing)


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


def _versions() -> dict[str, str]:
    installed = {each.name.lower().replace("_", "-"): each.version for each in distributions()}
    return {name: installed[name] for name in CONCERNED if name in installed}


def _end_with_parent() -> None:
    while os.read(STDIN, 1):  # the bare descriptor: nothing is left locked at exit
        pass
    os._exit(1)
