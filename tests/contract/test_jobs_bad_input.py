"""What is refused, clearly and before anything is written."""

import math
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from fairlane import AsyncJobQueue, ConfigurationError, NewJob, PayloadError
from fairlane.retry import Backoff

Snapshot = Callable[[], Awaitable[dict[str, Any]]]

UNTOUCHED: dict[str, Any] = {}

NOT_STR = [1, 1.5, True, b"g", ["g"], {"$ne": ""}, ("g",), object]
NOT_A_TEXT = [None, "", "\ud800", *NOT_STR]
NOT_SECONDS = [math.nan, math.inf, -1, -0.001, True, "30", [30], Decimal(30), 10**400, 1e300]
NOT_A_DURATION = [*NOT_SECONDS, timedelta(seconds=-1)]
NOT_A_COUNT = [0, -1, 1.0, True, "1", math.nan, 2**63]
NOT_A_PRIORITY = [1.0, True, "1", math.nan, [1], 2**31, -(2**31) - 1]
NAIVE = datetime(2030, 1, 1)  # noqa: DTZ001
NOT_A_MOMENT = [NAIVE, 1_000.0, "2030-01-01", timedelta(1), NAIVE.date()]
AT = NAIVE.replace(tzinfo=UTC)

BAD_OPTIONS: dict[str, list[Any]] = {
    "priority": NOT_A_PRIORITY,
    "delay": NOT_A_DURATION,
    "run_at": NOT_A_MOMENT,
    "max_attempts": NOT_A_COUNT,
    "unique_key": ["", "\ud800", *NOT_STR],
}
OPTIONS = [(name, value) for name, values in BAD_OPTIONS.items() for value in values]


def raise_only(errors: Any) -> None:
    ((_, error),) = errors
    raise error


@pytest.mark.parametrize(("name", "value"), OPTIONS, ids=repr)
async def test_bad_option_is_refused_by_its_name(
    queue: AsyncJobQueue, snapshot: Snapshot, name: str, value: Any
) -> None:
    with pytest.raises(ConfigurationError, match=name):
        await queue.enqueue(1, "t", **{name: value})
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize(("name", "value"), OPTIONS, ids=repr)
async def test_bad_option_of_one_of_many_is_an_error_of_that_one(
    queue: AsyncJobQueue, name: str, value: Any
) -> None:
    enqueued = await queue.enqueue_many([NewJob(1, **{name: value}), 2], "t")
    with pytest.raises(ConfigurationError, match=name):
        raise_only(enqueued.errors)
    assert await queue.total() == 1


@pytest.mark.parametrize(
    ("name", "value"), [each for each in OPTIONS if each[0] != "unique_key"], ids=repr
)
async def test_bad_option_of_all_is_refused_before_anything_is_written(
    queue: AsyncJobQueue, snapshot: Snapshot, name: str, value: Any
) -> None:
    with pytest.raises(ConfigurationError, match=name):
        await queue.enqueue_many([NewJob(1, priority=1)], "t", **{name: value})
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("type", NOT_A_TEXT, ids=repr)
async def test_type_that_is_no_text_is_refused(
    queue: AsyncJobQueue, snapshot: Snapshot, type: Any
) -> None:
    """A12.86 in a queue that knows no list of types: an unknown one is a type like any other."""
    with pytest.raises(ConfigurationError, match="type"):
        await queue.enqueue(1, type)
    with pytest.raises(ConfigurationError, match="types"):
        await queue.claim("good", type)
    with pytest.raises(ConfigurationError, match="types"):
        await queue.claim_many(2, type)
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("type", [each for each in NOT_A_TEXT if each is not None], ids=repr)
@pytest.mark.parametrize(
    "verb",
    ["size", "in_flight", "failed", "total", "stats", "purge", "redrive", "reclaim_stale"],
)
async def test_type_that_is_no_text_is_refused_by_every_verb(
    queue: AsyncJobQueue, snapshot: Snapshot, verb: str, type: Any
) -> None:
    """A dict would be an operator in a filter: it would purge every type."""
    with pytest.raises(ConfigurationError, match="type"):
        await getattr(queue, verb)(type=type)
    assert await snapshot() == UNTOUCHED


