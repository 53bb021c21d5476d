"""`Retry(at=...)`: a job that names the moment of its next attempt."""

import logging
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from job_fakes import Scene
from worker_fakes import in_virtual_time, now

from fairlane import Backoff, ConfigurationError, Retry
from fairlane.clock import instant
from fairlane.worker._outcome import after_failure

NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001


@pytest.mark.parametrize("at", [NAIVE, NAIVE.date(), 1_000.0, "2030-01-01", timedelta(1)], ids=repr)
def test_what_is_no_moment_is_refused(at: Any) -> None:
    with pytest.raises(ConfigurationError, match="at must"):
        Retry(at=at)


def test_delay_and_moment_together_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="delay or at, not both"):
        Retry(5, at=datetime.now(UTC))


def test_moment_says_how_long_it_is_until_then() -> None:
    at = instant(1_000.0)
    assert [Retry(at=at).seconds_from(now) for now in (990.0, 1_000.0, 2_000.0)] == [10, 0, 0]
    assert (Retry(7).seconds_from(990.0), Retry().seconds_from(990.0)) == (7.0, None)
    assert str(Retry(at=at)) == "retry at 1970-01-01 00:16:40+00:00"


@pytest.mark.parametrize("retry", [Retry(at=instant(1_000.0)), Retry(7), Retry()], ids=repr)
def test_retry_can_be_sent_to_another_process(retry: Retry) -> None:
    copy = pickle.loads(pickle.dumps(retry))
    assert (copy.delay, copy.at, str(copy)) == (retry.delay, retry.at, str(retry))


@pytest.mark.parametrize("said_by", ["handler", "on_error"])
def test_job_is_retried_at_the_moment_that_it_names(said_by: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene, began_at = Scene(), now()
        retry = Retry(at=instant(began_at + 500))
        error = retry if said_by == "handler" else ValueError("bad")
        await scene.outcome(error, times=2, on_error=lambda error, ctx: retry)
        assert 500 <= now() - began_at < 502

    scenario()


def test_message_that_names_a_moment_waits_for_its_back_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its source need not have a clock."""
    steady = Backoff(base=2.0, jitter=0.0)
    with caplog.at_level(logging.ERROR):
        outcome = after_failure(Retry(at=instant(9e9)), attempt=1, max_attempts=3, policy=steady)
    assert (outcome.verb, outcome.delay) == ("nack", 2.0)
    assert "Retry(at=...) is for jobs" in caplog.text
