"""What a demo run does, decided before it starts; the same input gives the same plan everywhere."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from zlib import crc32

from fairlane.cli.demo.input import Event
from fairlane.errors import ConfigurationError
from fairlane.retry import Backoff

__all__ = ("BACKOFF", "MAX_ATTEMPTS", "DriverName", "Plan", "WorkerPlan", "fails_first", "pause")

BACKOFF = Backoff(base=0.05, cap=0.5)
MAX_ATTEMPTS = 20
FAILING_PERCENT = 3
LONGEST_PAUSE = 0.002


class DriverName(StrEnum):
    MOTOR = "motor"
    PYMONGO = "pymongo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A demo run.

    Attributes:
        events: the stream, in publish order.
        workers: concurrent claimers over all processes.
        processes: worker processes.
        publishers: concurrent publishers; each group belongs to one of them.
        url: of a running server; None starts a local one.
        is_killing: whether one worker process is killed in the middle.
        visibility: seconds after which the leases of a killed process come back.
        patience: seconds without any progress after which the run is given up.
    """

    events: tuple[Event, ...]
    workers: int = 64
    processes: int = 2
    publishers: int = 8
    driver: DriverName = DriverName.MOTOR
    url: str | None = None
    is_killing: bool = True
    visibility: float = 5.0
    patience: float = 30.0

    def __post_init__(self) -> None:
        if self.workers < self.processes:
            raise ConfigurationError(
                f"workers must be at least processes ({self.processes}), not {self.workers}"
            )

    @property
    def groups(self) -> int:
        return len({event.group for event in self.events})

    def claimers(self, slot: int) -> int:
        """Return how many claimers process number `slot` (from 0) runs."""
        each, rest = divmod(self.workers, self.processes)
        return each + (slot < rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """What one worker process is told, as one line of JSON."""

    name: str
    url: str
    database: str
    driver: str
    claimers: int
    visibility: float
    journal: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str | bytes) -> "WorkerPlan":
        return cls(**json.loads(line))


def fails_first(group: str, index: int) -> bool:
    """Whether the first delivery of this event fails: a few percent, the same ones in every run."""
    return crc32(f"fail {index} {group}".encode()) % 100 < FAILING_PERCENT


def pause(group: str, index: int) -> float:
    """Return how many seconds the handler of this event works: 0 to 2 ms."""
    return LONGEST_PAUSE * (crc32(f"pause {index} {group}".encode()) % 1000) / 1000