async def test_type_must_be_given_for_each_of_many(queue: AsyncJobQueue) -> None:
    enqueued = await queue.enqueue_many([NewJob(1), NewJob(2, "t")])
    with pytest.raises(ConfigurationError, match="type must be a str"):
        raise_only(enqueued.errors)


@pytest.mark.parametrize(
    ("payload", "path"),
    [
        ({"a": {"b": [1, object()]}}, r"payload\.a\.b\[1\]"),
        ({"at": NAIVE}, r"payload\.at.*without a zone"),
        ({1: "x"}, "payload"),
        (2**64, "payload"),
        ({"\ud800": 1}, "payload"),
        (lambda: 1, "payload"),
        ({"x": b"a" * 17_000_000}, "payload.*bytes as BSON"),
    ],
    ids=["object", "naive datetime", "key", "large int", "surrogate", "function", "too large"],
)
async def test_payload_that_cannot_be_stored_is_refused_with_its_place(
    queue: AsyncJobQueue, snapshot: Snapshot, payload: Any, path: str
) -> None:
    with pytest.raises(PayloadError, match=path):
        await queue.enqueue(payload, "t")
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("delay", [0, 5, timedelta(1)], ids=repr)
async def test_delay_and_moment_together_are_refused(
    queue: AsyncJobQueue, snapshot: Snapshot, delay: Any
) -> None:
    with pytest.raises(ConfigurationError, match="delay or run_at, not both"):
        await queue.enqueue(1, "t", delay=delay, run_at=AT)
    assert await snapshot() == UNTOUCHED


async def test_naive_moment_is_refused_with_the_reason(queue: AsyncJobQueue) -> None:
    with pytest.raises(ConfigurationError, match=r"tzinfo.*another moment on every machine"):
        await queue.enqueue(1, "t", run_at=NAIVE)


@pytest.mark.parametrize("value", ["", "drop", None, ["skip"], True], ids=repr)
async def test_unknown_way_with_duplicates_is_refused(
    queue: AsyncJobQueue, snapshot: Snapshot, value: Any
) -> None:
    with pytest.raises(ConfigurationError, match="on_duplicate"):
        await queue.enqueue(1, "t", on_duplicate=value)
    with pytest.raises(ConfigurationError, match="on_duplicate"):
        await queue.enqueue_many([1], "t", on_duplicate=value)
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("payloads", [None, 5, "ab", b"ab", {"a": 1}], ids=repr)
async def test_one_payload_in_place_of_many_is_refused(
    queue: AsyncJobQueue, snapshot: Snapshot, payloads: Any
) -> None:
    with pytest.raises(ConfigurationError, match="payloads must be several"):
        await queue.enqueue_many(payloads, "t")
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("n", NOT_A_COUNT, ids=repr)
async def test_number_of_claims_must_be_positive(
    queue: AsyncJobQueue, snapshot: Snapshot, n: Any
) -> None:
    with pytest.raises(ConfigurationError, match="n must"):
        await queue.claim_many(n, "t")
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("lease", [*NOT_A_DURATION, 0, 0.0, timedelta(0)], ids=repr)
async def test_lease_must_be_a_positive_duration(
    queue: AsyncJobQueue, snapshot: Snapshot, lease: Any
) -> None:
    for claim in (queue.claim("t", lease=lease), queue.claim_many(2, "t", lease=lease)):
        with pytest.raises(ConfigurationError, match="lease"):
            await claim
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("worker_id", [*NOT_STR, "", "\ud800"], ids=repr)
async def test_worker_id_must_be_a_text(
    queue: AsyncJobQueue, snapshot: Snapshot, worker_id: Any
) -> None:
    with pytest.raises(ConfigurationError, match="worker_id"):
        await queue.claim("t", worker_id=worker_id)
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("seconds", NOT_A_DURATION, ids=repr)
async def test_job_survives_a_duration_that_is_none(
    queue: AsyncJobQueue, snapshot: Snapshot, seconds: Any
) -> None:
    await queue.enqueue(1, "t")
    job = await queue.claim("t")
    assert job is not None
    before = await snapshot()
    with pytest.raises(ConfigurationError, match="delay"):
        await queue.nack(job, delay=seconds)
    with pytest.raises(ConfigurationError, match="lease"):
        await queue.extend(job, seconds)
    with pytest.raises(ConfigurationError, match="older_than"):
        await queue.reclaim_stale(older_than=seconds)
    assert await snapshot() == before


