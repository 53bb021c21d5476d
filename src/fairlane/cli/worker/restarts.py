"""When a worker process that has ended is started again, and when no longer."""

from dataclasses import dataclass

from fairlane.retry import Backoff

__all__ = ("Life", "Restarts")

BACKOFF = Backoff(base=0.5, cap=30.0)
LONG = 60.0
MOST_IN_VAIN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One process, from its start to its end.

    Attributes:
        status: of its exit; below 0 the number of the signal that ended it.
        seconds: how long it has lived.
        has_worked: whether its pool has had an answer from its server.
    """

    status: int
    seconds: float
    has_worked: bool


class Restarts:
    """The restarts of one place in a fleet.

    The delay grows with each short life, from half a second to half a minute, less a random share
    of up to a half; a life of a minute begins anew. A place whose processes end `most_in_vain`
    times in a row before their pools have worked is given up.
    """

    def __init__(
        self,
        *,
        backoff: Backoff = BACKOFF,
        long: float = LONG,
        most_in_vain: int = MOST_IN_VAIN,
    ) -> None:
        self.count: int = 0
        self._backoff = backoff
        self._long = long
        self._most_in_vain = most_in_vain
        self._short = 0
        self._in_vain = 0

    def after(self, life: Life) -> float | None:
        """Return the seconds until the next start; None where there shall be none."""
        self._in_vain = 0 if life.has_worked else self._in_vain + 1
        self._short = 1 if life.seconds >= self._long else self._short + 1
        if self._in_vain >= self._most_in_vain:
            return None
        self.count += 1
        return self._backoff.delay(self._short)
