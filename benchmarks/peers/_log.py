"""What a process writes down while it is measured: deliveries, commands, processor time."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)

from benchmarks.peers._records import Delivery, Orders

__all__ = ("LOOK", "Commands", "Log", "Mark", "written")

# What sets up a client and its collections is no part of a message's life.
UNCOUNTED = frozenset(
    {
        *("endSessions", "buildInfo", "buildinfo", "ping"),
        *("listCollections", "create", "createIndexes", "listIndexes"),
    }
)
BULK_COUNTS = ("nInserted", "nUpserted", "nMatched", "nDeleted")
LOOK = 0.01
"""Seconds between two looks whether there is anything left to do."""


class Commands(CommandListener):
    """Counts the commands of all clients of this process, by name; handshakes are not among them.

    Registered for the whole driver, so that a library need not know of it. All of them stand on
    PyMongo.
    """

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.written = 0
        """Documents that they have inserted, changed or deleted."""

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name not in UNCOUNTED:
            self.sent[event.command_name] += 1

    def succeeded(self, event: CommandSucceededEvent) -> None:
        if event.command_name not in UNCOUNTED:
            self.written += written(event.command_name, event.reply)

    def failed(self, event: CommandFailedEvent) -> None:
        return


def written(command: str, reply: Mapping[str, Any]) -> int:
    """Return how many documents a command has written, going by its reply."""
    if command in ("insert", "update", "delete"):
        return int(reply.get("n", 0))
    if command.lower() == "findandmodify":
        return int((reply.get("lastErrorObject") or {}).get("n", 0))
    if command == "bulkWrite":
        return sum(int(reply.get(name, 0)) for name in BULK_COUNTS)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A moment: the clock, the processor time, commands sent and documents written so far."""

    at: float
    cpu: float
    commands: Counter[str]
    written: int

    @classmethod
    def now(cls, commands: Commands) -> "Mark":
        return cls(
            at=time.perf_counter(),
            cpu=time.process_time(),
            commands=commands.sent.copy(),
            written=commands.written,
        )


class Log:
    """What the workers of this process handled; may be written by any thread.

    A library's program calls `handled` in its handler and `settled` when the acknowledgement has
    returned (or where it can be seen first; each program says), and works until `is_over`.
    """

    def __init__(
        self, orders: Orders, mark: Callable[[], Mark], *, clock: Callable[[], float]
    ) -> None:
        self._orders = orders
        self._mark = mark
        self._clock = clock
        self._deadline = clock() + orders.seconds
        self._handled: list[tuple[int, float]] = []
        self._settled: dict[int, list[float]] = {}
        self._lock = threading.Lock()
        self.last: Mark | None = None
        """When a message was settled for the first time, the last time that this happened."""

    def handled(self, number: int) -> None:
        self._handled.append((number, self._clock()))

    def settled(self, number: int) -> None:
        with self._lock:
            times = self._settled.setdefault(number, [])
            times.append(self._clock())
            if len(times) == 1:
                self.last = self._mark()

    @property
    def is_complete(self) -> bool:
        """Every message that was expected has been settled."""
        return len(self._settled) >= self._orders.expected

    @property
    def is_over(self) -> bool:
        """Nothing more is to be done, or nothing more will come."""
        return self.is_complete or self._clock() > self._limit()

    def await_over(self) -> None:
        """Block until there is nothing more to be done."""
        while not self.is_over:
            time.sleep(LOOK)

    def _limit(self) -> float:
        since = self.last.at if self.last else self._deadline
        return min(self._deadline, since + self._orders.patience)

    def deliveries(self) -> tuple[Delivery, ...]:
        """Return all that was handled, each with its own settlement, in the order of handling."""
        settled = {number: iter(times) for number, times in self._settled.items()}
        return tuple(
            Delivery(number, at, next(settled.get(number, iter(())), None))
            for number, at in list(self._handled)
        )