@pytest.mark.parametrize("error", [1, b"why", "\ud800", ValueError("x")], ids=repr)
async def test_job_survives_an_error_that_is_no_text(
    queue: AsyncJobQueue, snapshot: Snapshot, error: Any
) -> None:
    await queue.enqueue(1, "t")
    job = await queue.claim("t")
    assert job is not None
    before = await snapshot()
    for settle in (queue.nack(job, error=error), queue.fail(job, error=error)):
        with pytest.raises(ConfigurationError, match="error"):
            await settle
    with pytest.raises(PayloadError, match=r"result\.x"):
        await queue.ack(job, {"x": object()})
    assert await snapshot() == before


@pytest.mark.parametrize("id", [None, 5, {"$ne": ""}, b"x", UUID(int=1)], ids=repr)
@pytest.mark.parametrize(
    "verb", ["get", "cancel", "force_ack", "force_fail", "force_release", "redrive"]
)
async def test_id_that_is_no_text_is_refused(
    queue: AsyncJobQueue, snapshot: Snapshot, verb: str, id: Any
) -> None:
    """A dict would be an operator in a filter: it would cancel any job."""
    if (verb, id) == ("redrive", None):
        return  # which means all of them
    with pytest.raises(ConfigurationError, match="id"):
        await getattr(queue, verb)(id)
    assert await snapshot() == UNTOUCHED


def handle(_: object) -> None:
    """Do nothing."""


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("handler", [None, "f", 5]),
        ("type", NOT_A_TEXT),
        ("worker_id", NOT_STR),
        ("poll_interval", [0, *NOT_A_DURATION]),
        ("reclaim_every", [0, *NOT_A_DURATION]),
        ("batch", NOT_A_COUNT),
        ("backoff", [5, "1s", Backoff, lambda _: 1]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_listener_is_refused_by_the_argument(
    queue: AsyncJobQueue, snapshot: Snapshot, name: str, values: list[Any]
) -> None:
    for value in values:
        with pytest.raises(ConfigurationError, match=name):
            await queue.listen(**{"handler": handle, "type": "t", name: value})
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("db_name", ["", "a b", None]),
        ("prefix", ["", "$p", None]),
        ("clock", [1, "now"]),
        ("partitions", [0, -1, 1_025, True, "1", 1.5]),
        ("strategy", ["", "fastest", None]),
        ("lease", [0, *NOT_A_DURATION, None]),
        ("max_attempts", [*NOT_A_COUNT, None]),
        ("keep_done", NOT_A_DURATION),
        ("keep_failed", NOT_A_DURATION),
        ("hint", ["", "by_size", None, ["by_type"], True]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_constructor_refuses_a_bad_argument_by_its_name(
    client: Any, name: str, values: list[Any]
) -> None:
    """A12.2 and A12.3."""
    for value in values:
        with pytest.raises(ConfigurationError, match=name):
            AsyncJobQueue(client, **{name: value})


@pytest.mark.parametrize("partitions", [0, 1_025, True, None, "4"], ids=repr)
async def test_number_of_partitions_must_be_one(
    queue: AsyncJobQueue, snapshot: Snapshot, partitions: Any
) -> None:
    with pytest.raises(ConfigurationError, match="partitions"):
        await queue.repartition(partitions)
    assert await snapshot() == UNTOUCHED
