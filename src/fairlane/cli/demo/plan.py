"""What a run over events does, decided before it starts: the same input, the same plan."""

from dataclasses import dataclass
from typing import ClassVar
from zlib import crc32

from fairlane.cli.demo.crew import Crew, Work
from fairlane.cli.demo.input import Event
from fairlane.retry import Backoff

__all__ = ("BACKOFF", "MAX_ATTEMPTS", "Plan", "fails_first", "pause")

BACKOFF = Backoff(base=0.05, cap=0.5)
MAX_ATTEMPTS = 20
FAILING_PERCENT = 3
LONGEST_PAUSE = 0.002


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Crew):
    """A run over events; each group belongs to one publisher.

    Attributes:
        events: the stream, in publish order.
    """

    work: ClassVar[Work] = "events"

    events: tuple[Event, ...]

    @property
    def groups(self) -> int:
        return len({event.group for event in self.events})


def fails_first(group: str, index: int) -> bool:
    """Whether the first delivery of this event fails: a few percent, the same ones in every run."""
    return crc32(f"fail {index} {group}".encode()) % 100 < FAILING_PERCENT


def pause(group: str, index: int) -> float:
    """Return how many seconds the handler of this event works: 0 to 2 ms."""
    return LONGEST_PAUSE * (crc32(f"pause {index} {group}".encode()) % 1000) / 1000
