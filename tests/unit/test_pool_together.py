"""One pool that serves a transport and a job queue together."""

import logging
from typing import Any

import anyio
import pytest
from job_fakes import FakeQueue
from worker_fakes import FakeSource, Fault, ManySource, Record, handled, in_virtual_time, now

from fairlane import Backoff, ConfigurationError, JobContext, Jobs, WorkerPool
from fairlane.worker._together import Together

EXACT = Backoff(base=10.0, jitter=0.0)


class Scene:
    def __init__(self, *, lease: float | None = None) -> None:
        self.source = ManySource()
        self.queue = FakeQueue()
        self.jobs = Jobs()
        self.record = Record()
        self.served: list[str] = []
        self.jobs.event("work", lease=lease, max_concurrency=2)(self.work)

    async def work(self, ctx: JobContext, params: Any) -> None:
        self.served.append("job")
        if isinstance(params, Exception):
            raise params
        if params is not None:
            await anyio.sleep(params)

    async def handle(self, lease: Any) -> None:
        self.served.append("message")
        if isinstance(lease.event, Exception):
            raise lease.event

    def pool(self, **options: Any) -> WorkerPool[Any]:
        parts = ((self.source, self.handle), (self.queue, self.jobs))
        settings: dict[str, Any] = {"on_event": self.record, "backoff": EXACT, **options}
        return WorkerPool.together(*parts, **settings)


@in_virtual_time
async def test_pool_serves_both_and_settles_each_where_it_came_from() -> None:
    scene = Scene()
    for number in range(5):
        scene.source.publish(f"g{number}")
        scene.queue.side.add("work")
    async with scene.pool(concurrency=4):
        await scene.record.until("acked", times=10)
    assert scene.source.is_drained
    assert all(each.job.state == "done" for each in scene.queue.side.stored.values())


@pytest.mark.parametrize("concurrency", [1, 4])
def test_neither_starves_the_other(concurrency: int) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()
        for number in range(40):
            scene.source.publish(f"g{number}")
            scene.queue.side.add("work")
        async with scene.pool(concurrency=concurrency):
            await scene.record.until("acked", times=40)
        early = scene.served[:32]
        assert 8 <= early.count("job") <= 24

    scenario()


@in_virtual_time
async def test_failures_go_the_way_of_their_own_part() -> None:
    scene = Scene()
    scene.source.publish("g", ValueError("bad message"))
    scene.queue.side.add("work", ValueError("bad job"))
    async with scene.pool():
        await scene.record.until("nacked", times=2)
    assert scene.source.errors == ["ValueError: bad message"]
    assert scene.queue.side.job("work-0").last_error == "ValueError: bad job"


@in_virtual_time
async def test_job_keeps_its_lease_beside_messages() -> None:
    scene = Scene(lease=3)
    scene.queue.side.add("work", 20)
    async with scene.pool():
        await scene.record.until("acked")
    assert scene.queue.side.calls["extend"] >= 15


@in_virtual_time
async def test_part_that_is_away_does_not_stop_the_other_one() -> None:
    scene = Scene()
    scene.source.always["claim"] = scene.source.always["claim_many"] = Fault(
        before=ConnectionError("server away")
    )
    for _ in range(6):
        scene.queue.side.add("work")
    async with scene.pool() as pool:
        await scene.record.until("acked", times=6)
        state = pool.health.state
        scene.source.always.clear()
        scene.source.publish("g")
        await scene.record.until("acked", times=7)
    assert state in ("ok", "degraded")
    assert scene.served.count("message") == 1


@in_virtual_time
async def test_what_one_part_has_leased_does_not_wait_for_another_one() -> None:
    """Its lease would run out, and a second worker have it, before the pool knows of it."""
    scene = Scene()
    scene.queue.side.add("work")
    scene.source.always["claim"] = scene.source.always["claim_many"] = Fault(hangs=True)
    together = scene.pool()._open_source()
    assert isinstance(together, Together)
    together._shares.asks(1)  # this was the turn of the transport
    with anyio.move_on_after(1):
        assert len(await together.claim(8, 0)) == 1
        return
    pytest.fail("the claim waited")


@in_virtual_time
async def test_maintenance_of_all_parts_is_done_though_one_fails() -> None:
    scene, done = Scene(), list[float]()

    class Failing(FakeSource):
        async def reconcile(self) -> None:
            raise ConnectionError("server away")

    scene.source = Failing()  # type: ignore[assignment]
    async with scene.pool():
        while not scene.queue.side.calls["reconcile"]:  # noqa: ASYNC110
            await anyio.sleep(1)
        done.append(now())
    assert done


def test_log_says_of_each_what_became_of_it(caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()
        scene.source.publish("g", ValueError("bad"))
        scene.queue.side.add("work", ValueError("bad"), max_attempts=1)
        async with scene.pool(max_attempts=1):
            await scene.record.until("dead_lettered", times=2)

    with caplog.at_level(logging.WARNING, logger="fairlane.worker._settling"):
        scenario()
    lines = sorted(each.message for each in caplog.records if each.levelname == "WARNING")
    assert [line.split(":")[0] for line in lines] == ["failed", "moved to the dead letters"]


@pytest.mark.parametrize("parts", [(), (FakeSource(),), ((FakeSource(), handled), 3)])
def test_what_are_no_pairs_is_refused(parts: Any) -> None:
    with pytest.raises(ConfigurationError, match="pairs of source and handler"):
        WorkerPool.together(*parts)
