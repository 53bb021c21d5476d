"""Faults of comparable systems, in pools on the real transport, in virtual time (7, 11, 38, 45)."""

import asyncio
import logging
from collections import Counter
from typing import Any

import anyio
import pytest

from fairlane import AsyncMongoTransport, Backoff, Lease, Reject, Retry, WorkerPool
from fairlane.worker import _run
from property.pools import Pools, in_virtual_time, now, stepwise
from property.wire import Call, Step
from unit.failing import ERRORS, Failing

Transport = AsyncMongoTransport[Any]

LONGEST_PAUSE = 3.0
"""Seconds between two tries of a background loop, whatever fails."""


class Handler:
    """Takes its time and then does what it is told; counts its starts and its ends."""

    def __init__(self, seconds: float, error: Exception | None = None) -> None:
        self._seconds = seconds
        self._error = error
        self.starts = 0
        self.ends = 0

    async def __call__(self, lease: Lease[Any]) -> None:
        self.starts += 1
        await anyio.sleep(self._seconds)
        self.ends += 1
        if self._error is not None and lease.attempt == 1:
            raise self._error


async def unanswered_updates(step: Step, call: Call) -> Any:
    """Let no lease be renewed: nobody hears of the command."""
    if str(step) == "locks.update_one":
        await anyio.sleep_forever()
    return await stepwise(step, call)


@in_virtual_time
async def test_handler_that_outlives_its_lease_is_told_once_and_the_next_worker_acks() -> None:
    """Fault 7."""
    pools = Pools()
    transport = await pools.transport()
    await transport.publish("g", 1)
    late, next_one = Handler(0.5), Handler(0.0)
    options: dict[str, Any] = {"visibility": 0.2, "concurrency": 1}  # for more it bids by updates
    pool = await pools.pool(late, unanswered_updates, drain_timeout=60, **options)
    async with pool:
        await pools.until("claimed")
        pool.stop()
        async with await pools.pool(next_one, visibility=0.2, poll_interval=0.05):
            await pools.until("acked")

    assert pools.record.kinds == ["claimed", "lease_lost", "claimed", "acked"]
    assert (late.starts, late.ends, next_one.starts) == (1, 0, 1)
    assert (await transport.stats()).groups == 0


def test_healthy_long_handler_runs_once_among_three_workers_that_repair_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fault 11."""
    monkeypatch.setattr(_run, "REPAIR_SECONDS", 0.2)

    @in_virtual_time
    async def scenario() -> None:
        pools, handler = Pools(), Handler(10.0)
        await (await pools.transport()).publish("g", 1)
        options: dict[str, Any] = {"visibility": 1.0, "poll_interval": 0.1}
        async with (
            await pools.pool(handler, **options),
            await pools.pool(handler, **options),
            await pools.pool(handler, **options),
        ):
            await pools.until("acked")
        assert handler.starts == 1
        assert pools.record.kinds == ["claimed", "acked"]

    scenario()


IDLE = 600.0
"""Seconds, and intervals between polls."""
NEVER_LOST = 1_000.0
"""Visibility in seconds, above what all the tries take together."""
WORK: dict[str, Handler] = {
    "claim": Handler(0.0),
    "claim_many": Handler(0.0),
    "repair": Handler(0.0),
    "extend": Handler(NEVER_LOST * 0.9),
    "ack": Handler(0.0),
    "nack": Handler(0.0, Retry(0)),
    "dead_letter": Handler(0.0, Reject("no")),
}
"""Every background loop of a pool by the verb that it calls, and what makes it call that."""


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("verb", WORK)
def test_background_loop_survives_errors_of_the_server(
    verb: str, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Fault 38: it logs, backs off up to a cap, goes on; the health is degraded meanwhile."""
    caplog.set_level(logging.WARNING, logger="fairlane")

    @in_virtual_time
    async def scenario() -> None:
        pools = Pools()
        transport = await pools.transport()
        options: dict[str, Any] = {"visibility": NEVER_LOST, "backoff": Backoff(base=0.0)}
        options["concurrency"] = 1 if verb == "claim" else 10
        async with WorkerPool(transport, WORK[verb], on_event=pools.record, **options) as pool:
            await anyio.sleep(1.0)
            failing = Failing(transport, verb, ERRORS[error])
            await transport.publish("g", 1)
            states = await _states_during(failing, pool)
            await pools.until("dead_lettered" if verb == "dead_letter" else "acked")
            states.append(pool.health.state)
        assert (set(states[:-1]), states[-1]) == ({"degraded"}, "ok")
        assert 0.0 < sum(failing.pauses[:3]) < sum(failing.pauses[-3:])
        assert max(failing.pauses) <= LONGEST_PAUSE
        assert pools.stray == []

    scenario()
    assert len(caplog.records) == 1 + (verb == "dead_letter")


async def _states_during(failing: Failing, pool: WorkerPool[Any]) -> list[str]:
    """Return the states of the pool from the first failure on, until all is well again."""
    states: list[str] = []
    while not failing.is_over:
        await anyio.sleep(0.01)
        if failing.called_at:
            states.append(pool.health.state)
    return states[:-1]


@in_virtual_time
async def test_idle_pool_asks_once_an_interval_and_tends_its_database_for_little_more() -> None:
    """Nobody watches here: with a change stream it is a tenth of the polls."""
    pools, calls = Pools(), Counter[str]()

    async def counted(step: Step, call: Call) -> Any:
        calls[str(step)] += 1
        return await call()

    async with await pools.pool(Handler(0.0), counted, poll_interval=1.0):
        await anyio.sleep(30.0)
        calls.clear()
        await anyio.sleep(IDLE)

    assert calls["messages.find"] <= IDLE / 5  # looks for what publishers have left behind
    assert calls.total() - calls["locks.find"] <= IDLE / 4
    assert calls.total() <= 1.25 * IDLE


@in_virtual_time
async def test_handler_whose_lease_is_lost_is_cancelled_within_a_renewal() -> None:
    """Fault 45: and its result is discarded."""
    pools = Pools()
    transport = await pools.transport()
    await transport.publish("g", 1)
    cancelled_at: list[float] = []

    async def handle(_: object) -> None:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            cancelled_at.append(now())

    async with await pools.pool(handle, visibility=30.0, concurrency=1):
        await pools.until("claimed")
        await anyio.sleep(4.0)
        (lock,) = await pools.locks()
        await _taken_over(transport, lock)
        lost_at = now()
        await pools.until("lease_lost")

    assert 0.0 < cancelled_at[0] - lost_at < 10.0
    assert pools.record.kinds == ["claimed", "lease_lost"]
    assert (await pools.locks())[0]["token"] == "other:1"


async def _taken_over(transport: Transport, lock: dict[str, Any]) -> None:
    taken = {"$set": {"token": "other:1", "available_at": now() + 3_600.0}}
    assert await transport._store.locks.update_one({"_id": lock["_id"]}, taken)
