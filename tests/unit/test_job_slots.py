"""When a pool starts jobs, and what its end does to them; in virtual time."""

from typing import Any

import anyio
import pytest
from job_fakes import FakeSide, Scene, endings
from worker_fakes import in_virtual_time, now

from fairlane import Job, JobContext, Jobs, WorkerPool
from fairlane.jobs.working import Demand


@in_virtual_time
async def test_next_job_starts_when_one_ends_without_waiting_for_the_poll() -> None:
    """A12.6: two at once, and the third when the first has ended."""
    scene, started = Scene(), list[float]()

    @scene.jobs.event("work")
    async def work(ctx: JobContext, params: Any) -> None:
        started.append(now())
        await anyio.sleep(params)

    for seconds in (5, 7, 1):
        scene.side.add(payload=seconds, priority=seconds)
    async with scene.pool(concurrency=2, poll_interval=1_000):
        began_at = now()
        await scene.record.until("acked", times=3)
    assert sorted(started) == [began_at, began_at, began_at + 5]


@in_virtual_time
async def test_job_whose_type_was_at_its_cap_starts_when_one_ends() -> None:
    """Fault 34: five wait for one place, with a poll of 30 s; one of another type is not due."""
    scene, started = Scene(), list[float]()

    @scene.jobs.event("capped", max_concurrency=1)
    async def capped(ctx: JobContext, params: Any) -> None:
        started.append(now())
        await anyio.sleep(10)

    scene.jobs.event("later")(lambda ctx, params: None)
    for _ in range(6):
        scene.side.add("capped")
    scene.side.add("later", due_at=now() + 30)
    async with scene.pool(concurrency=8, poll_interval=30):
        began_at = now()
        await scene.record.until("acked", times=7)
    delays = [at - began_at - 10 * number for number, at in enumerate(started)]
    assert max(delays) < 0.2


class SlowToClaim(FakeSide):
    """Leases at once, and answers a second later than that."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.claiming = anyio.Event()

    async def claim(self, demand: Demand, n: int) -> list[Job]:
        self.claiming.set()
        jobs = await super().claim(demand, n)
        await anyio.sleep(self.seconds)
        return jobs


@in_virtual_time
async def test_claim_under_way_at_a_stop_is_waited_for_and_its_job_given_back() -> None:
    """A12.8, ours: it is not started any more; another pool can do it at once, uncounted."""
    scene, ran = Scene(), list[str]()
    scene.queue.side = scene.side = side = SlowToClaim(0.5)

    @scene.jobs.event("work")
    async def work(ctx: JobContext, params: Any) -> None:
        ran.append(ctx.job.id)

    key = side.add()
    async with scene.pool():
        await side.claiming.wait()
    assert ran == []
    assert endings(scene.record) == ["released"]
    assert (side.job(key).attempts, side.job(key).token) == (0, None)
    assert side.calls["claim"] == 1


@in_virtual_time
async def test_stop_does_not_wait_for_a_handler_whose_lease_is_lost() -> None:
    """A12.7: and its slot had been free since."""
    scene = Scene()

    @scene.jobs.event("work", lease=3)
    async def work(ctx: JobContext, params: Any) -> None:
        if params:
            await anyio.sleep_forever()

    first = scene.side.add(payload=True, priority=1)
    scene.side.add(payload=False)
    async with scene.pool(concurrency=1, drain_timeout=1_000):
        await scene.record.until("claimed")
        scene.side.take_away(first)
        await scene.record.until("acked")
        stopped_at = now()
    assert now() - stopped_at < 1
    assert endings(scene.record) == ["lease_lost", "acked"]


@in_virtual_time
async def test_only_attempt_of_a_job_fails_it_at_once() -> None:
    """A12.59, ours: without on_error too; there it is dead when its lease has run out."""
    scene, runs = Scene(), list[int]()

    @scene.jobs.event("work")
    async def work(ctx: JobContext, params: Any) -> None:
        runs.append(ctx.attempt)
        raise ValueError("bad")

    key = scene.side.add(max_attempts=1)
    async with scene.pool():
        began_at = now()
        await scene.record.until("dead_lettered")
        assert now() - began_at < 1
        await anyio.sleep(100)
    assert runs == [1]
    assert scene.side.job(key).state == "failed"


@in_virtual_time
async def test_jobs_start_together_as_far_as_there_are_slots() -> None:
    """A12.71: twenty jobs, ten at a time."""
    scene, started = Scene(), list[float]()

    @scene.jobs.event("work")
    async def work(ctx: JobContext, params: Any) -> None:
        started.append(now())
        await anyio.sleep(0.2)

    for _ in range(20):
        scene.side.add()
    async with scene.pool(concurrency=10):
        await scene.record.until("acked", times=20)
    assert max(started) - min(started) < 0.5


@in_virtual_time
async def test_shutdowns_use_up_no_attempt_of_a_job() -> None:
    """Fault 36: five deploys during one job of two attempts."""
    scene = Scene()

    @scene.jobs.event("work")
    async def work(ctx: JobContext, params: Any) -> None:
        if len(endings(scene.record)) < 5:
            await anyio.sleep_forever()

    key = scene.side.add(max_attempts=2)
    for number in range(1, 6):
        async with scene.pool(drain_timeout=0):
            await scene.record.until("claimed", times=number)
            await anyio.sleep(1)
        stored = scene.side.job(key)
        assert (stored.attempts, stored.interrupted) == (0, number)
    async with scene.pool():
        await scene.record.until("acked")
    assert endings(scene.record) == ["released"] * 5 + ["acked"]
    assert {event.attempt for event in scene.record.events if event.kind == "claimed"} == {1}


@in_virtual_time
async def test_low_priority_starts_when_nothing_above_it_is_due() -> None:
    """Fault 33: never before, there is no ageing."""
    scene, order = Scene(), list[int]()

    @scene.jobs.event("work")
    async def work(ctx: JobContext, params: Any) -> None:
        order.append(ctx.job.priority)
        if len(order) < 9:
            scene.side.add(priority=5)
        await anyio.sleep(1)

    scene.side.add(priority=0)
    scene.side.add(priority=5)
    async with scene.pool(concurrency=1):
        await scene.record.until("acked", times=10)
    assert order == [5] * 9 + [0]


async def test_pool_takes_a_queue_and_a_registry() -> None:
    """A12.1."""
    scene = Scene()
    scene.jobs.event("work")(lambda ctx, params: None)
    pool = WorkerPool(scene.queue, scene.jobs, concurrency=32)
    assert pool.health.running == pool.health.leased == 0


@pytest.mark.parametrize("kind", ["class", "instance"])
async def test_methods_may_be_handlers(kind: str) -> None:
    """A12.89 and A12.90: where there they are marked by decorators of a class."""

    class Mailer:
        def __init__(self) -> None:
            self.sent: list[Any] = []

        async def send(self, ctx: JobContext, params: Any) -> None:
            self.sent.append(params)

        async def clean_up(self, ctx: JobContext) -> None:
            self.sent.clear()

        @classmethod
        async def count(cls, ctx: JobContext, params: Any) -> None:
            """Count nothing."""

    jobs, mailer = Jobs(), Mailer()
    send = jobs.event("send")(mailer.send if kind == "instance" else Mailer.count)
    jobs.recurring("clean_up", every=60)(mailer.clean_up)
    await send(None, 5)
    assert [(each.name, each.is_recurring) for each in jobs] == [
        ("send", False),
        ("clean_up", True),
    ]
    assert mailer.sent == ([5] if kind == "instance" else [])
