"""What really happened: each worker process writes down when a handler starts and how it ends.

A line is one `write(2)` to a file that only this process writes, before the handler starts and
before its message is acknowledged. SIGKILL loses nothing that happened before it. What the pool
says of the end of a lease is written when the server has answered: a kill may come in between.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypedDict, cast, final

from fairlane.cli.demo.input import Json

__all__ = (
    "Delivery",
    "Execution",
    "Journal",
    "Outcome",
    "Recorder",
    "Settlement",
    "digest",
    "now",
)

Outcome = Literal["handled", "failed", "cancelled", "cut"]
"""`cut`: the process died while the handler ran."""

now: Callable[[], int] = time.monotonic_ns
"""Nanoseconds on a clock that all processes of this machine share."""


def digest(body: Json) -> str:
    """Return a short name for the content of an event, order of its keys included."""
    return blake2b(json.dumps(body).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What a handler got: an event, whose `index` is its place in its group.

    Or a job, which is a group of its own: `group` is its id, `index` its number in the plan or the
    tick of a recurring one, and `seq` the epoch of its lease.
    """

    group: str
    index: int
    seq: int
    attempt: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One run of a handler, from `started_at` to `ended_at` (nanoseconds)."""

    worker: str
    delivery: Delivery
    started_at: int
    ended_at: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How a lease ended, as the pool tells it; `kind` is that of a `WorkerEvent`."""

    worker: str
    kind: str
    group: str
    seq: int
    attempt: int
    settled_at: int


@final
class _Start(TypedDict):
    run: int
    started_at: int
    worker: str
    group: str
    index: int
    seq: int
    attempt: int
    digest: str


@final
class _End(TypedDict):
    run: int
    ended_at: int
    outcome: Outcome


class Recorder:
    """The writing side, in a worker process."""

    def __init__(self, path: Path, worker: str) -> None:
        self._file = path.open("ab", buffering=0)
        self._worker = worker
        self._runs = count(1)

    def close(self) -> None:
        self._file.close()

    @contextmanager
    def execution(self, delivery: Delivery) -> Iterator[None]:
        """Record the start and the end of the handler in the `with` block; errors pass through."""
        run = next(self._runs)
        self._write_start(run, delivery)
        outcome: Outcome = "cancelled"
        try:
            yield
            outcome = "handled"
        except Exception:
            outcome = "failed"
            raise
        finally:
            self._write(_End(run=run, ended_at=now(), outcome=outcome))

    def settled(self, kind: str, group: str, *, seq: int, attempt: int) -> None:
        """Record how a lease ended."""
        settlement = Settlement(
            worker=self._worker,
            kind=kind,
            group=group,
            seq=seq,
            attempt=attempt,
            settled_at=now(),
        )
        self._write(asdict(settlement))

    def _write_start(self, run: int, delivery: Delivery) -> None:
        start = _Start(
            run=run,
            started_at=now(),
            worker=self._worker,
            group=delivery.group,
            index=delivery.index,
            seq=delivery.seq,
            attempt=delivery.attempt,
            digest=delivery.digest,
        )
        self._write(start)

    def _write(self, record: Mapping[str, object]) -> None:
        self._file.write(json.dumps(record).encode() + b"\n")


class Journal:
    """The reading side of one worker's file, which may still be growing.

    Attributes:
        settlements: of all that was read so far.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self._running: dict[int, _Start] = {}
        self._ended: list[Execution] = []
        self.settlements: list[Settlement] = []

    @property
    def running(self) -> int:
        """How many handlers were at work when it was read last."""
        return len(self._running)

    def poll(self) -> list[Execution]:
        """Return the executions that ended since the last poll."""
        ended = [e for line in self._new_lines() if (e := self._take(json.loads(line)))]
        self._ended += ended
        return ended

    def executions(self, *, died_at: int) -> list[Execution]:
        """Return all executions of a process that is gone; what had no end was cut at `died_at`."""
        self.poll()
        cut = [_execution(start, died_at, "cut") for start in self._running.values()]
        return self._ended + cut

    def _new_lines(self) -> list[bytes]:
        """Return complete lines only: one may be in the middle of being written."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            complete, newline, _ = file.read().rpartition(b"\n")
        self._read += len(complete) + len(newline)
        return complete.splitlines()

    def _take(self, record: Any) -> Execution | None:
        if "settled_at" in record:
            self.settlements.append(Settlement(**record))
            return None
        if "started_at" in record:
            self._running[record["run"]] = cast("_Start", record)
            return None
        end = cast("_End", record)
        return _execution(self._running.pop(end["run"]), end["ended_at"], end["outcome"])


def _execution(start: _Start, ended_at: int, outcome: Outcome) -> Execution:
    return Execution(
        worker=start["worker"],
        delivery=Delivery(
            group=start["group"],
            index=start["index"],
            seq=start["seq"],
            attempt=start["attempt"],
            digest=start["digest"],
        ),
        started_at=start["started_at"],
        ended_at=max(ended_at, start["started_at"]),
        outcome=outcome,
    )
