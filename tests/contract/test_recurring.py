"""Recurring jobs on a server: one record each, and one run for each tick."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from contract.job_pools import MakeQueue, Record, pool_of
from fairlane import AsyncJobQueue, JobContext, Jobs, JobStats
from fairlane.testing import ManualClock

KEY = "recurring:clean"
START = 1_000_000.0


@pytest.fixture
def make_queue(client: Any, db_name: str) -> MakeQueue:
    def make(**options: Any) -> AsyncJobQueue:
        return AsyncJobQueue(client, db_name, **options)

    return make


@pytest.fixture
def queue(make_queue: MakeQueue, clock: ManualClock) -> AsyncJobQueue:
    """A queue whose time stands still until a test moves it."""
    return make_queue(clock=clock)


@pytest.fixture
def record() -> Record:
    return Record()


class Runs:
    """The definition of a recurring job, and the ticks that it ran for."""

    def __init__(self, error: Exception | None = None, **options: Any) -> None:
        self.ticks: list[float] = []
        self.jobs = Jobs()
        self.zone = ZoneInfo(options.get("timezone", "UTC"))
        self._error = error
        self.jobs.recurring("clean", **options)(self._run)

    async def _run(self, ctx: JobContext) -> None:
        assert ctx.scheduled_at is not None
        self.ticks.append(ctx.scheduled_at.timestamp())
        if self._error is not None:
            raise self._error


async def opened(queue: AsyncJobQueue, *definitions: Runs) -> dict[str, Any]:
    """Let pools start with these, one after the other; return the record."""
    for each in definitions:
        await queue.working_side().open(tuple(each.jobs))
    return await stored(queue)


async def stored(queue: AsyncJobQueue) -> dict[str, Any]:
    found = await queue._store.jobs.find_one({"_id": KEY})
    assert found is not None
    return found


async def test_first_start_creates_the_record_for_the_first_tick(queue: AsyncJobQueue) -> None:
    record = await opened(queue, Runs(every="1h", priority=7))
    assert record["kind"] == "recurring"
    assert (record["available_at"], record["priority"]) == (START + 3_600, 7)


async def test_later_starts_leave_the_record_alone(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    first = await opened(queue, Runs(every="1h"))
    clock.advance(600)
    assert await opened(queue, Runs(every="1h")) == first


async def test_many_starts_at_once_create_one_record(make_queue: MakeQueue) -> None:
    """C1.21: there a race at the start raised E11000, and killed the scheduler."""
    queues, runs = [make_queue() for _ in range(8)], Runs(every="1h")
    await queues[0].total()
    sides = [queue.working_side() for queue in queues]
    await asyncio.gather(*(side.open(tuple(runs.jobs)) for side in sides for _ in range(4)))
    assert await queues[0].total() == 1


async def test_event_job_of_the_same_type_is_another_record(queue: AsyncJobQueue) -> None:
    """C1.21: there it was converted."""
    key = (await queue.enqueue(1, "clean")).id
    await opened(queue, Runs(every="1h"))
    event = await queue.get(key)
    assert event is not None
    assert (event.kind, event.payload) == ("event", 1)


async def test_each_tick_is_run_once_by_all_pools_together(
    make_queue: MakeQueue, record: Record
) -> None:
    """A12.49: a quick one, in real time."""
    everywhere = [Runs(every=0.1) for _ in range(3)]
    async with (
        pool_of(make_queue(), everywhere[0].jobs, record, poll_interval=0.01),
        pool_of(make_queue(), everywhere[1].jobs, record, poll_interval=0.01),
        pool_of(make_queue(), everywhere[2].jobs, record, poll_interval=0.01),
    ):
        await record.until("acked", times=8)
    ticks = [tick for runs in everywhere for tick in runs.ticks]
    assert len(ticks) >= 8
    assert max(Counter(ticks).values()) == 1


async def run_once(queue: AsyncJobQueue, runs: Runs, record: Record, ending: str = "acked") -> None:
    """Let a pool work until one more run has ended."""
    times = record.kinds.count(ending) + 1
    async with pool_of(queue, runs.jobs, record):
        await record.until(ending, times=times)


async def test_run_restores_attempts_and_priority_and_clears_the_lease(
    queue: AsyncJobQueue, clock: ManualClock, record: Record
) -> None:
    """A12.47."""
    runs = Runs(every="1h", priority=7)
    await opened(queue, runs)
    changed = {"$set": {"priority": 0, "attempts": 1, "available_at": clock()}}
    await queue._store.jobs.update_one({"_id": KEY}, changed)
    await run_once(queue, runs, record)
    found = await stored(queue)
    assert (found["priority"], found["attempts"], found["token"]) == (7, 0, None)
    assert found["state"] == "pending"


MISSED: dict[str, tuple[list[int], int]] = {
    # After four hours and a half: the ticks that are run, in hours, and the next one.
    "coalesce": ([1], 5),
    "skip": ([], 5),
    "all": ([1, 2, 3, 4], 5),
}


@pytest.mark.parametrize("misfire", MISSED)
async def test_missed_ticks_are_treated_as_the_policy_says(
    queue: AsyncJobQueue, clock: ManualClock, record: Record, misfire: Any
) -> None:
    hours, following = MISSED[misfire]
    runs = Runs(every="1h", misfire=misfire)
    await opened(queue, runs)
    clock.advance(4.5 * 3_600)
    async with pool_of(queue, runs.jobs, record):
        await record.until("acked", times=max(1, len(hours)))
    assert runs.ticks == [START + hour * 3_600 for hour in hours]
    assert (await stored(queue))["available_at"] == START + following * 3_600


async def test_failed_run_is_retried_and_then_left_for_the_next_one(
    make_queue: MakeQueue, record: Record
) -> None:
    """A12.30 and A12.56."""
    queue = make_queue()
    runs = Runs(ValueError("bad"), next_run=lambda after: after + timedelta(seconds=0.2))
    async with pool_of(queue, runs.jobs, record):
        await record.until("acked")
    assert record.kinds.count("nacked") == 2
    assert len(set(runs.ticks)) == 1
    found = await stored(queue)
    assert (found["state"], found["attempts"]) == ("pending", 0)
    assert found["last_error"] == "ValueError: bad"


@pytest.fixture
def in_santiago() -> Runs:
    """Defined while no event loop runs, as programs do: the zone is read from a file."""
    return Runs(cron="0 9 * * *", timezone="America/Santiago")


async def test_cron_runs_at_the_time_of_its_zone(
    queue: AsyncJobQueue, clock: ManualClock, record: Record, in_santiago: Runs
) -> None:
    """A12.50."""
    clock.advance(datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp() - clock())
    runs = in_santiago
    found = await opened(queue, runs)
    assert found["available_at"] == datetime(2026, 5, 1, 13, tzinfo=UTC).timestamp()
    clock.advance(3_600)
    await run_once(queue, runs, record)
    assert (await stored(queue))["available_at"] == datetime(2026, 5, 2, 13, tzinfo=UTC).timestamp()


async def test_changed_schedule_takes_effect_when_a_pool_starts_with_it(
    queue: AsyncJobQueue,
) -> None:
    found = await opened(queue, Runs(every="1h"), Runs(every="10m"))
    assert found["available_at"] == START + 600
    assert found["schedule"] == {"every": 600.0}


async def test_changed_priority_takes_effect_and_leaves_the_time(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    await opened(queue, Runs(every="1h"))
    clock.advance(1_800)
    found = await opened(queue, Runs(every="1h", priority=9))
    assert (found["priority"], found["available_at"]) == (9, START + 3_600)


async def test_definition_that_changes_under_a_run_leaves_its_lease_and_decides_the_next(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    old = Runs(every="1h")
    await opened(queue, old)
    clock.advance(3_600)
    job = await queue.claim("clean", lease=30)
    assert job is not None
    found = await opened(queue, Runs(every="10m", priority=4))
    assert (found["token"], found["available_at"]) == (job.token, clock() + 30)

    assert await queue.working_side().reschedule(job, next(iter(old.jobs)), None)

    found = await stored(queue)
    assert (found["available_at"], found["priority"]) == (clock() + 600, 4)


async def test_older_program_keeps_to_the_schedule_that_is_stored(
    queue: AsyncJobQueue, clock: ManualClock, record: Record
) -> None:
    old = Runs(every="1h")
    await opened(queue, old, Runs(every="10m"))
    clock.advance(600)
    job = await queue.claim("clean")
    assert job is not None
    assert await queue.working_side().reschedule(job, next(iter(old.jobs)), None)
    assert (await stored(queue))["available_at"] == START + 1_200


async def test_older_program_learns_the_zone_of_the_schedule_that_is_stored(
    queue: AsyncJobQueue, clock: ManualClock, in_santiago: Runs
) -> None:
    old = Runs(every="1h")
    await opened(queue, in_santiago)
    ZoneInfo.clear_cache()
    clock.advance(24 * 3_600)
    job = await queue.claim("clean")
    assert job is not None
    assert await queue.working_side().reschedule(job, next(iter(old.jobs)), None)
    following = datetime.fromtimestamp((await stored(queue))["available_at"], UTC)
    assert f"{following.astimezone(in_santiago.zone):%H:%M}" == "09:00"


async def test_lost_lease_reschedules_nothing(queue: AsyncJobQueue, clock: ManualClock) -> None:
    """A12.27."""
    runs = Runs(every="1h")
    await opened(queue, runs)
    clock.advance(3_600)
    first = await queue.claim("clean", lease=30)
    clock.advance(31)
    second = await queue.claim("clean", lease=30)
    assert first is not None
    assert second is not None
    before = await stored(queue)
    assert not await queue.working_side().reschedule(first, next(iter(runs.jobs)), None)
    assert await stored(queue) == before


async def test_record_that_was_ended_by_hand_lives_again_when_a_pool_starts(
    queue: AsyncJobQueue,
) -> None:
    """A12.62."""
    runs = Runs(every="1h")
    await opened(queue, runs)
    assert await queue.force_fail(KEY)
    found = await opened(queue, runs)
    assert (found["state"], found["available_at"]) == ("pending", START + 3_600)
    assert "expires_at" not in found
    assert found["partition"] == 0


async def test_reclaiming_never_fails_a_recurring_job(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    """A12.67."""
    await opened(queue, Runs(every="1h"))
    clock.advance(3_600)
    for _ in range(10):
        assert await queue.claim("clean", lease=1) is not None
        clock.advance(2)
    assert (await queue.reclaim_stale()).failed == 0
    assert (await stored(queue))["state"] == "pending"


async def test_removed_job_is_gone(queue: AsyncJobQueue) -> None:
    await opened(queue, Runs(every="1h"))
    assert await queue.remove_recurring("clean")
    assert not await queue.remove_recurring("clean")
    assert await queue.stats() == JobStats()


async def test_run_of_a_removed_job_ends_as_a_lost_lease(
    queue: AsyncJobQueue, clock: ManualClock, record: Record
) -> None:
    jobs = Jobs()

    @jobs.recurring("clean", every="1h")
    async def clean(ctx: JobContext) -> None:
        await queue.remove_recurring("clean")

    await queue.working_side().open(tuple(jobs))
    clock.advance(3_600)
    async with pool_of(queue, jobs, record):
        await record.until("lease_lost")
    assert await queue.total() == 0


def raising(after: datetime) -> datetime:
    raise ValueError("a bug")


def naive(after: datetime) -> datetime:
    return after.replace(tzinfo=None)


@pytest.mark.parametrize(
    ("next_run", "reason"),
    [(raising, "next_run raised ValueError('a bug')"), (naive, "another moment on every machine")],
)
async def test_broken_next_run_is_tried_again_after_a_minute(
    queue: AsyncJobQueue, caplog: pytest.LogCaptureFixture, next_run: Any, reason: str
) -> None:
    found = await opened(queue, Runs(next_run=next_run))
    assert found["available_at"] == START + 60
    (line,) = [each.message for each in caplog.records if "schedule is broken" in each.message]
    assert "'clean' runs again in 60 s" in line
    assert reason in line
