"""Where a machine writes down what becomes of its leases: one write-ahead line for each event."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairlane.worker import WorkerEvent

__all__ = ("Ledger", "Stall", "Told", "read")


@dataclass(frozen=True, slots=True)
class Stall:
    """A time (nanoseconds) in which a process did nothing: it got no processor, or was stopped."""

    since: int
    until: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one machine wrote down: what its pool told, errors that nobody heard, its stalls."""

    events: list[WorkerEvent]
    stray: list[str]
    stalls: list[Stall]


class Ledger:
    """The writing side, in a worker process; the listener of its pool.

    A line is one `write(2)`: SIGKILL loses nothing that happened before it.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def __call__(self, event: WorkerEvent) -> None:
        self._write(event=asdict(event))

    def stray(self, error: str) -> None:
        """Note an error that nobody heard."""
        self._write(stray=error)

    def stalled(self, stall: Stall) -> None:
        self._write(stall=asdict(stall))

    def close(self) -> None:
        self._file.close()

    def _write(self, **line: Any) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")


def read(path: Path) -> Told:
    lines = [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []
    return Told(
        events=[WorkerEvent(**line["event"]) for line in lines if "event" in line],
        stray=[line["stray"] for line in lines if "stray" in line],
        stalls=[Stall(**line["stall"]) for line in lines if "stall" in line],
    )
