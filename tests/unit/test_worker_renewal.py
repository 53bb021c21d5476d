"""A lease lives as long as its handler; a handler does not outlive its lease."""

import asyncio
from itertools import pairwise
from typing import Any

import anyio
import pytest
from worker_fakes import (
    FakeSource,
    Fault,
    Record,
    block,
    busy,
    handled,
    in_virtual_time,
    now,
    ticks,
)

from fairlane.model import Lease
from fairlane.worker import WorkerPool

GONE = ConnectionError("server away")


class Watched:
    """A handler that never ends by itself, and tells when and how it was ended."""

    def __init__(self) -> None:
        self.started_at = 0.0
        self.starts = 0
        self.cancelled_at: float | None = None
        self.ended = anyio.Event()

    async def __call__(self, _: object) -> None:
        self.starts += 1
        self.started_at = now()
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            self.cancelled_at = now()
            self.ended.set()
            raise

    @property
    def lasted(self) -> float:
        assert self.cancelled_at is not None
        return self.cancelled_at - self.started_at


@in_virtual_time
async def test_long_handler_runs_once() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async def handle(_: object) -> None:
        await anyio.sleep(1_000)

    async with (
        WorkerPool(source, handle, visibility=30, on_event=record),
        WorkerPool(source, handle, visibility=30, on_event=record),
    ):
        await record.until("acked")

    assert record.kinds == ["claimed", "acked"]


@in_virtual_time
async def test_cancellation_of_what_the_source_waits_for_does_not_end_the_renewals() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    source.faults["extend"].append(Fault(before=asyncio.CancelledError()))

    async def handle(_: object) -> None:
        await anyio.sleep(100)

    async with WorkerPool(source, handle, visibility=30, on_event=record):
        await record.until("acked")

    assert record.kinds == ["claimed", "acked"]


@in_virtual_time
async def test_lease_is_renewed_every_third_of_its_visibility() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async def handle(_: object) -> None:
        await anyio.sleep(99)

    async with WorkerPool(source, handle, visibility=30, on_event=record):
        await record.until("acked")

    assert source.calls["extend"] == 9


@in_virtual_time
async def test_short_handler_renews_nothing() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async with WorkerPool(source, handled, visibility=30, on_event=record):
        await record.until("acked")

    assert source.calls["extend"] == 0


@in_virtual_time
async def test_renewed_lease_is_the_one_that_is_settled() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    settled: list[Lease[Any]] = []
    ack = source.ack

    async def ack_seen(lease: Lease[Any]) -> bool:
        settled.append(lease)
        return await ack(lease)

    source.ack = ack_seen  # type: ignore[method-assign]

    async def handle(_: object) -> None:
        await anyio.sleep(12)

    async with WorkerPool(source, handle, visibility=30, on_event=record):
        started_at = now()
        await record.until("acked")

    assert settled[0].expires_at == started_at + 40


@in_virtual_time
async def test_handler_is_cancelled_at_the_renewal_that_finds_the_lease_lost() -> None:
    source, record, handler = FakeSource(), Record(), Watched()
    source.publish("g")

    async with WorkerPool(source, handler, visibility=30, on_event=record):
        await record.until("claimed")
        source.take_away("g")
        await record.until("lease_lost")

    assert handler.lasted == 10


@in_virtual_time
async def test_nothing_is_settled_with_a_lost_lease() -> None:
    source, record, handler = FakeSource(), Record(), Watched()
    source.publish("g")

    async with WorkerPool(source, handler, visibility=30, on_event=record):
        await record.until("claimed")
        source.take_away("g")
        await record.until("lease_lost")

    assert record.kinds == ["claimed", "lease_lost"]
    assert not set(source.calls) & {"ack", "nack", "release", "dead_letter"}


@in_virtual_time
async def test_handler_is_cancelled_before_a_lease_ends_that_cannot_be_renewed() -> None:
    source, record, handler = FakeSource(), Record(), Watched()
    source.publish("g")
    source.always["extend"] = Fault(before=GONE)

    async with WorkerPool(source, handler, visibility=30, on_event=record):
        await handler.ended.wait()
        expires_at = source.groups["g"].available_at
        await record.until("lease_lost")

    assert handler.cancelled_at == expires_at - 5


@in_virtual_time
async def test_handler_is_cancelled_in_time_while_a_renewal_hangs() -> None:
    source, record, handler = FakeSource(), Record(), Watched()
    source.publish("g")
    source.always["extend"] = Fault(hangs=True)

    async with WorkerPool(source, handler, visibility=30, on_event=record):
        await record.until("lease_lost")

    assert handler.lasted == 25


@in_virtual_time
async def test_renewal_that_no_cancellation_can_cut_short_does_not_delay_the_cancellation() -> None:
    source, record, handler = FakeSource(), Record(), Watched()
    source.publish("g")

    async def extend(*_: object) -> Lease[Any]:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(500)
        raise GONE

    source.extend = extend  # type: ignore[method-assign]

    async with WorkerPool(source, handler, visibility=30, on_event=record):
        await record.until("lease_lost")

    assert handler.lasted == 25


@in_virtual_time
async def test_ack_does_not_wait_for_a_renewal_that_hangs() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async def extend(*_: object) -> Lease[Any]:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(500)
        raise GONE

    source.extend = extend  # type: ignore[method-assign]

    async def handle(_: object) -> None:
        await anyio.sleep(12)

    async with WorkerPool(source, handle, visibility=30, on_event=record):
        started_at = now()
        await record.until("acked")
        acked_at = now()

    assert acked_at - started_at == 12


