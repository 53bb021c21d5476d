"""Many schedulers on one recurring job, some of which die: each tick is run once.

On mongomock-motor, whose calls never yield: whoever is asked first has the job.
"""

import random
from typing import Any

import pytest
from mongomock_motor import AsyncMongoMockClient

from fairlane import AsyncJobQueue, Job, JobContext, Jobs
from fairlane.jobs import Definition, Misfire
from fairlane.jobs.working import Demand, WorkingSide
from fairlane.testing import ManualClock

# mongomock still calls datetime.utcnow().
pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utc:DeprecationWarning")

MINUTE = 60.0
LEASE = 5.0


async def run(ctx: JobContext) -> None:
    """Succeed at once."""


def definition(misfire: Misfire = "coalesce", **schedule: Any) -> Definition:
    jobs = Jobs()
    jobs.recurring("tick", misfire=misfire, **(schedule or {"every": MINUTE}))(run)
    return next(iter(jobs))


class Schedulers:
    """Programs that serve one recurring job."""

    def __init__(self, clock: ManualClock, number: int = 5) -> None:
        self.clock = clock
        client: Any = AsyncMongoMockClient()
        self.queues = [AsyncJobQueue(client, clock=clock, lease=LEASE) for _ in range(number)]
        self.sides: list[WorkingSide] = [queue.working_side() for queue in self.queues]

    async def start(self, known: Definition) -> None:
        for side in self.sides:
            await side.open((known,))

    async def claim(self) -> list[tuple[WorkingSide, Job]]:
        """Let each of them look for work."""
        demand = Demand(worker_id="w", leases={"tick": LEASE})
        return [(side, job) for side in self.sides for job in await side.claim(demand, 8)]

    async def work(self, known: Definition) -> list[float]:
        """Let each of them run what it finds; return the ticks, in minutes from the start."""
        found = await self.claim()
        for side, job in found:
            assert await side.reschedule(job, known, None)
        return [minutes(job) for _, job in found]


def minutes(job: Job) -> float:
    assert job.scheduled_at is not None
    return (job.scheduled_at.timestamp() - 1_000_000.0) / MINUTE


@pytest.fixture
def schedulers(clock: ManualClock) -> Schedulers:
    return Schedulers(clock)


async def test_tick_of_the_future_is_never_claimed(
    schedulers: Schedulers, clock: ManualClock
) -> None:
    """Faults 24 and 61: though it is twelve leases ahead; then by one of five."""
    known = definition()
    await schedulers.start(known)
    seen = []
    for _ in range(12 * 3 + 1):
        ticks = await schedulers.work(known)
        seen += [((clock() - 1_000_000.0) / MINUTE, tick) for tick in ticks]
        clock.advance(LEASE)
    assert seen == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]


@pytest.mark.parametrize("seed", range(2))
async def test_tick_whose_leader_was_killed_is_run_by_another_one(
    schedulers: Schedulers, clock: ManualClock, seed: int
) -> None:
    """Fault 61: each tick ends once, and a new leader is told that it takes over."""
    rng, known = random.Random(seed), definition()
    await schedulers.start(known)
    ended, deaths, taken_over = list[float](), 0, 0
    while len(ended) < 20:
        for side, job in await schedulers.claim():
            taken_over += job.was_stale
            if rng.random() < 0.3:
                deaths += 1
            else:
                assert await side.reschedule(job, known, None)
                ended.append(minutes(job))
        clock.advance(LEASE)
    assert ended == [float(number) for number in range(1, 21)]
    assert deaths == taken_over > 0


DOWN: dict[Misfire, list[float]] = {
    "coalesce": [1.0],
    "skip": [],
    "all": [1.0, *(float(number) for number in range(81, 181))],
}


@pytest.mark.parametrize("misfire", DOWN)
async def test_ticks_of_three_hours_without_schedulers_are_as_the_policy_says(
    schedulers: Schedulers, clock: ManualClock, misfire: Misfire
) -> None:
    """Fault 61: one of them, none, or the last hundred, and then the next regular one."""
    known = definition(misfire)
    await schedulers.start(known)
    clock.advance(180 * MINUTE + 1)
    ran: list[float] = []
    while found := await schedulers.claim():
        for side, job in found:
            tick = minutes(job)
            if not known.misses(tick * MINUTE + 1_000_000.0, clock()):
                ran.append(tick)
            assert await side.reschedule(job, known, None)
    assert ran == DOWN[misfire]
    clock.advance(MINUTE)
    assert await schedulers.work(known) == [181.0]


async def test_schedule_that_is_changed_while_its_tick_runs_has_no_tick_of_the_old_one(
    schedulers: Schedulers, clock: ManualClock
) -> None:
    """Fault 61: the run ends as it began, and the next one is by the new schedule."""
    old, new = definition(), definition(every=7 * MINUTE)
    await schedulers.start(old)
    clock.advance(MINUTE)
    ((side, job),) = await schedulers.claim()
    await schedulers.start(new)
    assert await side.reschedule(job, old, None)
    ran = []
    for _ in range(16):
        clock.advance(MINUTE)
        ran += await schedulers.work(new)
    assert ran == [8.0, 15.0]
