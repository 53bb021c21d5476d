"""Virtual time: processes that wait, that share the cores of one server, and that queue."""

import math
from collections import deque
from collections.abc import Generator
from heapq import heappop, heappush
from typing import Protocol, TypeAlias

__all__ = ("Cores", "Engine", "Process", "Queue", "Timer")

Entry: TypeAlias = tuple[float, int, "Process"]


class Station(Protocol):
    """Where a process waits until the engine resumes it."""

    def enter(self, process: "Process", amount: float) -> None: ...


Process: TypeAlias = Generator[tuple[Station, float], None, None]
"""Yields the station to wait at, and how much of it is needed."""


class Engine:
    """Resumes each process when its wait is over; the same processes give the same run."""

    def __init__(self, cores: float) -> None:
        self.now = 0.0
        self.ready: deque[Process] = deque()
        self.timer = Timer(self)
        self.cores = Cores(self, cores)
        self._entries = 0

    def run(self) -> None:
        """Run until every process has ended or waits for what nobody will give."""
        while process := self._next():
            try:
                station, amount = next(process)
            except StopIteration:
                continue
            station.enter(process, amount)

    def numbered(self) -> int:
        """Return a number that lets entries of the same instant keep their order."""
        self._entries += 1
        return self._entries

    def _next(self) -> Process | None:
        if self.ready:
            return self.ready.popleft()
        due, done = self.timer.next_at(), self.cores.next_at()
        if due == done == math.inf:
            return None
        self.now = max(self.now, min(due, done))  # a rounding error must not turn time back
        return self.timer.pop() if due < done else self.cores.pop()


class Timer:
    """Lets a process wait for a number of seconds."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._heap: list[Entry] = []

    def enter(self, process: Process, amount: float) -> None:
        heappush(self._heap, (self._engine.now + amount, self._engine.numbered(), process))

    def next_at(self) -> float:
        return self._heap[0][0] if self._heap else math.inf

    def pop(self) -> Process:
        return heappop(self._heap)[2]


class Cores:
    """A number of cores that all running processes share equally, none using more than one.

    Entries are kept by the service that each process will have received when it is done, which
    a newcomer does not change: it only slows down how fast everybody gets there.
    """

    def __init__(self, engine: Engine, cores: float) -> None:
        self.speed = 1.0
        """The share of a core that each process gets now."""
        self._engine = engine
        self._cores = cores
        self._heap: list[Entry] = []
        self._served = 0.0
        self._served_at = 0.0

    def enter(self, process: Process, amount: float) -> None:
        self._serve()
        heappush(self._heap, (self._served + amount, self._engine.numbered(), process))
        self._share()

    def next_at(self) -> float:
        if not self._heap:
            return math.inf
        return self._served_at + (self._heap[0][0] - self._served) / self.speed

    def pop(self) -> Process:
        self._serve()
        process = heappop(self._heap)[2]
        self._share()
        return process

    def _serve(self) -> None:
        self._served += (self._engine.now - self._served_at) * self.speed
        self._served_at = self._engine.now

    def _share(self) -> None:
        running = len(self._heap)
        self.speed = self._cores / running if running > self._cores else 1.0


class Queue:
    """A number of places, given in order of arrival: the connections of a pool."""

    def __init__(self, engine: Engine, places: int) -> None:
        self._engine = engine
        self._free = places
        self._waiting: deque[Process] = deque()

    def enter(self, process: Process, amount: float) -> None:
        if self._free:
            self._free -= 1
            self._engine.ready.append(process)
        else:
            self._waiting.append(process)

    def leave(self) -> None:
        if self._waiting:
            self._engine.ready.append(self._waiting.popleft())
        else:
            self._free += 1