@in_virtual_time
async def test_other_worker_starts_after_the_first_handler_has_ended() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    source.always["extend"] = Fault(before=GONE)
    spans: list[tuple[float, float]] = []

    async def handle(_: object) -> None:
        started_at = now()
        try:
            await anyio.sleep(60)
        finally:
            spans.append((started_at, now()))

    async with (
        WorkerPool(source, handle, visibility=30, on_event=record, drain_timeout=0),
        WorkerPool(source, handle, visibility=30, on_event=record, drain_timeout=0),
    ):
        await record.until("lease_lost", times=4)

    assert all(end <= start for (_, end), (start, _) in pairwise(spans))


@in_virtual_time
async def test_renewal_that_fails_is_tried_again() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    source.faults["extend"].extend([Fault(before=GONE), Fault(hangs=True), Fault(after=GONE)])

    async def handle(_: object) -> None:
        await anyio.sleep(100)

    async with WorkerPool(source, handle, visibility=30, on_event=record):
        await record.until("acked")

    assert record.kinds == ["claimed", "acked"]


@in_virtual_time
async def test_handler_that_swallows_its_cancellation_has_its_result_discarded() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async def handle(_: object) -> None:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            return

    async with WorkerPool(source, handle, visibility=30, on_event=record):
        await record.until("claimed")
        source.take_away("g")
        await record.until("lease_lost")

    assert source.calls["ack"] == 0


@in_virtual_time
async def test_lease_handed_out_late_is_renewed_at_once() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    claim = source.claim

    async def claim_slowly(*args: Any, **kwargs: Any) -> Any:
        await anyio.sleep(300)
        return await claim(*args, **kwargs)

    source.claim = claim_slowly  # type: ignore[method-assign]

    async with WorkerPool(source, busy, visibility=30, on_event=record, drain_timeout=0):
        await record.until("claimed")
        await ticks(10)
        renewals = source.calls["extend"]

    assert renewals == 1


@in_virtual_time
async def test_lost_lease_frees_its_slot() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")

    async def handle(lease: Lease[Any]) -> None:
        if lease.group_id == "g":
            await anyio.sleep_forever()

    async with WorkerPool(source, handle, concurrency=1, visibility=30, on_event=record):
        await record.until("claimed")
        source.take_away("g")
        source.groups["g"].available_at = float("inf")
        source.publish("h")
        acked = await record.until("acked")

    assert acked.group_id == "h"


def lines_on_a_blocked_loop(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [entry.message for entry in caplog.records if "loop was blocked" in entry.message]


@pytest.mark.parametrize("fault", [Fault(before=GONE), Fault(hangs=True)])
def test_health_is_degraded_while_a_renewal_fails(fault: Fault) -> None:
    """With all slots taken no claim tells of the outage."""

    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        source.publish("g")
        states = []
        async with WorkerPool(
            source, busy, concurrency=1, visibility=30, drain_timeout=0, on_event=record
        ) as pool:
            await record.until("claimed")
            source.always["extend"] = fault
            await anyio.sleep(20)
            states.append(pool.health.state)
            del source.always["extend"]
            await anyio.sleep(6)
            states.append(pool.health.state)
        assert states == ["degraded", "ok"]

    scenario()


@in_virtual_time
async def test_lease_lost_in_an_outage_does_not_keep_the_health_degraded() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    source.always["extend"] = Fault(before=GONE)

    async with WorkerPool(source, busy, visibility=30, drain_timeout=0, on_event=record) as pool:
        await record.until("claimed")
        source.groups["g"].available_at = float("inf")  # nobody claims it again
        await record.until("lease_lost")
        state = pool.health.state

    assert state == "ok"


@pytest.mark.parametrize(("before", "after"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_handler_that_blocks_the_loop_is_logged_with_what_to_do(
    before: float, after: float, caplog: pytest.LogCaptureFixture
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        source.publish("g")

        async def handle(_: object) -> None:
            if before:
                await anyio.sleep(before)
            block(19 - before)
            if after:
                await anyio.sleep(after)

        async with WorkerPool(source, handle, visibility=30, on_event=record):
            await record.until("acked")

    scenario()

    (line,) = lines_on_a_blocked_loop(caplog)
    assert "blocked for 9.0 s" in line
    assert "plain function" in line


def test_blocked_loop_is_logged_once_for_all_leases(caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        for number in range(9):
            source.publish(f"g{number}")

        async def handle(lease: Lease[Any]) -> None:
            await anyio.sleep(1)
            if lease.group_id == "g0":
                block(15)
            await anyio.sleep(30)

        async with WorkerPool(source, handle, visibility=30, on_event=record):
            await record.until("acked", times=9)

    scenario()

    assert len(lines_on_a_blocked_loop(caplog)) == 1


def test_lease_handed_out_late_is_no_blocked_loop(caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        source.publish("g")
        source.faults["claim"].append(Fault(delay=100))

        async def handle(_: object) -> None:
            await anyio.sleep(15)

        async with WorkerPool(source, handle, visibility=30, on_event=record):
            await record.until("acked")

    scenario()

    assert lines_on_a_blocked_loop(caplog) == []
