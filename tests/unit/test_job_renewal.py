"""The lease of a job while its handler works: A12.93 to A12.102, in virtual time."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from job_fakes import FakeSide, Scene, endings
from worker_fakes import in_virtual_time, now

from fairlane import Job, JobContext, JobLost

LEASE = 30.0
GONE = ConnectionError("server away")


class Slow(FakeSide):
    """Answers to extensions late, and notes for how long each was, and how many were at once."""

    def __init__(self, *, latency: float = 0.0, errors: tuple[Exception, ...] = ()) -> None:
        super().__init__()
        self.latency = latency
        self.errors = list(errors)
        self.asked: list[float] = []
        self.at_once = 0
        self.most_at_once = 0

    async def extend(self, job: Job, lease: float) -> Job:
        self.asked.append(lease)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self.errors:
                await self._call("extend")
                raise self.errors.pop(0)
            extended = await super().extend(job, lease)
            await anyio.sleep(self.latency)
            return extended
        finally:
            self.at_once -= 1


def scene_with(side: FakeSide, work: Callable[..., Any], **options: Any) -> Scene:
    """Return a scene with one job for this handler."""
    scene = Scene()
    scene.queue.side = scene.side = side
    scene.jobs.event("work", **{"lease": LEASE, **options})(work)
    side.add("work")
    return scene


async def at_once(ctx: JobContext, *leases: float) -> None:
    """Ask for extensions without waiting for any."""
    async with anyio.create_task_group() as group:
        for lease in leases:
            group.start_soon(ctx.extend, lease)


@in_virtual_time
async def test_extensions_of_one_lease_are_written_one_at_a_time() -> None:
    """A12.93 and A12.101: and its end is that of the last one, with no other timer left."""
    side, ended = Slow(latency=1.0), list[float]()

    async def work(ctx: JobContext, params: Any) -> None:
        await at_once(ctx, 100, 150)
        side.take_away(ctx.job.id)
        side.errors = [GONE] * 1_000  # no renewal tells of it
        started = now() - 2
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(now() - started)

    scene = scene_with(side, work)
    async with scene.pool():
        await scene.record.until("lease_lost")
    assert side.most_at_once == 1
    assert ended == [151 - 5]  # asked for after a second; a sixth of the lease is for its end
    assert endings(scene.record) == ["lease_lost"]


@in_virtual_time
async def test_shorter_extension_does_not_end_a_longer_one() -> None:
    """A12.94: whichever comes first; nor does the renewal in the background."""
    side, until = Slow(latency=1.0), list[float]()

    async def work(ctx: JobContext, params: Any) -> None:
        began_at = now()
        await ctx.extend(300)
        await at_once(ctx, 20, 10)
        await anyio.sleep(250)
        until.append(side.stored[ctx.job.id].due_at - began_at)

    scene = scene_with(side, work)
    async with scene.pool():
        await scene.record.until("acked")
    assert until == [300.0]


@in_virtual_time
async def test_hundred_extensions_at_once_are_two_writes_and_the_second_is_the_longest() -> None:
    """A12.95."""
    side = Slow(latency=1.0)

    async def work(ctx: JobContext, params: Any) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(ctx.extend, 50)
            await anyio.sleep(0.5)
            await at_once(ctx, *range(250, 300), *range(200, 250))

    scene = scene_with(side, work)
    async with scene.pool():
        await scene.record.until("acked")
    assert side.asked == [50, 299]


@in_virtual_time
async def test_extension_that_is_asked_for_while_another_ends_is_written() -> None:
    """A12.96: none is lost, whenever it comes."""
    for delay in (0.5, 1.0, 1.5):
        side = Slow(latency=1.0)

        async def work(ctx: JobContext, params: Any, delay: float = delay) -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(ctx.extend, 50)
                await anyio.sleep(delay)
                await ctx.extend(70)

        scene = scene_with(side, work)
        async with scene.pool():
            await scene.record.until("acked")
        assert side.asked == [50, 70], delay


@in_virtual_time
async def test_extension_whose_write_is_cancelled_is_written_for_those_that_wait() -> None:
    side = Slow(latency=1.0)

    async def work(ctx: JobContext, params: Any) -> None:
        async def hasty() -> None:
            with anyio.move_on_after(0.5):
                await ctx.extend(50)

        async with anyio.create_task_group() as group:
            group.start_soon(hasty)
            group.start_soon(ctx.extend, 60)

    scene = scene_with(side, work)
    async with scene.pool():
        await scene.record.until("acked")
    assert side.asked == [60, 60]


@in_virtual_time
async def test_handler_that_ends_during_a_renewal_leaves_none_behind() -> None:
    """A12.97: it is settled at once, and nothing is extended afterwards."""
    side = Slow(latency=100.0)

    async def work(ctx: JobContext, params: Any) -> None:
        await anyio.sleep(11)  # the renewal of the tenth second is under way

    scene = scene_with(side, work)
    async with scene.pool():
        began_at = now()
        await scene.record.until("acked")
        assert now() - began_at < 12
        await anyio.sleep(200)
    assert side.calls["extend"] == 1


@in_virtual_time
async def test_lease_lost_during_a_renewal_is_renewed_no_more() -> None:
    """A12.98: what that renewal answers, late, does not bring it back."""
    side = Slow(latency=LEASE)

    async def work(ctx: JobContext, params: Any) -> None:
        await anyio.sleep_forever()

    scene = scene_with(side, work)
    async with scene.pool(drain_timeout=0):
        await scene.record.until("lease_lost")
        side.take_away("work-0")
        before = side.calls["extend"]
        await anyio.sleep(100)
    assert side.calls["extend"] == before
    assert endings(scene.record) == ["lease_lost"]


@in_virtual_time
async def test_lost_lease_is_told_of_once_however_many_hear_of_it() -> None:
    """A12.99: the handler, whose extensions are refused, and the renewal in the background."""
    side, stale, refused = FakeSide(), list[str](), list[bool]()

    async def work(ctx: JobContext, params: Any) -> None:
        side.take_away(ctx.job.id)
        for _ in range(3):
            with pytest.raises(JobLost):
                await ctx.extend()
            refused.append(ctx.lease_lost.is_set())
        await anyio.sleep_forever()

    scene = scene_with(side, work, on_stale=lambda ctx: stale.append(ctx.job.id))
    async with scene.pool():
        await scene.record.until("lease_lost")
    assert (stale, refused) == (["work-0"], [True] * 3)
    assert endings(scene.record) == ["lease_lost"]


@in_virtual_time
async def test_extension_after_the_loss_asks_nobody() -> None:
    """A12.92: no command is sent, and nothing is settled."""
    side, calls = FakeSide(), list[int]()

    async def work(ctx: JobContext, params: Any) -> None:
        side.take_away(ctx.job.id)
        for _ in range(5):
            with pytest.raises(JobLost):
                await ctx.extend()
            calls.append(side.calls["extend"])

    scene = scene_with(side, work)
    async with scene.pool():
        await scene.record.until("lease_lost")
    assert calls == [1] * 5
    assert not {"ack", "retry", "fail", "release"} & side.calls.keys()


@in_virtual_time
async def test_error_of_the_database_is_the_callers_and_the_lease_lasts() -> None:
    """A12.100, ours: one that fails is tried again while the lease lasts."""
    side, errors = Slow(errors=(GONE, GONE, GONE)), list[BaseException]()

    async def work(ctx: JobContext, params: Any) -> None:
        try:
            await ctx.extend()
        except ConnectionError as error:
            errors.append(error)
        await anyio.sleep(100)

    scene = scene_with(side, work)
    async with scene.pool():
        await scene.record.until("acked")
    assert errors == [GONE]
    assert endings(scene.record) == ["acked"]


@in_virtual_time
async def test_lease_that_no_error_lets_renew_is_lost_once() -> None:
    """A12.100, when it is over."""
    side, stale = Slow(errors=(GONE,) * 1_000), list[str]()

    async def work(ctx: JobContext, params: Any) -> None:
        await anyio.sleep_forever()

    scene = scene_with(side, work, on_stale=lambda ctx: stale.append(ctx.job.id))
    async with scene.pool(drain_timeout=0):
        await scene.record.until("lease_lost")
    assert stale == ["work-0"]


@in_virtual_time
async def test_end_of_a_lease_is_counted_from_the_asking_not_from_the_answer() -> None:
    """A12.102: the 40 seconds that an answer takes are not given to the handler."""
    side, lasted = Slow(latency=40.0), list[float]()

    async def work(ctx: JobContext, params: Any) -> None:
        began_at = now()
        await ctx.extend(400)
        side.errors = [GONE] * 10_000
        try:
            await anyio.sleep_forever()
        finally:
            lasted.append(now() - began_at)

    scene = scene_with(side, work, lease=300)
    async with scene.pool(drain_timeout=0):
        await scene.record.until("lease_lost")
    assert lasted == [400.0 - 50.0]  # a sixth of the lease is for the handler's end
