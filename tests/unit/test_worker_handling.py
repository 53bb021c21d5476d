"""Return is ack, an exception is a later retry, and the dead letters are the end."""

import asyncio
from contextlib import suppress
from typing import Any

import anyio
import pytest
from worker_fakes import (
    FakeSource,
    Record,
    busy,
    handled,
    in_virtual_time,
    now,
    raising,
)

from fairlane.model import Lease
from fairlane.retry import Backoff, Reject, Retry
from fairlane.worker import WorkerPool

STEADY = Backoff(base=8.0, cap=300.0, jitter=0.0)


@in_virtual_time
async def test_handler_that_returns_has_acked() -> None:
    source, record = FakeSource(), Record()
    seq = source.publish("g", {"n": 1})

    async with WorkerPool(source, handled, on_event=record):
        await record.until("acked")

    assert source.acked == [seq]


@in_virtual_time
async def test_handler_gets_the_lease() -> None:
    source, record = FakeSource(), Record()
    source.publish("g", {"n": 1})
    seen: list[Lease[Any]] = []

    async def handle(lease: Lease[Any]) -> None:
        seen.append(lease)

    async with WorkerPool(source, handle, on_event=record):
        await record.until("acked")

    assert [(lease.group_id, lease.event, lease.attempt) for lease in seen] == [("g", {"n": 1}, 1)]


@in_virtual_time
async def test_exception_is_a_nack_with_backoff() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async with WorkerPool(source, raising(ValueError("bad")), backoff=STEADY, on_event=record):
        nacked = await record.until("nacked")
        failed_at = now()
        await record.until("acked")

    assert (nacked.delay, nacked.reason) == (8.0, "ValueError: bad")
    assert now() - failed_at >= 8.0
    assert source.errors == ["ValueError: bad"]


@in_virtual_time
async def test_every_event_of_a_failing_message_is_told_in_order() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async with WorkerPool(source, raising(ValueError("bad")), on_event=record):
        await record.until("acked")

    assert record.kinds == ["claimed", "handler_failed", "nacked", "claimed", "acked"]
    assert [event.attempt for event in record.events] == [1, 1, 1, 2, 2]


@in_virtual_time
async def test_last_failed_attempt_goes_to_the_dead_letters() -> None:
    source, record = FakeSource(), Record()
    seq = source.publish("g")
    errors = [ValueError(f"bad {number}") for number in range(1, 9)]

    async with WorkerPool(source, raising(*errors), max_attempts=3, on_event=record):
        await record.until("dead_lettered")

    assert source.dead == [(seq, "ValueError: bad 3")]


@in_virtual_time
async def test_dead_letter_lets_the_next_message_of_the_group_through() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    second = source.publish("g")

    async with WorkerPool(source, raising(Reject("no")), on_event=record):
        await record.until("acked")

    assert source.acked == [second]


@in_virtual_time
async def test_retry_parks_the_group_for_the_asked_delay_without_spinning() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async with WorkerPool(source, raising(Retry(60)), poll_interval=5.0, on_event=record):
        await record.until("nacked")
        parked_at = now()
        await record.until("acked")

    assert 60 <= now() - parked_at <= 66
    assert source.calls["claim"] <= 20


@in_virtual_time
async def test_retry_without_delay_takes_the_backoff() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async with WorkerPool(source, raising(Retry()), backoff=STEADY, on_event=record):
        nacked = await record.until("nacked")

    assert nacked.delay == 8.0


@in_virtual_time
async def test_retry_counts_as_an_attempt() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async with WorkerPool(source, raising(*[Retry(0)] * 9), max_attempts=3, on_event=record):
        await record.until("dead_lettered")

    assert record.kinds.count("nacked") == 2


@in_virtual_time
async def test_reject_goes_to_the_dead_letters_at_once() -> None:
    source, record = FakeSource(), Record()
    seq = source.publish("g")

    async with WorkerPool(source, raising(Reject("no such user")), on_event=record):
        await record.until("dead_lettered")

    assert source.dead == [(seq, "no such user")]


