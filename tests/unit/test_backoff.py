"""How long a failed message waits."""

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fairlane import Backoff, ConfigurationError, Reject, Retry


def test_delay_doubles_with_every_attempt() -> None:
    backoff = Backoff(base=1.5, cap=1_000, jitter=0)
    assert [backoff.delay(attempt) for attempt in (1, 2, 3, 4)] == [1.5, 3.0, 6.0, 12.0]


def test_delay_is_capped() -> None:
    assert Backoff(base=1, cap=300, jitter=0).delay(20) == 300


@pytest.mark.parametrize("attempt", [61, 10_000, 10**30])
def test_delay_of_a_very_late_attempt_is_the_cap(attempt: int) -> None:
    assert Backoff(jitter=0).delay(attempt) == 300


@pytest.mark.parametrize("attempt", [0, -5])
def test_delay_before_the_first_attempt_is_that_of_the_first(attempt: int) -> None:
    assert Backoff(base=2, jitter=0).delay(attempt) == 2


@pytest.mark.parametrize("jitter", [0.0, 0.5, 1.0])
def test_delay_stays_within_its_jitter(jitter: float) -> None:
    backoff = Backoff(base=8, cap=8, jitter=jitter)
    delays = [backoff.delay(1) for _ in range(500)]
    assert 8 * (1 - jitter) <= min(delays)
    assert max(delays) <= 8


def test_jitter_spreads_delays() -> None:
    backoff = Backoff(base=8, jitter=0.5)
    assert len({backoff.delay(1) for _ in range(100)}) > 50


def test_backoff_takes_timedeltas_and_keeps_seconds() -> None:
    backoff = Backoff(base=timedelta(seconds=5), cap=timedelta(minutes=1), jitter=0)
    assert [backoff.delay(1), backoff.delay(9)] == [5.0, 60.0]
    assert backoff == Backoff(base=5, cap=60, jitter=0)


def test_backoff_can_be_replaced_in_part() -> None:
    assert replace(Backoff(base=5, cap=60), cap=30) == Backoff(base=5, cap=30)


def test_delay_without_a_base_is_zero() -> None:
    assert Backoff(base=0).delay(7) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"base": -1},
        {"base": math.nan},
        {"base": "1"},
        {"cap": math.inf},
        {"cap": None},
        {"jitter": 1.5},
        {"jitter": -0.1},
        {"jitter": True},
    ],
    ids=str,
)
def test_backoff_refuses_what_is_no_duration(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Backoff(**options)


@pytest.mark.parametrize("delay", [-1, math.nan, "1", True])
def test_retry_refuses_what_is_no_duration(delay: Any) -> None:
    with pytest.raises(ConfigurationError, match="delay"):
        Retry(delay)


def test_retry_without_a_delay_leaves_it_to_the_pool() -> None:
    assert Retry().delay is None


def test_reject_says_why() -> None:
    assert Reject("no such order").reason == str(Reject("no such order")) == "no such order"
