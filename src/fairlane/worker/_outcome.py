"""Decide what becomes of a message. Nothing here waits, writes or reads a clock."""

import logging
import traceback
from dataclasses import dataclass
from typing import Literal

from fairlane import checks
from fairlane.errors import describe
from fairlane.retry import (
    STANDARD,
    Backoff,
    Discard,
    Reject,
    Retry,
    RetryPolicy,
    Snooze,
    backoff_for,
)

__all__ = (
    "ACK",
    "FAULT",
    "INTERRUPTED",
    "RELEASE",
    "Outcome",
    "after_failure",
    "before_delivery",
    "delay_of",
    "reason_of",
    "traceback_of",
)

logger = logging.getLogger(__name__)

MAX_TRACEBACK = 4_000
"""Characters of a traceback that are kept."""

MAX_REASON = 1_000
"""Characters of an error's message that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a lease ends.

    Attributes:
        delay: seconds until it is claimable again.
        reason: what went wrong.
        traceback: where, of an error that was not expected.
        is_interrupted: whether it is released because its handler was stopped.
    """

    verb: Literal["ack", "nack", "dead_letter", "release"]
    delay: float = 0.0
    reason: str | None = None
    traceback: str | None = None
    is_interrupted: bool = False


ACK = Outcome(verb="ack")
RELEASE = Outcome(verb="release")
INTERRUPTED = Outcome(verb="release", is_interrupted=True)
FAULT = Outcome(verb="nack", delay=5.0, reason="a fault of the worker pool")
"""It counts as an attempt: whatever fails here again and again must come to an end."""


def before_delivery(attempt: int, max_attempts: int) -> Outcome | None:
    """Refuse a message that no handler has survived. Claims count, so a dead worker's do too."""
    if attempt <= max_attempts:
        return None
    return Outcome(verb="dead_letter", reason=f"worker lost after {attempt - 1} attempts")


def after_failure(
    error: BaseException, *, attempt: int, max_attempts: int, policy: RetryPolicy
) -> Outcome:
    """Answer an error that the handler raised on delivery number `attempt`."""
    reason = reason_of(error)
    if isinstance(error, Snooze):
        return Outcome(verb="release", delay=error.delay, reason=reason)
    if isinstance(error, Reject):
        return Outcome(verb="dead_letter", reason=reason)
    backoff = backoff_for(error, policy)
    if attempt >= max_attempts or backoff is None:
        return Outcome(verb="dead_letter", reason=reason, traceback=traceback_of(error))
    return Outcome(verb="nack", delay=delay_of(error, attempt, backoff), reason=reason)


def delay_of(
    error: BaseException, attempt: int, backoff: Backoff, *, now: float | None = None
) -> float:
    """Return the seconds until the next attempt; `now` is None where no clock is known."""
    try:
        asked_for = _asked_for(error, now) if isinstance(error, Retry) else None
        return checks.seconds("delay", backoff.delay(attempt) if asked_for is None else asked_for)
    except Exception:  # applications derive from both
        logger.exception("no delay from %r; the standard one is taken", backoff)
        return STANDARD.delay(attempt)


def _asked_for(retry: Retry, now: float | None) -> float | None:
    if now is not None:
        return retry.seconds_from(now)
    if retry.at is not None:
        logger.error("Retry(at=...) is for jobs: this message waits for its back-off")
    return retry.delay


def traceback_of(error: BaseException) -> str:
    """Return the last lines of a traceback: those nearest to where it was raised."""
    lines = "".join(traceback.format_exception(error))
    return _encodable(lines[-MAX_TRACEBACK:])


def reason_of(error: BaseException) -> str:
    """Return what is kept of an error: of an answer of the handler its reason."""
    if isinstance(error, Reject | Discard):
        return _printable(error.reason)
    return describe(error)


def _printable(text: object) -> str:
    return _encodable(str(text)[:MAX_REASON])


def _encodable(text: str) -> str:
    """Escape lone surrogates: BSON cannot hold them."""
    return text.encode("utf-8", "backslashreplace").decode()
