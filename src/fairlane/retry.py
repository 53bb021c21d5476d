"""What a handler may answer, and how long a failed message waits."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, cast

from fairlane.checks import Seconds, fraction, moment, seconds
from fairlane.errors import ConfigurationError

__all__ = (
    "ANSWERS",
    "STANDARD",
    "Backoff",
    "Discard",
    "Fail",
    "Reject",
    "Retry",
    "RetryPolicy",
    "Snooze",
    "as_answer",
    "backoff_for",
    "checked_policy",
    "heed",
)


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


STANDARD = Backoff()
"""Where nobody says how long to wait."""

RetryPolicy = Backoff | Mapping[type[Any], Backoff | None]
"""A back-off for all errors, or one for each kind of them: the nearest base class of an error
decides. None is for errors that are not worth another attempt. Kinds that nobody names are retried
with the standard back-off."""


def checked_policy(name: str, value: object) -> RetryPolicy:
    """Return the policy; raises `ConfigurationError` naming what is wrong in it."""
    if isinstance(value, Backoff):
        return value
    if not isinstance(value, Mapping):
        raise ConfigurationError(
            f"{name} must be a Backoff, or a mapping from exception types to Backoffs, not "
            f"{value!r:.100}"
        )
    for kind, backoff in value.items():
        if not isinstance(kind, type) or not issubclass(kind, BaseException):
            raise ConfigurationError(f"the keys of {name} must be exception types, not {kind!r}")
        if backoff is not None and not isinstance(backoff, Backoff):
            raise ConfigurationError(
                f"{name}[{kind.__name__}] must be a Backoff or None, not {backoff!r:.100}"
            )
    return dict(value)


def backoff_for(
    error: BaseException, policy: RetryPolicy, default: Backoff = STANDARD
) -> Backoff | None:
    """Return the back-off after this error; None if another attempt is not worth it."""
    if isinstance(policy, Backoff):
        return policy
    for kind in type(error).__mro__:
        if kind in policy:
            return policy[kind]
    return default


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
        self.at: datetime | None = None if at is None else moment("at", at)
        super().__init__(_told(self.delay, at))

    def seconds_from(self, now: float) -> float | None:
        """Return how long to wait from `now`, in epoch seconds; None leaves it to the back-off."""
        return self.delay if self.at is None else max(0.0, self.at.timestamp() - now)

    def __reduce__(self) -> tuple[Callable[..., "Retry"], tuple[float | None]]:
        return partial(type(self), at=self.at), (self.delay,)


def _told(delay: float | None, at: datetime | None) -> str:
    if at is not None:
        return f"retry at {at}"
    return "retry" if delay is None else f"retry in {delay:g} s"


class Snooze(Exception):
    """Raised by a handler: not now; deliver this message, or job, again after `delay` seconds.

    The attempt does not count, so a snooze may be repeated for ever. Its group waits with it.

    Raises:
        ConfigurationError: the delay is not allowed.
    """

    def __init__(self, delay: Seconds) -> None:
        self.delay: float = seconds("delay", delay)
        super().__init__(f"snoozed for {self.delay:g} s")

    def __reduce__(self) -> tuple[type["Snooze"], tuple[float]]:
        return type(self), (self.delay,)


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


ANSWERS: tuple[type[Retry], type[Snooze], type[Reject], type[Discard]] = (
    Retry,
    Snooze,
    Reject,
    Discard,
)
"""What a handler answers by raising it."""


def as_answer(value: object) -> object:
    """Return an answer that was given as its class as `raise` would make it of it."""
    is_class = isinstance(value, type) and issubclass(value, ANSWERS)
    return cast("Callable[[], object]", value)() if is_class else value


def heed(result: Any) -> Any:
    """Return what a handler has returned; an answer is raised, since as a result it would be lost.

    Raises:
        Retry, Snooze, Reject, Discard: that was the result.
    """
    answer = as_answer(result)
    if isinstance(answer, ANSWERS):
        raise answer
    return result
