"""What becomes of a message, as a table."""

import math
from datetime import timedelta
from typing import Any

import pytest

from fairlane.retry import Backoff, Reject, Retry
from fairlane.worker._outcome import MAX_REASON, after_failure, before_delivery

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
        (Reject("no such user"), 1, "dead_letter", 0.0, "no such user"),
        (Reject(), 3, "dead_letter", 0.0, "rejected by the handler"),
    ],
)
def test_failure_is_answered_by_the_table(
    error: BaseException, attempt: int, verb: str, delay: float, reason: str
) -> None:
    outcome = after_failure(error, attempt=attempt, max_attempts=3, backoff=STEADY)

    assert (outcome.verb, outcome.delay, outcome.reason) == (verb, delay, reason)


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
        ValueError("bad"), attempt=2, max_attempts=3, backoff=BrokenBackoff(answer)
    )

    assert (outcome.verb, outcome.reason) == ("nack", "ValueError: bad")
    assert 1.0 <= outcome.delay <= 2.0


def test_retry_without_its_delay_is_a_counted_nack() -> None:
    outcome = after_failure(BrokenRetry(), attempt=1, max_attempts=3, backoff=STEADY)

    assert outcome.verb == "nack"


@pytest.mark.parametrize("error", [ValueError("x" * 100_000), Reject("x" * 100_000)])
def test_reason_is_bounded(error: Exception) -> None:
    outcome = after_failure(error, attempt=1, max_attempts=3, backoff=STEADY)

    assert len(outcome.reason or "") == MAX_REASON


@pytest.mark.parametrize("error", [ValueError("half \ud800 pair"), Reject("half \ud800 pair")])
def test_reason_is_text_that_bson_can_hold(error: Exception) -> None:
    outcome = after_failure(error, attempt=1, max_attempts=3, backoff=STEADY)

    assert (outcome.reason or "").endswith("half \\ud800 pair")


def test_error_that_cannot_be_printed_still_has_a_reason() -> None:
    outcome = after_failure(MuteError(), attempt=1, max_attempts=3, backoff=STEADY)

    assert outcome.reason == "MuteError: (no message: its __str__ raised)"


def test_reject_with_something_else_than_text_has_a_reason() -> None:
    outcome = after_failure(
        Reject({"code": 4}),  # type: ignore[arg-type]
        attempt=1,
        max_attempts=3,
        backoff=STEADY,
    )

    assert outcome.reason == "{'code': 4}"
