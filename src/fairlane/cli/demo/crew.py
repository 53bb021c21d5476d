"""Who works in a demo run, on what server, and for how long: the same whatever is worked off."""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import ClassVar, Literal

from fairlane.errors import ConfigurationError

__all__ = ("Crew", "DriverName", "Work", "WorkerPlan")

Work = Literal["events", "jobs"]


class DriverName(StrEnum):
    MOTOR = "motor"
    PYMONGO = "pymongo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """The part of a plan that does not depend on what is worked off.

    Attributes:
        workers: concurrent claimers over all processes; of jobs, handlers that may run at once.
        processes: worker processes.
        producers: concurrent publishers of events, or enqueuers of jobs.
        url: of a running server; None starts a local one.
        is_killing: whether one worker process is killed in the middle.
        visibility: seconds after which the leases of a killed process come back.
        patience: seconds without any progress after which the run is given up.
    """

    workers: int = 64
    processes: int = 2
    producers: int = 8
    driver: DriverName = DriverName.MOTOR
    url: str | None = None
    is_killing: bool = True
    visibility: float = 5.0
    patience: float = 30.0

    work: ClassVar[Work]
    """What the worker processes are told to work off."""

    def __post_init__(self) -> None:
        if self.workers < self.processes:
            raise ConfigurationError(
                f"workers must be at least processes ({self.processes}), not {self.workers}"
            )

    def claimers(self, slot: int) -> int:
        """Return how many workers process number `slot` (from 0) runs."""
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
    work: Work = "events"

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str | bytes) -> "WorkerPlan":
        return cls(**json.loads(line))
