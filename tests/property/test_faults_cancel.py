"""Cancellation at any step of the event loop, on the real transport in memory (41, 42)."""

import ast
import asyncio
import random
import threading
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest

import fairlane
from fairlane import Lease, WorkerPool
from fairlane.product import Product
from fairlane.testing import ManualClock
from fairlane.worker._held import Held
from property.pools import Pools, in_virtual_time, now, stepwise, ticks
from property.wire import Call, Step

SOURCE = Path(fairlane.__file__).parent
TICKS = 200
AT_ONCE = 25
DEADLINE = 5.0
GROUPS = 3
CANCELLATIONS = 1_000
LONGEST_CLAIM = 24
"""Steps of the event loop."""


async def at_once(_: Lease[Any]) -> None:
    await ticks(3)


async def busy(_: Lease[Any]) -> None:
    await anyio.sleep_forever()


class Watch:
    """Makes the driver calls of a pool, and tells when the first of a kind is made."""

    def __init__(self, step: str) -> None:
        self._step = step
        self.met = anyio.Event()

    async def __call__(self, step: Step, call: Call) -> Any:
        if str(step) == self._step:
            self.met.set()
        return await stepwise(step, call)


Cut = Callable[[WorkerPool[Any], "asyncio.Task[None]"], object]
Begin = Callable[[Pools], Awaitable[tuple[WorkerPool[Any], asyncio.Task[None]]]]


async def started(
    pools: Pools, handler: Any = at_once, watch: Watch | None = None, *, messages: int = 0
) -> tuple[WorkerPool[Any], asyncio.Task[None]]:
    transport = await pools.transport()
    await transport.publish_many([(f"g{n % GROUPS}", n) for n in range(messages)])
    options = {"visibility": 30.0, "poll_interval": 1e-9, "concurrency": GROUPS, "claimers": 2}
    pool = await pools.pool(handler, watch or stepwise, **options)
    return pool, asyncio.create_task(pool.run())


async def at_start(pools: Pools) -> tuple[WorkerPool[Any], asyncio.Task[None]]:
    return await started(pools, messages=GROUPS * 4)


async def idle(pools: Pools) -> tuple[WorkerPool[Any], asyncio.Task[None]]:
    """It polls without a rest: otherwise nothing would happen at the ticks."""
    watch = Watch("locks.find_one_and_update")
    found = await started(pools, watch=watch)
    await watch.met.wait()
    return found


async def claiming(pools: Pools) -> tuple[WorkerPool[Any], asyncio.Task[None]]:
    watch = Watch("locks.find_one_and_update")
    found = await started(pools, busy, watch, messages=GROUPS)
    await watch.met.wait()
    return found


async def handling(pools: Pools) -> tuple[WorkerPool[Any], asyncio.Task[None]]:
    found = await started(pools, messages=GROUPS * 12)
    await pools.until("claimed")
    return found


async def renewing(pools: Pools) -> tuple[WorkerPool[Any], asyncio.Task[None]]:
    watch = Watch("locks.update_one")
    found = await started(pools, busy, watch, messages=GROUPS)
    await pools.until("claimed", times=GROUPS)
    await watch.met.wait()
    return found


PHASES: dict[str, Begin] = {
    "start": at_start,
    "idle": idle,
    "claim": claiming,
    "handler": handling,
    "renew": renewing,
}


def cut_at(tick: int, begin: Begin) -> None:
    """Cancel a pool at one step of the event loop, and look at what it leaves."""

    @in_virtual_time
    async def scenario() -> None:
        pools = Pools()
        pool, task = await begin(pools)
        await ticks(tick)
        task.cancel()
        cancelled_at = now()
        await asyncio.wait([task])
        assert task.cancelled()
        assert now() - cancelled_at <= DEADLINE
        assert asyncio.all_tasks() == {asyncio.current_task()}
        left = {(lock["token"], lock["attempts"]) for lock in await pools.locks()}
        assert left <= {(None, 0)}
        assert (pool.health.state, pools.stray) == ("stopped", [])

    scenario()


