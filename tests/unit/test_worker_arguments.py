"""A pool that cannot work is refused when it is made, by an error that names the argument."""

from datetime import timedelta
from functools import partial, wraps
from typing import Any

import pytest
from worker_fakes import FakeSource, handled, nothing

from fairlane import AsyncMongoTransport, MongoTransport
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
        ("batch", 2),
    ],
)
def test_bad_argument_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=name):
        WorkerPool(FakeSource(), handled, **{name: value})


def test_source_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="object has no claim, ack"):
        WorkerPool(object(), handled)  # type: ignore[arg-type]


class BlockingSource(FakeSource):
    def claim(self, *_: Any, **__: Any) -> Any:
        return None


class WrappedSource(FakeSource):
    @wraps(FakeSource.claim)
    def claim(self, *args: Any, **options: Any) -> Any:
        return super().claim(*args, **options)


@pytest.mark.parametrize("source", [MongoTransport(nothing), BlockingSource()])
def test_source_that_blocks_is_refused(source: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"AsyncMongoTransport.*{type(source).__name__}"):
        WorkerPool(source, handled)


@pytest.mark.parametrize("source", [MongoTransport, AsyncMongoTransport, FakeSource])
def test_class_in_place_of_a_source_is_refused(source: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{source.__name__} is a class"):
        WorkerPool(source, handled)


def test_transport_that_is_not_open_yet_is_refused_with_what_to_do() -> None:
    opening: Any = AsyncMongoTransport.from_url("mongodb://localhost")
    with pytest.raises(ConfigurationError, match="Opening first, with `async with`"):
        WorkerPool(opening, handled)


def test_source_with_a_wrapped_claim_is_accepted() -> None:
    assert WorkerPool(WrappedSource(), handled).health.state == "stopped"


async def no_argument() -> None: ...


def two_arguments(_: object, __: object) -> None: ...


@pytest.mark.parametrize("handler", [no_argument, two_arguments, lambda: None, lambda *, x: None])
def test_handler_that_cannot_take_one_lease_is_refused(handler: Any) -> None:
    with pytest.raises(ConfigurationError, match="one argument, the lease"):
        WorkerPool(FakeSource(), handler)


@pytest.mark.parametrize(
    "handler", [partial(two_arguments, 1), lambda lease, more=1: None, nothing, max]
)
def test_handler_that_can_take_one_lease_or_does_not_tell_is_accepted(handler: Any) -> None:
    assert WorkerPool(FakeSource(), handler).health.state == "stopped"


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
