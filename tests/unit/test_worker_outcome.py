"""What becomes of a message, as a table."""

import math
from datetime import timedelta
from typing import Any

import pytest

from fairlane.errors import ConfigurationError
from fairlane.retry import Backoff, Reject, Retry, Snooze, checked_policy
from fairlane.worker._outcome import MAX_REASON, MAX_TRACEBACK, after_failure, before_delivery

STEADY = Backoff(base=2.0, cap=10.0, jitter=0.0)


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "attempt", "verb", "delay", "reason"),
    [
        (ValueError("bad"), 1, "nack", 2.0, "ValueError: bad"),
        (ValueError("bad"), 2, "nack", 4.0, "ValueError: bad"),
        (ValueError("bad"), 3, "dead_letter", 0.0, "ValueError: bad"),
        (ValueError("bad"), 4, "dead_letter", 0.0, "ValueError: bad"),
        (KeyError(), 1, "nack", 2.0, "KeyError"),
        (SystemExit(3), 1, "nack", 2.0, "SystemExit: 3"),
        (Retry(), 1, "nack", 2.0, "Retry: retry"),
        (Retry(0), 1, "nack", 0.0, "Retry: retry in 0 s"),
        (Retry(7.5), 2, "nack", 7.5, "Retry: retry in 7.5 s"),
        (Retry(7.5), 3, "dead_letter", 0.0, "Retry: retry in 7.5 s"),
        (Snooze(9), 3, "release", 9.0, "Snooze: snoozed for 9 s"),
        (Reject("no such user"), 1, "dead_letter", 0.0, "no such user"),
        (Reject(), 3, "dead_letter", 0.0, "rejected by the handler"),
    ],
)
def test_failure_is_answered_by_the_table(
    error: BaseException, attempt: int, verb: str, delay: float, reason: str
) -> None:
    outcome = after_failure(error, attempt=attempt, max_attempts=3, policy=STEADY)

    assert (outcome.verb, outcome.delay, outcome.reason) == (verb, delay, reason)


BY_TYPE = {
    OSError: Backoff(base=7.0, jitter=0.0),
    ConnectionError: Backoff(base=1.0, jitter=0.0),
    ValueError: None,
}


@pytest.mark.parametrize(
    ("error", "verb", "delay"),
    [
        (FileNotFoundError(), "nack", 7.0),
        (ConnectionResetError(), "nack", 1.0),
        (UnicodeError(), "dead_letter", 0.0),
    ],
)
def test_nearest_base_class_of_an_error_decides_on_its_back_off(
    error: Exception, verb: str, delay: float
) -> None:
    outcome = after_failure(error, attempt=1, max_attempts=3, policy=BY_TYPE)
    assert (outcome.verb, outcome.delay) == (verb, delay)


def test_error_that_no_policy_names_is_retried_after_the_standard_back_off() -> None:
    outcome = after_failure(KeyError(), attempt=1, max_attempts=3, policy=BY_TYPE)
    assert outcome.verb == "nack"
    assert 0.5 <= outcome.delay <= 1.0


def test_last_failure_keeps_the_end_of_its_traceback() -> None:
    def fail(depth: int) -> None:
        if depth:
            fail(depth - 1)
        raise ValueError("at the bottom")

    with pytest.raises(ValueError, match="bottom") as raised:
        fail(200)
    outcome = after_failure(raised.value, attempt=3, max_attempts=3, policy=STEADY)
    assert outcome.traceback is not None
    assert len(outcome.traceback) <= MAX_TRACEBACK
    assert outcome.traceback.endswith("ValueError: at the bottom\n")


def test_answer_of_the_handler_needs_no_traceback() -> None:
    assert after_failure(Reject(), attempt=1, max_attempts=3, policy=STEADY).traceback is None


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        (3.0, "backoff must be a Backoff, or a mapping from exception types"),
        ({"ValueError": Backoff()}, "keys of backoff must be exception types, not 'ValueError'"),
        ({ValueError: 3}, r"backoff\[ValueError\] must be a Backoff or None, not 3"),
    ],
)
def test_bad_policy_is_refused(policy: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        checked_policy("backoff", policy)


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_message_within_its_attempts_is_delivered(attempt: int) -> None:
    assert before_delivery(attempt, max_attempts=3) is None


def test_message_past_its_attempts_is_not_delivered() -> None:
    outcome = before_delivery(4, max_attempts=3)

    assert outcome is not None
    assert (outcome.verb, outcome.reason) == ("dead_letter", "worker lost after 3 attempts")


class BrokenBackoff(Backoff):
    def __init__(self, answer: Any) -> None:
        super().__init__()
        object.__setattr__(self, "answer", answer)

    def delay(self, attempt: int) -> float:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class BrokenRetry(Retry):
    def __init__(self) -> None:
        pass


@pytest.mark.parametrize(
    "answer", [TypeError("broken"), None, "1", -1.0, math.nan, timedelta(days=10**6)], ids=repr
)
def test_backoff_without_an_answer_is_a_counted_nack_with_the_standard_delay(answer: Any) -> None:
    outcome = after_failure(
        ValueError("bad"), attempt=2, max_attempts=3, policy=BrokenBackoff(answer)
    )

    assert (outcome.verb, outcome.reason) == ("nack", "ValueError: bad")
    assert 1.0 <= outcome.delay <= 2.0


def test_retry_without_its_delay_is_a_counted_nack() -> None:
    outcome = after_failure(BrokenRetry(), attempt=1, max_attempts=3, policy=STEADY)

    assert outcome.verb == "nack"


@pytest.mark.parametrize("error", [ValueError("x" * 100_000), Reject("x" * 100_000)])
def test_reason_is_bounded(error: Exception) -> None:
    outcome = after_failure(error, attempt=1, max_attempts=3, policy=STEADY)

    assert len(outcome.reason or "") == MAX_REASON


@pytest.mark.parametrize("error", [ValueError("half \ud800 pair"), Reject("half \ud800 pair")])
def test_reason_is_text_that_bson_can_hold(error: Exception) -> None:
    outcome = after_failure(error, attempt=1, max_attempts=3, policy=STEADY)

    assert (outcome.reason or "").endswith("half \\ud800 pair")


def test_error_that_cannot_be_printed_still_has_a_reason() -> None:
    outcome = after_failure(MuteError(), attempt=1, max_attempts=3, policy=STEADY)

    assert outcome.reason == "MuteError: (no message: its __str__ raised)"


def test_reject_with_something_else_than_text_has_a_reason() -> None:
    outcome = after_failure(
        Reject({"code": 4}),  # type: ignore[arg-type]
        attempt=1,
        max_attempts=3,
        policy=STEADY,
    )

    assert outcome.reason == "{'code': 4}"