@in_virtual_time
async def test_answer_that_a_handler_returns_counts_as_raised() -> None:
    source, record = FakeSource(), Record()
    seq = source.publish("g")
    answers = [Retry(3), Reject("never")]

    async def handle(lease: Lease[Any]) -> Any:
        return answers.pop(0)

    async with WorkerPool(source, handle, on_event=record):
        with anyio.fail_after(60):
            assert (await record.until("nacked")).delay == 3
            await record.until("dead_lettered")

    assert source.dead == [(seq, "never")]


@in_virtual_time
async def test_message_whose_workers_died_is_not_delivered_again() -> None:
    source, record = FakeSource(), Record()
    seq = source.publish("g")
    source.groups["g"].attempts = 3

    async with WorkerPool(source, busy, max_attempts=3, on_event=record):
        await record.until("dead_lettered")

    assert source.dead == [(seq, "worker lost after 3 attempts")]


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), StopAsyncIteration()])
def test_odd_exception_of_a_handler_is_a_failure_of_its_message_only(error: BaseException) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        source.publish("g")
        async with WorkerPool(source, raising(error), on_event=record):
            await record.until("acked")
        assert record.kinds == ["claimed", "handler_failed", "nacked", "claimed", "acked"]

    scenario()


class MuteReject(Reject):
    def __init__(self) -> None:
        pass


class Abort(BaseException):
    pass


@pytest.mark.parametrize("error", [MuteReject, Abort])
def test_failure_that_cannot_be_answered_is_counted_and_ends(error: type[BaseException]) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        source.publish("g")

        async def handle(_: object) -> None:
            raise error

        with suppress(BaseExceptionGroup, Abort):
            async with WorkerPool(source, handle, max_attempts=3, on_event=record):
                await record.until("nacked")
        assert source.groups["g"].attempts == 1
        assert "released" not in record.kinds

    scenario()


@in_virtual_time
async def test_timeout_inside_a_handler_is_a_failure_of_its_message_only() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async def handle(lease: Lease[Any]) -> None:
        if lease.attempt == 1:
            async with asyncio.timeout(3):
                await anyio.sleep_forever()

    async with WorkerPool(source, handle, on_event=record):
        failed = await record.until("handler_failed")
        await record.until("acked")

    assert failed.reason == "TimeoutError"


@in_virtual_time
async def test_listener_that_raises_does_no_harm() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    def listen(event: Any) -> None:
        record(event)
        raise RuntimeError("listener")

    async with WorkerPool(source, handled, on_event=listen):
        await record.until("acked")

    assert source.is_drained


@in_virtual_time
async def test_answer_that_is_no_lease_does_not_end_the_pool() -> None:
    source, record = FakeSource(), Record()
    claim = source.claim
    answers: list[Any] = ["not a lease"]

    async def claim_badly(*args: Any, **kwargs: Any) -> Any:
        return answers.pop() if answers else await claim(*args, **kwargs)

    source.claim = claim_badly  # type: ignore[method-assign]
    source.publish("g")

    async with WorkerPool(source, handled, on_event=record):
        await record.until("acked")

    assert source.is_drained


@pytest.mark.parametrize("concurrency", [1, 7])
def test_one_and_many_handlers_end_with_the_same_result(concurrency: int) -> None:
    order: dict[str, list[int]] = {}

    async def handle(lease: Lease[Any]) -> None:
        await anyio.sleep(lease.event % 3)
        order.setdefault(lease.group_id, []).append(lease.event)

    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        for number in range(20):
            source.publish(f"g{number % 4}", number)
        async with WorkerPool(source, handle, concurrency=concurrency, on_event=record):
            await record.until("acked", times=20)

    scenario()

    assert order == {f"g{n}": list(range(n, 20, 4)) for n in range(4)}
