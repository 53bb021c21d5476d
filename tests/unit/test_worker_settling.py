"""A settlement is asked for until there is an answer, and the answer is taken for what it says."""

import asyncio
import logging
from typing import Any

import anyio
import pytest
from pymongo.errors import OperationFailure
from worker_fakes import FakeSource, Fault, Record, handled, in_virtual_time, now, raising

from fairlane.errors import LeaseLost
from fairlane.model import Lease
from fairlane.retry import Reject, Retry
from fairlane.worker import WorkerPool

GONE = ConnectionError("server away")

TOLD = {"ack": "acked", "nack": "nacked", "dead_letter": "dead_lettered"}


@pytest.mark.parametrize(
    "fault",
    [
        Fault(before=GONE),
        Fault(after=GONE),
        Fault(before=asyncio.CancelledError()),
        Fault(hangs=True),
    ],
)
@pytest.mark.parametrize("verb", ["ack", "nack", "dead_letter"])
def test_settlement_without_an_answer_is_repeated(verb: str, fault: Fault) -> None:
    handlers = {
        "ack": handled,
        "nack": raising(Retry(5)),
        "dead_letter": raising(Reject("no")),
    }

    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        source.publish("g")
        source.faults[verb].extend([fault, fault])
        async with WorkerPool(source, handlers[verb], on_event=record):
            await record.until(TOLD[verb])
        assert "lease_lost" not in record.kinds
        assert source.calls[verb] >= 2

    scenario()


@in_virtual_time
async def test_settlement_survives_an_outage_shorter_than_the_lease() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    source.always["ack"] = Fault(before=GONE)

    async with WorkerPool(source, handled, visibility=30, on_event=record):
        await record.until("claimed")
        await anyio.sleep(20)
        del source.always["ack"]
        await record.until("acked")

    assert record.kinds == ["claimed", "acked"]


@pytest.mark.parametrize("visibility", [6.0, 30.0])
def test_second_try_comes_soon_after_an_unanswered_shielded_one(visibility: float) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        source.publish("g")
        source.faults["ack"].append(Fault(hangs=True, is_shielded=True))
        async with WorkerPool(source, handled, visibility=visibility, on_event=record):
            claimed_at = (await record.until("claimed")) and now()
            await record.until("acked")
        assert now() - claimed_at <= 5.1
        assert record.kinds == ["claimed", "acked"]

    scenario()


@in_virtual_time
async def test_settlement_is_given_up_with_the_lease() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    source.always["ack"] = Fault(before=GONE)

    async with WorkerPool(source, handled, visibility=30, on_event=record):
        started_at = now()
        await record.until("unsettled")
        given_up_at = now()
        del source.always["ack"]
        await record.until("acked")

    assert 30 <= given_up_at - started_at <= 32


@in_virtual_time
async def test_refused_settlement_is_a_lost_lease_and_is_not_repeated() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async def handle(_: object) -> None:
        source.take_away("g")

    async with WorkerPool(source, handle, on_event=record):
        await record.until("lease_lost")

    assert record.kinds == ["claimed", "lease_lost"]
    assert source.calls["ack"] == 1


@in_virtual_time
async def test_settlement_refused_after_the_lease_ran_out_is_a_lost_lease() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    source.always["ack"] = Fault(before=GONE)

    async with WorkerPool(source, handled, visibility=30, on_event=record):
        await source.until_called("ack", times=2)
        source.take_away("g")
        source.groups["g"].available_at = float("inf")
        await anyio.sleep(29)
        source.always["ack"] = Fault(delay=2)
        await record.until("lease_lost")

    assert record.kinds == ["claimed", "lease_lost"]


@in_virtual_time
async def test_source_may_raise_lease_lost_instead_of_refusing() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    source.always["ack"] = Fault(before=LeaseLost("g", 1, 1))

    async with WorkerPool(source, handled, on_event=record):
        await record.until("lease_lost")

    assert source.calls["ack"] == 1


@in_virtual_time
async def test_fault_of_a_settlement_leaves_the_other_messages_alone() -> None:
    source, record = FakeSource(), Record()
    first = source.publish("g")
    source.faults["ack"].append(Fault(before=TypeError("a bug")))
    second = source.publish("h")

    async with WorkerPool(source, handled, on_event=record):
        await record.until("acked", times=2)

    assert sorted(source.acked) == [first, second]


@pytest.mark.parametrize(
    ("error", "reason"), [(Reject("no such order"), "no such order"), (ValueError("bad"), "bad")]
)
def test_move_to_the_dead_letters_is_logged(
    error: Exception, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        source.publish("g")
        async with WorkerPool(source, raising(error), max_attempts=1, on_event=record):
            await record.until("dead_lettered")

    scenario()

    entry = caplog.records[-1]
    assert entry.levelno == logging.WARNING
    assert "moved to the dead letters: group 'g', seq 1" in entry.message
    assert entry.message.endswith(reason)


@pytest.mark.parametrize("lasts", [0.0, 20.0])
def test_handler_that_settles_is_told_that_the_pool_does(
    lasts: float, caplog: pytest.LogCaptureFixture
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        source.publish("g")

        async def handle(lease: Lease[Any]) -> None:
            await source.ack(lease)
            await anyio.sleep(lasts)

        async with WorkerPool(source, handle, on_event=record):
            await record.until("lease_lost")

    scenario()

    assert "the handler settled it itself, which the pool does" in caplog.records[-1].message


@pytest.mark.parametrize("fault", [Fault(before=GONE), Fault(hangs=True)])
def test_health_is_degraded_while_a_settlement_fails(fault: Fault) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        source.publish("g")
        source.faults["ack"].append(fault)
        states = []
        async with WorkerPool(source, handled, on_event=record) as pool:
            await source.until_called("ack", times=2)
            states.append(pool.health.state)
            await record.until("acked")
            states.append(pool.health.state)
        assert states == ["degraded", "ok"]

    scenario()


@in_virtual_time
async def test_settlement_that_was_given_up_does_not_keep_the_health_degraded() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    source.always["ack"] = Fault(before=GONE)

    async with WorkerPool(source, handled, on_event=record) as pool:
        await source.until_called("ack", times=1)
        source.groups["g"].available_at = float("inf")  # nobody claims it again
        await record.until("unsettled")
        state = pool.health.state

    assert state == "ok"


@pytest.mark.parametrize(("error", "tracebacks"), [(GONE, 0), (OperationFailure("odd", 1), 1)])
def test_settlements_that_fail_together_are_logged_with_one_traceback(
    error: Exception, tracebacks: int, caplog: pytest.LogCaptureFixture
) -> None:
    """That of a server which is away tells nothing."""

    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        for number in range(9):
            source.publish(f"g{number}")
        source.faults["ack"].extend([Fault(before=error, delay=1)] * 18)
        async with WorkerPool(source, handled, on_event=record):
            await record.until("acked", times=9)

    scenario()

    failures = [entry for entry in caplog.records if entry.message.startswith("cannot ack")]
    assert len(failures) == 9
    assert [bool(entry.exc_info) for entry in failures].count(True) == tracebacks
