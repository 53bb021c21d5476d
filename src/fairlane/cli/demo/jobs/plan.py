"""What a run over jobs does, decided before it starts: so many jobs, the same plan everywhere."""

from dataclasses import dataclass
from typing import ClassVar
from zlib import crc32

from fairlane.cli.demo.crew import Crew, Work
from fairlane.cli.demo.input import Json
from fairlane.cli.demo.jobs.kinds import KINDS, Kind

__all__ = (
    "EVERY",
    "FEWEST_TICKS",
    "TICKING",
    "TICKING_ID",
    "JobsPlan",
    "PlannedJob",
    "planned",
)

TICKING = "ticking"
TICKING_ID = f"recurring:{TICKING}"
"""The record of a recurring job has its name in its id."""

EVERY = 0.5
FEWEST_TICKS = 2
"""A run goes on until the recurring job has run so often."""

MIX = (
    *("quick", "slow", "flaky", "quick", "thread", "quick", "broken", "slow", "again", "quick"),
    *("flaky", "refused", "quick", "slow", "thread", "quick", "dropped", "flaky", "quick", "slow"),
)
PRIORITIES = (-1, 0, 0, 5)
SHORTEST_DELAY = 0.5
DELAYED_PERCENT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJob:
    """One job to be enqueued.

    Attributes:
        delay: seconds.
        is_unique: whether it is enqueued twice, with one unique key.
    """

    index: int
    type: str
    priority: int
    delay: float
    is_unique: bool

    @property
    def kind(self) -> Kind:
        return KINDS[self.type]

    @property
    def unique_key(self) -> str | None:
        return f"once-{self.index}" if self.is_unique else None

    def payload(self) -> dict[str, Json]:
        return {"index": self.index, "type": self.type, "text": f"job ☕ {self.index}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsPlan(Crew):
    """A run over jobs, beside which a recurring one runs every `EVERY` seconds."""

    work: ClassVar[Work] = "jobs"

    jobs: tuple[PlannedJob, ...]
    visibility: float = 3.0


def planned(number: int) -> tuple[PlannedJob, ...]:
    """Return so many jobs of all types."""
    return tuple(_job(index) for index in range(number))


def _job(index: int) -> PlannedJob:
    kind = MIX[index % len(MIX)]
    is_unique = kind == "quick" and index % 3 == 0
    # The key of a unique one has to be taken still when it is enqueued the second time.
    is_delayed = is_unique or _chance("delayed", index) % 100 < DELAYED_PERCENT
    return PlannedJob(
        index=index,
        type=kind,
        priority=PRIORITIES[_chance("priority", index) % len(PRIORITIES)],
        delay=SHORTEST_DELAY + _chance("delay", index) % 1000 / 1000 if is_delayed else 0.0,
        is_unique=is_unique,
    )


def _chance(what: str, index: int) -> int:
    return crc32(f"{what} {index}".encode())
