"""What is known of one message, and of one lease."""

import math
from dataclasses import dataclass, field
from typing import Any

from fairlane import Lease

__all__ = ("Holding", "Story")


@dataclass(slots=True)
class Story:
    """What happened to one message, in ticks of the log."""

    event: int
    group_id: str
    called: float
    returned: float = math.inf
    delivered: list[int] = field(default_factory=list)
    seqs: set[int] = field(default_factory=set)
    settled_by: str | None = None
    tried: list[str] = field(default_factory=list)
    redrives: int = 0
    after: int | None = None
    """The event before it in its group, if both were published by one call."""
    publisher: str = ""

    def state(self) -> object:
        """Return what the judge may still want to know of it, but for the order of things."""
        tried, seqs = tuple(sorted(self.tried)), frozenset(self.seqs)
        known = self.publisher, self.is_published, bool(self.delivered), seqs
        return *known, self.settled_by, tried, self.redrives

    @property
    def is_published(self) -> bool:
        return self.returned < math.inf


@dataclass(slots=True)
class Holding:
    """One lease, from its claim until its settlement begins."""

    lease: Lease[Any]
    claimed_at: float
    expires_at: float
    redrives: int = 0
    is_live: bool = True
    settled_by: str | None = None
    open: int = 0
    """Settlements of which it is not known whether they happened."""
    is_late: bool = False
    """Somebody else had the group before a settlement was called."""

    def state(self) -> tuple[object, ...]:
        """Return what the judge may still want to know of it."""
        settlements = (self.settled_by or "", self.open, self.is_late)
        return self.expires_at, self.redrives, self.is_live, *settlements
