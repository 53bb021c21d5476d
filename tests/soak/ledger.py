"""Where a pool writes down what becomes of its leases: one write-ahead line for each event."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fairlane.worker import WorkerEvent

__all__ = ("Ledger", "read")


class Ledger:
    """The writing side, in a worker process; the listener of its pool.

    A line is one `write(2)`: SIGKILL loses nothing that happened before it.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def __call__(self, event: WorkerEvent) -> None:
        self._write(asdict(event))

    def stray(self, error: str) -> None:
        """Note an error that nobody heard."""
        self._write({"stray": error})

    def close(self) -> None:
        self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")


def read(path: Path) -> tuple[list[WorkerEvent], list[str]]:
    """Return the events of a ledger, and the errors that nobody heard."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()] if path.exists() else []
    events = [WorkerEvent(**line) for line in lines if "stray" not in line]
    return events, [line["stray"] for line in lines if "stray" in line]
