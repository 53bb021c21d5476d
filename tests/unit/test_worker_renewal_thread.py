"""Leases are renewed in a thread of their own where a source has a connection to spare for it."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from worker_fakes import FakeSource, Record

from fairlane.model import Lease
from fairlane.worker import WorkerPool

VISIBILITY = 0.6
BLOCKED = 1.0
"""Seconds, of real time: longer than a lease lasts."""


class Spare:
    """The leases of a source, seen from another thread: they last as long as they are renewed."""

    def __init__(self) -> None:
        self.threads: set[int] = set()
        self.opened_in: list[int] = []
        self.closed_in: list[int] = []
        self.error: Exception | None = None
        self.is_lost = False
        self.opening_takes = 0.0
        self.renewals = 0

    def open(self) -> "Spare":
        self.opened_in.append(threading.get_ident())
        return self

    async def __aenter__(self) -> "Spare":
        await anyio.sleep(self.opening_takes)
        return self

    async def extend_many(
        self, leases: Sequence[Lease[Any]], visibility: float = 30.0
    ) -> list[Lease[Any] | None]:
        self.threads.add(threading.get_ident())
        self.renewals += 1
        if self.error is not None:
            raise self.error
        return [None if self.is_lost else lease for lease in leases]

    async def close(self) -> None:
        self.closed_in.append(threading.get_ident())


class SpareSource(FakeSource):
    """Keeps a lease whose end is not moved: what renews it is the spare connection."""

    def __init__(self) -> None:
        super().__init__()
        self.spare = Spare()

    @property
    def separate(self) -> Callable[[], Spare] | None:
        return self.spare.open


@pytest.fixture
def source() -> SpareSource:
    source = SpareSource()
    source.publish("g")
    return source


def pool(source: FakeSource, handler: Any, record: Record, **options: Any) -> WorkerPool[Any]:
    return WorkerPool(source, handler, visibility=VISIBILITY, on_event=record, **options)


async def blocking(_: object) -> None:
    time.sleep(BLOCKED)  # noqa: ASYNC251 - what handlers must not do


async def test_handler_that_blocks_the_loop_keeps_its_lease(source: SpareSource) -> None:
    record = Record()
    async with pool(source, blocking, record):
        await record.until("acked")
    assert record.kinds == ["claimed", "acked"]


async def test_leases_that_wait_behind_a_handler_that_blocks_are_kept(source: SpareSource) -> None:
    source.publish("h")
    record = Record()
    async with pool(source, blocking, record):
        await record.until("acked", times=2)
    assert source.is_drained


async def test_renewals_leave_the_thread_of_the_handlers_alone(source: SpareSource) -> None:
    record = Record()
    async with pool(source, blocking, record):
        await record.until("acked")
    spare = source.spare
    assert spare.renewals >= 2
    assert threading.get_ident() not in spare.threads | {*spare.opened_in, *spare.closed_in}


async def test_thread_ends_with_the_pool_and_closes_what_it_opened(source: SpareSource) -> None:
    before = set(threading.enumerate())
    record = Record()
    async with pool(source, blocking, record):
        await record.until("acked")
        (thread,) = set(threading.enumerate()) - before
    thread.join(5)
    assert len(source.spare.closed_in) == len(source.spare.opened_in) == 1
    assert not thread.is_alive()


async def test_short_handlers_renew_nothing(source: SpareSource) -> None:
    record = Record()

    async def handle(_: object) -> None:
        """Succeed at once."""

    async with pool(source, handle, record):
        await record.until("acked")
    assert source.spare.renewals == 0


async def test_handler_of_a_lease_that_is_lost_is_cancelled_and_can_tell_why(
    source: SpareSource,
) -> None:
    source.spare.is_lost = True
    record, reasons = Record(), []

    async def handle(lease: Lease[Any]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            reasons.append(lease.lost.is_set())

    async with pool(source, handle, record):
        await record.until("lease_lost")
    assert reasons == [True]


async def test_handler_that_is_cancelled_by_a_shutdown_can_tell_that_its_lease_is_not_lost(
    source: SpareSource,
) -> None:
    record, reasons = Record(), []

    async def handle(lease: Lease[Any]) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            reasons.append(lease.lost.is_set())

    async with pool(source, handle, record, drain_timeout=0):
        await record.until("claimed")
    assert reasons == [False]


async def test_handler_is_cancelled_in_time_when_no_renewal_succeeds(source: SpareSource) -> None:
    source.spare.error = ConnectionError("server away")
    record = Record()
    async with pool(source, lambda lease: lease.lost.wait(), record):
        started_at = anyio.current_time()
        await record.until("lease_lost")
        lasted = anyio.current_time() - started_at
    assert lasted < VISIBILITY


async def test_handler_whose_lease_ran_out_while_it_waited_for_the_loop_never_starts(
    source: SpareSource,
) -> None:
    source.spare.error = ConnectionError("server away")
    source.publish("h")
    record, started = Record(), []

    async def handle(lease: Lease[Any]) -> None:
        started.append(lease.group_id)
        source.groups["h"].available_at = float("inf")  # nobody claims it again
        time.sleep(BLOCKED)  # noqa: ASYNC251 - what handlers must not do

    class Both(SpareSource):
        async def claim_many(self, worker_id: str, n: int, *args: Any, **_: Any) -> list[Any]:
            found = [await self.claim(worker_id, *args) for _ in range(n)]
            return [lease for lease in found if lease is not None]

    both = Both()
    both.spare, both.groups = source.spare, source.groups
    async with pool(both, handle, record):
        await record.until("lease_lost")
    assert started == ["g"]


async def test_blocked_loop_is_named_with_what_blocks_it(
    source: SpareSource, caplog: pytest.LogCaptureFixture
) -> None:
    record = Record()
    async with pool(source, blocking, record):
        await record.until("acked")
    (line, *_) = [entry.message for entry in caplog.records if "blocked" in entry.message]
    assert "the handler of group 'g', seq 1" in line
    assert f"{__file__}:" in line
    assert "in blocking" in line


async def test_renewals_go_on_after_a_fault_in_their_thread(
    source: SpareSource, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlane.worker._renewal_thread.RESTART_SECONDS", 0.0)
    opens = source.spare.open
    failures = [OSError("no file descriptor left")]

    def open_at_second_try() -> Spare:
        if failures:
            raise failures.pop()
        return opens()

    source.spare.open = open_at_second_try  # type: ignore[method-assign]
    record = Record()
    async with pool(source, blocking, record):
        await record.until("acked")
    assert record.kinds == ["claimed", "acked"]


@pytest.mark.parametrize("ticks", [*range(30), 40, 60, 80])
async def test_cancellation_at_any_tick_ends_the_thread(source: SpareSource, ticks: int) -> None:
    before = set(threading.enumerate())

    async def handle(_: object) -> None:
        await anyio.sleep_forever()

    task = asyncio.ensure_future(pool(source, handle, Record()).run())
    for _ in range(ticks):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    for thread in set(threading.enumerate()) - before:
        await asyncio.to_thread(thread.join, 5)
    assert not source.leased
    assert len(source.spare.closed_in) == len(source.spare.opened_in)


async def test_opening_may_take_longer_than_a_renewal(source: SpareSource) -> None:
    source.spare.opening_takes = VISIBILITY / 3  # a renewal is given a quarter
    record = Record()
    async with pool(source, blocking, record):
        await record.until("acked")
    assert record.kinds == ["claimed", "acked"]


async def test_renewals_go_on_in_the_loop_when_their_thread_dies(
    source: SpareSource, caplog: pytest.LogCaptureFixture
) -> None:
    def die() -> Spare:
        raise SystemExit

    source.spare.open = die  # type: ignore[method-assign]
    record = Record()

    async def handle(_: object) -> None:
        await anyio.sleep(BLOCKED)

    async with pool(source, handle, record):
        await record.until("acked")
    assert source.calls["extend"] >= 2
    assert "the thread of the renewals has died" in caplog.text


async def test_loop_that_stands_still_for_ever_loses_its_leases(
    source: SpareSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlane.worker._blocking.WEDGED", 1)
    record, renewals = Record(), list[int]()

    async def handle(_: object) -> None:
        time.sleep(4 * VISIBILITY)  # noqa: ASYNC251 - a deadlock
        renewals.append(source.spare.renewals)
        await anyio.lowlevel.checkpoint()

    async with pool(source, handle, record):
        await record.until("lease_lost")
    assert renewals[0] <= 6  # of eleven


async def test_refused_lease_that_cannot_be_judged_is_not_renewed_for_ever(
    source: SpareSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault of the pool")

    monkeypatch.setattr("fairlane.worker._messages.before_delivery", fail)
    record = Record()
    async with pool(source, blocking, record, poll_interval=60):
        await record.until("nacked")
        await anyio.sleep(VISIBILITY)
    assert source.spare.renewals == 0


def test_leases_of_a_pool_whose_loop_was_closed_are_renewed_no_more(source: SpareSource) -> None:
    async def abandoned() -> asyncio.Task[None]:
        record = Record()
        running = asyncio.ensure_future(pool(source, handle, record).run())
        await record.until("claimed")
        return running

    async def handle(_: object) -> None:
        await anyio.sleep_forever()

    loop = asyncio.new_event_loop()
    running = loop.run_until_complete(abandoned())
    loop.close()
    before = source.spare.renewals
    time.sleep(2 * VISIBILITY)
    assert source.spare.renewals <= before + 1
    running._log_destroy_pending = False  # type: ignore[attr-defined]
