"""What is claimed, when, by how many, and what errors do."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from pymongo.errors import AutoReconnect, OperationFailure
from pymongo.errors import ConfigurationError as DriverConfigurationError
from worker_fakes import (
    AnnouncingSource,
    FakeSource,
    Fault,
    Record,
    busy,
    handled,
    in_virtual_time,
    now,
    ticks,
)

from fairlane.errors import ConfigurationError, describe
from fairlane.model import Lease
from fairlane.worker import WorkerPool, _health


class Gate:
    """A handler that waits to be let through, and counts who waits."""

    def __init__(self) -> None:
        self.waiting = 0
        self.most = 0
        self.groups: list[str] = []
        self._open = anyio.Event()

    async def __call__(self, lease: Lease[Any]) -> None:
        self.groups.append(lease.group_id)
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        await self._open.wait()
        self.waiting -= 1

    def open(self) -> None:
        self._open.set()


@in_virtual_time
async def test_nothing_is_claimed_without_a_free_slot() -> None:
    source, record, gate = FakeSource(), Record(), Gate()
    for number in range(10):
        source.publish(f"g{number}")

    async with WorkerPool(source, gate, concurrency=3, claimers=2, on_event=record):
        await record.until("claimed", times=3)
        await anyio.sleep(100)
        leased = len(source.leased)
        gate.open()
        await record.until("acked", times=10)

    assert (leased, gate.most) == (3, 3)


@in_virtual_time
async def test_handlers_work_on_distinct_groups() -> None:
    source, record, gate = FakeSource(), Record(), Gate()
    for number in range(30):
        source.publish(f"g{number % 3}")

    async with WorkerPool(source, gate, concurrency=10, claimers=10, on_event=record):
        await record.until("claimed", times=3)
        await anyio.sleep(100)
        at_work = sorted(gate.groups)
        gate.open()
        await record.until("acked", times=30)

    assert at_work == ["g0", "g1", "g2"]


@in_virtual_time
async def test_claims_under_way_are_as_many_as_claimers() -> None:
    source, record = FakeSource(), Record()
    for number in range(50):
        source.publish(f"g{number}")

    async with WorkerPool(source, handled, concurrency=50, claimers=4, on_event=record):
        await record.until("acked", times=50)

    assert source.most_concurrent_claims == 4


@in_virtual_time
async def test_idle_pool_asks_once_an_interval_however_many_claimers_it_has() -> None:
    source = FakeSource()

    async with WorkerPool(source, handled, concurrency=64, claimers=64, poll_interval=10):
        await anyio.sleep(1)
        source.claimed_at.clear()
        await anyio.sleep(1_000)

    assert 80 <= len(source.claimed_at) <= 101


@in_virtual_time
async def test_idle_pool_finds_work_within_its_interval() -> None:
    source, record = FakeSource(), Record()

    async with WorkerPool(source, handled, poll_interval=10, on_event=record):
        await anyio.sleep(500)
        source.publish("g")
        published_at = now()
        await record.until("acked")

    assert now() - published_at <= 12


@in_virtual_time
async def test_local_publish_wakes_an_idle_pool_at_once() -> None:
    source, record = AnnouncingSource(), Record()

    async with WorkerPool(source, handled, poll_interval=1_000, on_event=record):
        await anyio.sleep(10)
        published_at = now()
        source.publish("g")
        await record.until("acked")
        took = now() - published_at

    assert took == 0


@in_virtual_time
async def test_publishes_wake_as_many_claimers_as_there_is_work() -> None:
    source, record, gate = AnnouncingSource(), Record(), Gate()

    async with WorkerPool(
        source, gate, concurrency=20, claimers=20, poll_interval=1_000, on_event=record
    ):
        await anyio.sleep(10)
        published_at = now()
        for number in range(20):
            source.publish(f"g{number}")
        await record.until("claimed", times=20)
        took = now() - published_at
        gate.open()

    assert took == 0


@in_virtual_time
async def test_poll_that_finds_work_wakes_the_other_claimers() -> None:
    source, record, gate = FakeSource(), Record(), Gate()

    async with WorkerPool(source, gate, concurrency=20, claimers=20, on_event=record):
        await anyio.sleep(10)
        source.most_concurrent_claims = 0
        for number in range(20):
            source.publish(f"g{number}")
        await record.until("claimed", times=20)
        gate.open()

    assert source.most_concurrent_claims >= 4


@in_virtual_time
async def test_one_message_costs_an_idle_pool_three_claims() -> None:
    """The one that finds it, and one empty-handed after it and after its handler."""
    source, record = AnnouncingSource(), Record()

    async def handle(_: object) -> None:
        await anyio.sleep(1)

    async with WorkerPool(source, handle, poll_interval=1_000, on_event=record):
        await anyio.sleep(10)
        source.claimed_at.clear()
        source.publish("g")
        await anyio.sleep(10)
        claims = len(source.claimed_at)

    assert claims == 3


@in_virtual_time
async def test_many_publishes_during_one_claim_cause_one_more_claim() -> None:
    source = AnnouncingSource()
    source.always["claim"] = Fault(delay=1)

    async with WorkerPool(source, handled, min_priority=1, poll_interval=1_000):
        await source.until_called("claim", times=1)
        for _ in range(50):
            source.publish("g")
        await anyio.sleep(100)
        claims = source.calls["claim"]

    assert claims == 2


@in_virtual_time
async def test_pool_that_has_ended_listens_to_no_publishes() -> None:
    source = AnnouncingSource()

    async with WorkerPool(source, handled):
        await ticks(5)

    assert source.subscribers == []


@in_virtual_time
async def test_handler_that_ends_lets_the_next_message_of_its_group_start_at_once() -> None:
    source, record = FakeSource(), Record()
    for _ in range(20):
        source.publish("g")

    async def handle(_: object) -> None:
        await anyio.sleep(1)

    async with WorkerPool(source, handle, poll_interval=1_000, claimers=3, on_event=record):
        started_at = now()
        await record.until("acked", times=20)
        took = now() - started_at

    assert took == 20


@in_virtual_time
async def test_publish_during_an_empty_claim_is_not_slept_over() -> None:
    source, record = AnnouncingSource(), Record()
    claim = source.claim

    async def claim_and_be_late(*args: Any, **kwargs: Any) -> Any:
        lease = await claim(*args, **kwargs)
        if source.calls["claim"] == 1:
            source.publish("g")
            await ticks(5)
        return lease

    source.claim = claim_and_be_late  # type: ignore[method-assign]

    async with WorkerPool(source, handled, poll_interval=1_000, on_event=record):
        started_at = now()
        await record.until("acked")
        took = now() - started_at

    assert took == 0


@in_virtual_time
async def test_pool_that_prefers_high_priority_serves_it_first_and_falls_back_to_low() -> None:
    source, record = FakeSource(), Record()
    for number, priority in enumerate([0, 1, 4, 2, 4, 0]):
        source.publish(f"g{number}", priority=priority)

    async with WorkerPool(source, handled, concurrency=1, order="priority", on_event=record):
        await record.until("acked", times=6)

    assert [event.group_id for event in record.events if event.kind == "acked"] == [
        "g2",
        "g4",
        "g3",
        "g1",
        "g0",
        "g5",
    ]


@in_virtual_time
async def test_pool_with_a_floor_leaves_lower_priorities_alone() -> None:
    source, record = FakeSource(), Record()
    source.publish("low", priority=1)
    source.publish("high", priority=2)

    async with WorkerPool(source, handled, min_priority=2, on_event=record):
        await record.until("acked")
        await anyio.sleep(100)

    assert list(source.groups) == ["low"]


@pytest.mark.parametrize(
    "error", [AutoReconnect("away"), OperationFailure("busy", 112), TypeError("a bug"), OSError()]
)
def test_error_of_a_claim_does_not_end_the_pool(error: Exception) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        source.publish("g")
        source.faults["claim"].extend([Fault(before=error)] * 5)
        async with WorkerPool(source, handled, on_event=record):
            await record.until("acked")

    scenario()


@in_virtual_time
async def test_outage_is_logged_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    source.faults["claim"].extend([Fault(before=AutoReconnect("away"))] * 100)

    with caplog.at_level(logging.INFO, logger="fairlane"):
        async with WorkerPool(source, handled, claimers=8, on_event=record):
            await record.until("acked")

    assert [entry.levelname for entry in caplog.records] == ["WARNING", "INFO"]


@pytest.mark.parametrize(
    ("error", "has_traceback"), [(AutoReconnect("away"), False), (KeyError("a fault"), True)]
)
def test_only_an_outage_that_is_not_the_networks_is_logged_with_its_traceback(
    caplog: pytest.LogCaptureFixture, error: Exception, has_traceback: bool
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        source.publish("g")
        source.faults["claim"].append(Fault(before=error))
        async with WorkerPool(source, handled, on_event=record):
            await record.until("acked")

    with caplog.at_level(logging.WARNING, logger="fairlane"):
        scenario()

    (entry,) = caplog.records
    assert bool(entry.exc_info) is has_traceback
    assert entry.getMessage().endswith(describe(error))


@in_virtual_time
async def test_pool_resumes_within_seconds_of_a_long_outage() -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    source.always["claim"] = Fault(before=AutoReconnect("away"))

    async with WorkerPool(source, handled, on_event=record):
        await anyio.sleep(3_600)
        asked = len(source.claimed_at)
        del source.always["claim"]
        back_at = now()
        await record.until("acked")

    assert now() - back_at < 5
    assert asked < 3_600


@in_virtual_time
async def test_health_tells_of_an_outage_and_of_its_end() -> None:
    source, record = FakeSource(), Record()
    pool = WorkerPool(source, handled, poll_interval=1, on_event=record)
    states = [pool.health.state]

    async with pool:
        source.always["claim"] = Fault(before=AutoReconnect("away"))
        await anyio.sleep(20)
        states.append(pool.health.state)
        del source.always["claim"]
        await anyio.sleep(20)
        states.append(pool.health.state)
        source.always["claim"] = Fault(before=AutoReconnect("away"))
        await anyio.sleep(20)
        states.append(pool.health.state)
        pool.stop()
        await ticks(2)
        states.append(pool.health.state)
    states.append(pool.health.state)

    assert states == ["stopped", "starting", "ok", "degraded", "draining", "stopped"]


@pytest.mark.parametrize(
    "error",
    [
        ConfigurationError("partitions differ"),
        OperationFailure("authentication failed", 18),
        OperationFailure("not allowed", 13),
        DriverConfigurationError("bad option"),
        RuntimeError("Cannot use AsyncMongoClient in different event loop."),
    ],
)
def test_hopeless_error_at_the_start_ends_the_pool_at_once(error: Exception) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source = FakeSource()
        source.always["claim"] = Fault(before=error)
        with pytest.raises(type(error)) as raised:
            await WorkerPool(source, handled, claimers=3).run()
        assert raised.value is error

    scenario()


@in_virtual_time
async def test_hopeless_error_reaches_an_application_that_embeds_the_pool() -> None:
    source = FakeSource()
    source.always["claim"] = Fault(before=ConfigurationError("partitions differ"))

    with pytest.raises(ConfigurationError, match="partitions differ"):
        async with WorkerPool(source, handled):
            await anyio.sleep_forever()


@in_virtual_time
async def test_refused_login_of_a_pool_that_has_worked_is_an_outage() -> None:
    source, record = FakeSource(), Record()

    async with WorkerPool(source, handled, on_event=record):
        await ticks(10)
        source.faults["claim"].append(Fault(before=OperationFailure("rotating", 18)))
        await anyio.sleep(10)
        source.publish("g")
        await record.until("acked")

    assert source.is_drained


class RepairingSource(FakeSource):
    def __init__(self, *errors: BaseException) -> None:
        super().__init__()
        self.repaired_at: list[float] = []
        self._errors = list(errors)

    async def repair(self) -> None:
        self.repaired_at.append(now())
        if self._errors:
            raise self._errors.pop()


@in_virtual_time
async def test_pool_repairs_every_ten_seconds_or_so() -> None:
    source = RepairingSource()

    async with WorkerPool(source, handled):
        await anyio.sleep(1_000)

    assert 95 <= len(source.repaired_at) <= 200


class MendingSource(RepairingSource):
    def __init__(self, *errors: BaseException) -> None:
        super().__init__(*errors)
        self.mended_at: list[float] = []

    @property
    def mend(self) -> Callable[[], Coroutine[Any, Any, None]]:
        return self._mend

    async def _mend(self) -> None:
        self.mended_at.append(now())


@in_virtual_time
async def test_pool_repairs_all_at_first_and_each_minute_and_the_urgent_part_in_between() -> None:
    source = MendingSource()

    async with WorkerPool(source, handled):
        await anyio.sleep(1_000)

    assert 10 <= len(source.repaired_at) <= 23
    assert source.repaired_at[0] < source.mended_at[0]
    assert 95 <= len(source.repaired_at + source.mended_at) <= 200


@in_virtual_time
async def test_repair_that_fails_is_tried_again_before_the_next_urgent_part() -> None:
    source = MendingSource(AutoReconnect("away"), AutoReconnect("away"))

    async with WorkerPool(source, handled):
        await anyio.sleep(30)

    assert len(source.repaired_at) == 3
    assert source.repaired_at[-1] < source.mended_at[0]


class ReconcilingSource(RepairingSource):
    def __init__(self, *errors: BaseException) -> None:
        super().__init__()
        self.reconciled_at: list[float] = []
        self._refusals = list(errors)

    async def reconcile(self) -> int:
        self.reconciled_at.append(now())
        if self._refusals:
            raise self._refusals.pop()
        return 0


@in_virtual_time
async def test_pool_reconciles_every_minute_or_so_beside_its_repairs() -> None:
    source = ReconcilingSource()

    async with WorkerPool(source, handled):
        await anyio.sleep(1_000)

    assert 16 <= len(source.reconciled_at) <= 33
    assert 95 <= len(source.repaired_at) <= 200


@in_virtual_time
async def test_reconciliations_of_pools_that_start_together_are_spread() -> None:
    sources = [ReconcilingSource() for _ in range(20)]

    async with AsyncExitStack() as pools:
        for source in sources:
            await pools.enter_async_context(WorkerPool(source, handled))
        await anyio.sleep(61)

    first = [source.reconciled_at[0] for source in sources]
    assert 0 < max(first) - min(first) <= 30
    assert len({round(at) for at in first}) > 5


@in_virtual_time
async def test_error_of_a_reconciliation_ends_neither_them_nor_the_repairs() -> None:
    source = ReconcilingSource(*[AutoReconnect("away")] * 4)

    async with WorkerPool(source, handled) as pool:
        await anyio.sleep(300)
        state = pool.health.state

    assert (len(source.reconciled_at) > 6, state) == (True, "ok")
    assert len(source.repaired_at) > 25


@in_virtual_time
async def test_error_of_a_repair_does_not_end_the_repairs() -> None:
    source = RepairingSource(*[AutoReconnect("away")] * 4)

    async with WorkerPool(source, handled) as pool:
        await anyio.sleep(100)
        state = pool.health.state

    assert (len(source.repaired_at) > 8, state) == (True, "ok")


@in_virtual_time
async def test_cancellation_of_what_the_source_waits_for_does_not_end_the_repairs() -> None:
    source = RepairingSource(asyncio.CancelledError())

    async with WorkerPool(source, handled):
        await anyio.sleep(100)

    assert len(source.repaired_at) > 8


@in_virtual_time
async def test_cancellation_of_what_the_source_waits_for_does_not_end_the_claims() -> None:
    source, record = FakeSource(), Record()
    source.faults["claim"].extend([Fault(before=asyncio.CancelledError())] * 3)
    source.publish("g")

    async with WorkerPool(source, handled, on_event=record):
        await record.until("acked")

    assert source.is_drained


@in_virtual_time
async def test_health_is_degraded_while_a_claim_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_health, "monotonic", now)
    source = FakeSource()
    source.faults["claim"].extend([Fault(), Fault(delay=60)])
    states = []

    async with WorkerPool(source, handled, poll_interval=1) as pool:
        await source.until_called("claim", times=2)
        for seconds in (7, 2, 60):
            await anyio.sleep(seconds)
            states.append(pool.health.state)

    assert states == ["ok", "degraded", "ok"]


@in_virtual_time
async def test_health_stays_ok_while_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_health, "monotonic", now)
    source, record = FakeSource(), Record()
    source.publish("g")

    async with WorkerPool(source, busy, concurrency=1, on_event=record, drain_timeout=0) as pool:
        await record.until("claimed")
        await anyio.sleep(100)
        state = pool.health.state

    assert state == "ok"


@in_virtual_time
async def test_health_counts_handlers_and_leases() -> None:
    source, record = FakeSource(), Record()
    for number in range(3):
        source.publish(f"g{number}")
    source.always["release"] = Fault(hangs=True)

    async with WorkerPool(source, busy, on_event=record, drain_timeout=1) as pool:
        await record.until("claimed", times=3)
        await ticks(3)
        at_work = pool.health
        pool.stop()
        await anyio.sleep(2)
        settling = pool.health

    assert (at_work.running, at_work.leased) == (3, 3)
    assert (settling.running, settling.leased) == (0, 3)


@in_virtual_time
async def test_health_tells_when_the_source_last_answered() -> None:
    source = FakeSource()

    async with WorkerPool(source, handled) as pool:
        before = pool.health
        await ticks(10)
        after = pool.health

    assert (before.last_poll_at, before.last_poll_age) == (None, None)
    assert after.last_poll_at is not None
    assert after.last_poll_at.utcoffset() is not None
    assert after.last_poll_age is not None
    assert after.last_poll_age >= 0


@in_virtual_time
async def test_health_is_degraded_from_a_failure_until_a_claim_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A lease that could not be renewed is lost: that ends the trouble with it, not the outage."""
    monkeypatch.setattr(_health, "monotonic", now)
    source, record = FakeSource(), Record()
    source.publish("g")
    source.faults["claim"].extend([Fault(), Fault(delay=60)])
    source.always["extend"] = Fault(hangs=True)
    options: dict[str, Any] = {"visibility": 3, "concurrency": 2, "on_event": record}

    async with WorkerPool(source, busy, poll_interval=10, **options) as pool:
        await record.until("lease_lost")
        await anyio.sleep(1)
        waiting = pool.health
        await source.until_called("claim", times=3)
        answered = pool.health.state

    assert (waiting.state, answered) == ("degraded", "ok")
    assert waiting.last_poll_age is not None
    assert 3 < waiting.last_poll_age < 5


def test_claim_that_waits_is_told_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    """A driver looks for its server for half a minute before it says that there is none."""
    caplog.set_level(logging.INFO, logger="fairlane")

    @in_virtual_time
    async def scenario() -> None:
        source = FakeSource()
        source.faults["claim"].extend([Fault(delay=30, before=AutoReconnect("away"))] * 4)
        async with WorkerPool(source, handled, claimers=2):
            await source.until_called("claim", times=5)
            await anyio.sleep(1)

    scenario()
    assert [record.getMessage() for record in caplog.records] == [
        "claiming has had no answer for 8 s, still waiting",
        "claiming failed, trying on with back-off: AutoReconnect: away",
        caplog.messages[-1],
    ]
    assert "claiming works again after 60." in caplog.messages[-1]
