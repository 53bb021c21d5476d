"""What a handler may answer, and how long a failed message waits."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from fairlane.checks import Seconds, fraction, seconds
from fairlane.errors import ConfigurationError

__all__ = ("Backoff", "Discard", "Fail", "Reject", "Retry")


@dataclass(frozen=True, slots=True, init=False)
class Backoff:
    """Exponential back-off: `base * 2**(attempt - 1)`, at most `cap`, less a random share.

    Attributes:
        base: delay after the first failed attempt, in seconds.
        cap: the longest delay, in seconds.
        jitter: share of the delay that is random, 0.0 to 1.0.

    Raises:
        ConfigurationError: an argument is not allowed.
    """

    base: float
    cap: float
    jitter: float

    def __init__(self, *, base: Seconds = 1.0, cap: Seconds = 300.0, jitter: float = 0.5) -> None:
        checked = {
            "base": seconds("base", base),
            "cap": seconds("cap", cap),
            "jitter": fraction("jitter", jitter),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait after delivery number `attempt` (1 is the first) failed."""
        exponent = min(max(attempt, 1) - 1, 60)
        full = min(self.cap, self.base * 2.0**exponent)
        return full * (1.0 - self.jitter * random.random())


class Retry(Exception):
    """Raised by a handler: deliver this message again, after `delay` seconds if it is given.

    A job may name the moment instead: `Retry(at=...)`, a datetime with a tzinfo. A message may not,
    since its source need not have a clock: it waits for its back-off then, and that is logged.

    Raises:
        ConfigurationError: an argument is not allowed, or both are given.
    """

    def __init__(
        self, delay: float | timedelta | None = None, *, at: datetime | None = None
    ) -> None:
        if delay is not None and at is not None:
            raise ConfigurationError("give delay or at, not both")
        self.delay: float | None = None if delay is None else seconds("delay", delay)
        self.at: datetime | None = None if at is None else _moment(at)
        super().__init__(_told(self.delay, at))

    def seconds_from(self, now: float) -> float | None:
        """Return how long to wait from `now`, in epoch seconds; None leaves it to the back-off."""
        return self.delay if self.at is None else max(0.0, self.at.timestamp() - now)

    def __reduce__(self) -> tuple[Callable[..., "Retry"], tuple[float | None]]:
        return partial(type(self), at=self.at), (self.delay,)


def _moment(value: object) -> datetime:
    if not isinstance(value, datetime):
        raise ConfigurationError(f"at must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise ConfigurationError(
            f"at must have a tzinfo: {value!r} is another moment on every machine"
        )
    return value


def _told(delay: float | None, at: datetime | None) -> str:
    if at is not None:
        return f"retry at {at}"
    return "retry" if delay is None else f"retry in {delay:g} s"


class Reject(Exception):
    """Raised by a handler: this message can never succeed; move it to the dead letters."""

    def __init__(self, reason: str = "rejected by the handler") -> None:
        self.reason = reason
        super().__init__(reason)


class Fail(Reject):
    """Raised by the handler of a job, or returned by its `on_error`: the job fails at once.

    It is kept as failed, with the reason, and can be redriven. A recurring job goes on with its
    next regular run.
    """

    def __init__(self, reason: str = "failed by the handler") -> None:
        super().__init__(reason)


class Discard(Exception):
    """Raised by the handler of a job, or returned by its `on_error`: the job ends, as if done.

    It is never run again. A recurring job goes on with its next regular run.
    """

    def __init__(self, reason: str = "discarded by the handler") -> None:
        self.reason = reason
        super().__init__(reason)
