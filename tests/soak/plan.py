"""What a soak does: decided by a seed, so that it can be asked to do the same again."""

import json
import random
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

from fairlane.retry import Backoff

__all__ = (
    "BACKOFF",
    "LONGEST_GOODBYE",
    "LONGEST_SKEW",
    "MAX_ATTEMPTS",
    "VISIBILITY",
    "MachinePlan",
    "Plan",
    "Stream",
)

VISIBILITY = 4.0
MAX_ATTEMPTS = 50
"""Never reached by kills and faults: only what is poison may die."""
BACKOFF = Backoff(base=0.05, cap=0.5)
LONGEST_SKEW = 300.0
LONGEST_GOODBYE = 30.0
"""Seconds after which a machine that was told to stop ends itself."""
LONG = VISIBILITY * 1.5
"""A handler that lives by the renewal of its lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A soak.

    Attributes:
        seed: of everything that is left to chance.
        seconds: of trouble, before the end is judged.
        machines: worker processes, each with its own idea of the time.
        trusts_wall_clocks: let machines use their own wrong clocks; the invariants must then break.
    """

    seed: int
    seconds: float
    machines: int = 4
    handlers: int = 6
    groups: int = 50
    publishers: int = 4
    backlog: int = 250
    trusts_wall_clocks: bool = False

    def chance(self, what: str) -> random.Random:
        """Return a source of chance for one purpose; others do not disturb it."""
        return random.Random(f"{self.seed} {what}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MachinePlan:
    """What one worker process is told, as one line of JSON.

    Attributes:
        skew: seconds by which the machine's wall clock is wrong.
        leap: seconds by which it is set forward or back in the middle of the work.
        retries: whether the driver repeats commands.
    """

    name: str
    url: str
    database: str
    driver: str
    retries: bool
    skew: float
    leap: float
    handlers: int
    trusts_wall_clock: bool
    journal: str
    ledger: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str | bytes) -> "MachinePlan":
        return cls(**json.loads(line))


class Stream:
    """The endless events of one publisher. Few of its groups get most of them."""

    def __init__(self, groups: list[str], chance: random.Random) -> None:
        self._groups = groups
        self._weights = [1.0 / rank for rank in range(1, len(groups) + 1)]
        self._chance = chance
        self._counts = {group: count() for group in groups}

    def next(self) -> tuple[str, dict[str, Any]]:
        """Return a group and its next event: what the handler is to do with it."""
        (group,) = self._chance.choices(self._groups, self._weights)
        fate = self._chance.random()
        return group, {
            "index": next(self._counts[group]),
            "pause": LONG if fate < 0.003 else self._chance.uniform(0.0, 0.02),
            "is_poison": 0.1 < fate < 0.11,
            "failures": self._chance.choice((1, 2)) if 0.2 < fate < 0.23 else 0,
        }
