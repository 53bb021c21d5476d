"""A pool that cannot work is refused when it is made, by an error that names the argument."""

from datetime import timedelta
from typing import Any

import pytest
from worker_fakes import FakeSource, handled, nothing

from fairlane.errors import ConfigurationError
from fairlane.worker import WorkerPool


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("concurrency", 0),
        ("concurrency", True),
        ("concurrency", 2.0),
        ("claimers", 0),
        ("claimers", "4"),
        ("worker_id", ""),
        ("worker_id", 7),
        ("worker_id", "\ud800"),
        ("visibility", 0),
        ("visibility", float("nan")),
        ("visibility", -1.0),
        ("visibility", "30"),
        ("min_priority", 5),
        ("min_priority", None),
        ("order", "random"),
        ("order", None),
        ("max_attempts", 0),
        ("max_attempts", None),
        ("backoff", 1.0),
        ("poll_interval", 0),
        ("poll_interval", float("inf")),
        ("drain_timeout", -1),
        ("drain_timeout", None),
        ("signals", 1),
        ("on_event", "print"),
        ("on_event", handled),
        ("lanes", {3: 8}),
        ("batch", 2),
    ],
)
def test_bad_argument_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=name):
        WorkerPool(FakeSource(), handled, **{name: value})


def test_source_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="object has no claim, ack"):
        WorkerPool(object(), handled)  # type: ignore[arg-type]


async def each(_: object) -> Any:
    yield


@pytest.mark.parametrize("handler", [None, "handle", each])
def test_handler_that_would_do_nothing_is_refused(handler: Any) -> None:
    with pytest.raises(ConfigurationError, match="handler must"):
        WorkerPool(FakeSource(), handler)


def test_durations_may_be_timedeltas() -> None:
    minute = timedelta(minutes=1)

    pool = WorkerPool(
        FakeSource(), handled, visibility=minute, poll_interval=minute, drain_timeout=minute
    )

    assert pool.health.state == "stopped"


def test_worker_ids_are_distinct() -> None:
    first, second = (WorkerPool(FakeSource(), handled, on_event=nothing) for _ in range(2))

    assert first.worker_id != second.worker_id