@pytest.mark.parametrize("first", range(0, TICKS, AT_ONCE))
@pytest.mark.parametrize("phase", PHASES)
def test_pool_that_is_cancelled_at_any_tick_ends_and_charges_nothing(
    phase: str, first: int
) -> None:
    """Fault 41."""
    for tick in range(first, first + AT_ONCE):
        cut_at(tick, PHASES[phase])


class Spare:
    """Renews leases in the thread in which it is opened, without a connection of its own."""

    threads: ClassVar[set[int]] = set()

    async def __aenter__(self) -> "Spare":
        await ticks(1)
        return self

    async def extend_many(
        self, leases: Sequence[Lease[Any]], visibility: float = 30.0
    ) -> list[Lease[Any]]:
        self.threads.add(threading.get_ident())
        await ticks(1)
        return list(leases)

    async def close(self) -> None:
        await ticks(1)


CUTS: dict[str, Cut] = {
    "cancel": lambda _, task: task.cancel(),
    "stop": lambda pool, _: pool.stop(),
}


async def cut_beside_a_thread(tick: int, cut: Cut) -> None:
    """Cut a pool that works, is idle or renews, in real time: the thread has a loop of its own."""
    pools = Pools()
    transport = await pools.transport()
    await transport.publish_many([(f"g{n % GROUPS}", n) for n in range(GROUPS * 2)])
    options = {"poll_interval": 1e-9, "concurrency": GROUPS, "claimers": 2, "drain_timeout": 0}
    pool = await pools.pool(busy if tick % 2 else at_once, stepwise, **options)
    task = asyncio.create_task(pool.run())
    await ticks(tick)
    cut(pool, task)
    await asyncio.wait([task], timeout=DEADLINE)
    assert task.done()
    assert task.cancelled() or task.exception() is None
    assert asyncio.all_tasks() == {asyncio.current_task()}
    left = {(lock["token"], lock["attempts"]) for lock in await pools.locks()}
    assert left <= {(None, 0)}
    assert (pool.health.state, pools.stray) == ("stopped", [])


@pytest.mark.parametrize("cut", CUTS)
def test_pool_with_a_thread_of_renewals_may_be_cut_at_any_tick(
    cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 41."""
    soon = property(lambda held: held.safe_until - held.visibility)
    monkeypatch.setattr(Product, "separate", property(lambda _: Spare))
    monkeypatch.setattr(Held, "renew_at", soon)
    before = set(threading.enumerate())
    Spare.threads.clear()
    for tick in range(TICKS + 1):
        with asyncio.Runner() as runner:
            runner.run(cut_beside_a_thread(tick, CUTS[cut]))
        for thread in set(threading.enumerate()) - before:  # it has told its pool of its end
            thread.join(DEADLINE)
            assert not thread.is_alive(), f"cut at tick {tick}"
    assert Spare.threads, "no cut came after a renewal"
    assert threading.get_ident() not in Spare.threads


def test_no_driver_call_is_waited_for_by_what_python_before_3_12_breaks() -> None:
    """Fault 41: `asyncio.wait_for` may swallow a cancellation there."""
    users = [
        path.name
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Attribute) and node.attr == "wait_for")
        or (isinstance(node, ast.alias) and node.name == "wait_for")
    ]
    assert users == []


async def test_message_of_a_cancelled_claim_is_claimable_at_once_and_charged_nothing() -> None:
    """Fault 42: whether the server had applied the claim or not, and whether it was answered."""
    pools, clock, chance = Pools(), ManualClock(1_000_000.0), random.Random(42)
    transport, other = [await pools.transport(clock=clock) for _ in range(2)]
    cancelled = number = 0
    while cancelled < CANCELLATIONS:
        number += 1
        await other.publish("g", number)
        claim = asyncio.ensure_future(transport.claim("w"))
        await ticks(chance.randrange(LONGEST_CLAIM))
        claim.cancel()
        await asyncio.wait([claim])
        cancelled += claim.cancelled()
        lease = await other.claim("other") if claim.cancelled() else claim.result()
        assert lease is not None
        assert (lease.event, lease.attempt) == (number, 1)
        assert await other.ack(lease)
    assert number > cancelled, "none was too late"
