"""One job as the model of the queue holds it."""

import math
from dataclasses import dataclass

__all__ = ("ENDED", "Entry", "Order")

ENDED = ("done", "failed")
ENDLESS = 2**31 - 1

Order = tuple[int, float]


@dataclass(slots=True)
class Entry:
    """A job.

    Attributes:
        number: of its enqueue; jobs are told apart by their numbers, which are the same in every
            run of the same program.
        due: claimable from then on; of a job that is held, the end of its lease.
        holder: the token of its lease, until the job is settled or claimed again.
        key: unique among the jobs of its type that have not ended.
        tick: of a recurring job the moment that its schedule names for the next run.
        period: of a recurring job.
    """

    number: int
    id: str
    type: str
    payload: int | None
    priority: int
    due: float
    created_at: float
    max_attempts: int
    key: str | None = None
    state: str = "pending"
    holder: str | None = None
    attempts: int = 0
    interrupted: int = 0
    tick: float | None = None
    period: float = 0.0
    last_error: str | None = None

    @property
    def is_alive(self) -> bool:
        return self.state not in ENDED

    @property
    def is_exhausted(self) -> bool:
        return self.attempts >= self.max_attempts

    @property
    def order(self) -> Order:
        return -self.priority, self.due

    def is_due(self, now: float) -> bool:
        return self.is_alive and self.due <= now

    def is_free(self, now: float) -> bool:
        """Tell whether nobody works on it, as far as anybody can tell."""
        return self.is_alive and (self.holder is None or self.due <= now)

    def lease(self, token: str, until: float) -> None:
        self.state, self.holder, self.due = "processing", token, until
        self.attempts += 1

    def wait(self, due: float) -> None:
        self.state, self.holder, self.due = "pending", None, due

    def end(self, state: str, error: str | None = None) -> None:
        self.state, self.holder = state, None
        self.last_error = error or self.last_error

    def become(self, other: "Entry") -> None:
        """Be replaced by what was to be enqueued, in its place."""
        self.payload, self.priority = other.payload, other.priority
        self.max_attempts = other.max_attempts
        self.attempts = self.interrupted = 0
        self.wait(other.due)

    def run_next(self, now: float) -> None:
        """Wait for the next tick: those that were missed are not made up."""
        assert self.tick is not None
        steps = math.floor((max(now, self.tick) - self.tick) / self.period) + 1
        self.tick += steps * self.period
        self.attempts = self.interrupted = 0
        self.wait(self.tick)
