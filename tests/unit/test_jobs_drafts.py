"""Jobs that are about to be enqueued: what is filled in, and what is refused."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from fairlane import ConfigurationError, PayloadError
from fairlane.jobs import NewJob
from fairlane.jobs._drafts import Draft, checked_on_duplicate, with_defaults

AT = datetime(2030, 1, 1, tzinfo=UTC)
DEFAULTS = NewJob(None, "t", priority=5, delay=9, max_attempts=4, unique_key="k")


def draft(**options: Any) -> Draft:
    return Draft.checked(NewJob(**{"payload": 1, "type": "t", **options}), max_attempts=3)


def test_draft_of_a_bare_job() -> None:
    made = draft()
    assert (made.type, made.payload, made.priority) == ("t", 1, 0)
    assert (made.delay, made.due_at, made.max_attempts, made.unique_key) == (0.0, None, 3, None)


@pytest.mark.parametrize(
    ("delay", "seconds"), [(0, 0.0), (5, 5.0), (0.25, 0.25), (timedelta(minutes=2), 120.0)]
)
def test_delay_is_in_seconds(delay: Any, seconds: float) -> None:
    assert (draft(delay=delay).delay, draft(delay=delay).due_at) == (seconds, None)


@pytest.mark.parametrize("zone", [UTC, timezone(timedelta(hours=-5, minutes=-30))])
def test_moment_is_the_same_in_every_zone(zone: Any) -> None:
    assert draft(run_at=AT.astimezone(zone)).due_at == AT.timestamp()


@pytest.mark.parametrize("priority", [0, -1, 2**31 - 1, -(2**31)])
def test_priority_is_kept_as_it_is(priority: int) -> None:
    """0 is no missing value."""
    assert draft(priority=priority).priority == priority


@pytest.mark.parametrize("max_attempts", [1, 2, 10**6])
def test_job_says_before_the_queue_how_often_it_is_started(max_attempts: int) -> None:
    assert draft(max_attempts=max_attempts).max_attempts == max_attempts


@pytest.mark.parametrize("name", ["delay", "run_at"])
def test_refusal_of_both_times_names_both(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        draft(delay=0, run_at=AT)


def test_payload_is_copied() -> None:
    payload = {"n": [1]}
    made = draft(payload=payload)
    payload["n"].append(2)
    assert made.payload["n"] == [1]


def test_texts_beside_a_payload_take_room_from_it() -> None:
    """The whole document must be one that the server takes."""
    payload = b"x" * (16 * 1024 * 1024 - 32 * 1024 - 100)
    assert draft(payload=payload).payload == payload
    with pytest.raises(PayloadError, match="bytes as BSON"):
        draft(payload=payload, unique_key="k" * 200)
    with pytest.raises(PayloadError, match="bytes as BSON"):
        draft(payload=payload, type="t" * 200)


@pytest.mark.parametrize("item", [None, 5, "text", {"type": "u"}, [1], ("u", 1)], ids=repr)
def test_bare_item_is_a_payload_with_the_options_of_all(item: Any) -> None:
    made = with_defaults(item, DEFAULTS)
    assert made == NewJob(item, "t", priority=5, delay=9, max_attempts=4, unique_key="k")


@pytest.mark.parametrize(
    ("name", "value"),
    [("type", "u"), ("priority", 0), ("max_attempts", 1), ("unique_key", "n"), ("delay", 0)],
)
def test_option_of_an_item_goes_before_that_of_all(name: str, value: Any) -> None:
    """Also one that is as good as false."""
    made = with_defaults(NewJob("p", **{name: value}), DEFAULTS)
    assert getattr(made, name) == value
    others = {"type", "priority", "max_attempts", "unique_key", "delay"} - {name}
    assert all(getattr(made, each) == getattr(DEFAULTS, each) for each in others)


def test_moment_of_an_item_goes_before_the_delay_of_all() -> None:
    made = with_defaults(NewJob("p", run_at=AT), DEFAULTS)
    assert (made.run_at, made.delay) == (AT, None)


def test_delay_of_an_item_goes_before_the_moment_of_all() -> None:
    made = with_defaults(NewJob("p", delay=1), NewJob(None, "t", run_at=AT))
    assert (made.run_at, made.delay) == (None, 1)


@pytest.mark.parametrize("value", ["skip", "replace", "raise"])
def test_ways_with_duplicates(value: Any) -> None:
    assert checked_on_duplicate(value) == value


@pytest.mark.parametrize("value", ["SKIP", "", None, 1, ["skip"]], ids=repr)
def test_other_ways_with_duplicates_are_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"on_duplicate.*skip.*replace.*raise"):
        checked_on_duplicate(value)
