"""A supervisor of processes that are none: restarts, orders, health, and how it ends."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fairlane.cli.worker import supervisor as module
from fairlane.cli.worker.restarts import Life, Restarts
from fairlane.cli.worker.stopping import Step
from fairlane.cli.worker.supervisor import Supervisor
from fairlane.retry import Backoff

CRASH = Life(status=-9, seconds=2.0, has_worked=True)
IN_VAIN = Life(status=1, seconds=0.5, has_worked=False)
WRONG = Life(status=2, seconds=0.5, has_worked=False)
GOOD = Life(status=0, seconds=9.0, has_worked=True)


class FakeWard:
    """Ends when a test says so, or with `obeys` when it is told to drain."""

    def __init__(self, pid: int, obeys: Life | None = GOOD) -> None:
        self.pid = pid
        self.orders: list[Step] = []
        self.is_killed = False
        self._obeys = obeys
        self._life: asyncio.Future[Life] = asyncio.get_running_loop().create_future()

    async def live(self) -> Life:
        return await self._life

    def end(self, life: Life) -> None:
        if not self._life.done():
            self._life.set_result(life)

    def order(self, step: Step) -> None:
        self.orders.append(step)
        if self._obeys is not None:
            self.end(self._obeys)

    def kill(self) -> None:
        self.is_killed = True

    def health(self) -> dict[str, Any]:
        told = {"state": "ok", "running": 1, "leased": 1, "last_poll_age": 0.1}
        return {**told, "pid": self.pid, "worker_id": None}


class Fleet:
    """What the supervisor has started."""

    def __init__(self) -> None:
        self.wards: list[FakeWard] = []
        self.obeys: Life | None = GOOD
        self.failing_starts = 0

    async def start(self) -> FakeWard:
        if self.failing_starts:
            self.failing_starts -= 1
            raise OSError("no process left")
        self.wards.append(FakeWard(len(self.wards) + 1, self.obeys))
        return self.wards[-1]

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not is_so():  # noqa: ASYNC110  what is waited for tells nobody
                await asyncio.sleep(0)

    async def until_started(self, number: int) -> FakeWard:
        await self.until(lambda: len(self.wards) >= number)
        return self.wards[number - 1]


def at_once() -> Restarts:
    return Restarts(backoff=Backoff(base=0.0), most_in_vain=3)


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


@pytest.fixture
def supervisor(fleet: Fleet) -> Supervisor:
    return Supervisor(2, fleet.start, restarts=at_once)


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def test_signal_is_passed_on_to_all_and_the_end_is_good(
    fleet: Fleet, supervisor: Supervisor
) -> None:
    running = asyncio.create_task(supervisor.run())
    await fleet.until_started(2)
    signal.raise_signal(signal.SIGTERM)
    assert await running == 0
    assert [ward.orders for ward in fleet.wards] == [[Step.DRAIN], [Step.DRAIN]]


@pytest.mark.parametrize("life", [CRASH, GOOD], ids=["killed", "ended by itself"])
async def test_a_process_that_ends_unasked_is_replaced(
    fleet: Fleet, supervisor: Supervisor, life: Life
) -> None:
    running = asyncio.create_task(supervisor.run())
    (await fleet.until_started(2)).end(life)
    await fleet.until_started(3)
    signal.raise_signal(signal.SIGTERM)
    assert await running == 0
    assert len(fleet.wards) == 3


async def test_a_process_that_cannot_be_started_is_tried_again(
    fleet: Fleet, supervisor: Supervisor
) -> None:
    fleet.failing_starts = 1
    running = asyncio.create_task(supervisor.run())
    await fleet.until_started(2)
    signal.raise_signal(signal.SIGTERM)
    assert await running == 0


@pytest.mark.parametrize("of_others", [GOOD, CRASH], ids=["others end well", "others crash"])
async def test_what_no_restart_can_mend_ends_all_with_its_status(
    fleet: Fleet, supervisor: Supervisor, of_others: Life
) -> None:
    fleet.obeys = of_others
    running = asyncio.create_task(supervisor.run())
    (await fleet.until_started(2)).end(WRONG)
    assert await running == 2
    assert fleet.wards[0].orders == [Step.DRAIN]
    assert len(fleet.wards) == 2


async def test_a_place_whose_processes_never_work_ends_all_with_3(
    fleet: Fleet, supervisor: Supervisor
) -> None:
    running = asyncio.create_task(supervisor.run())
    for number in (2, 3, 4):
        (await fleet.until_started(number)).end(IN_VAIN)
    assert await running == 3
    assert fleet.wards[0].orders == [Step.DRAIN]


@pytest.mark.parametrize(("status", "told"), [(143, 143), (1, 1), (-9, 1)])
async def test_a_process_that_does_not_drain_shows_in_the_status(
    fleet: Fleet, supervisor: Supervisor, status: int, told: int
) -> None:
    fleet.obeys = Life(status=status, seconds=9.0, has_worked=True)
    running = asyncio.create_task(supervisor.run())
    await fleet.until_started(2)
    signal.raise_signal(signal.SIGTERM)
    assert await running == told


async def test_a_signal_ends_the_wait_for_a_restart(fleet: Fleet) -> None:
    def later() -> Restarts:
        return Restarts(backoff=Backoff(base=300.0))

    supervisor = Supervisor(1, fleet.start, restarts=later)
    running = asyncio.create_task(supervisor.run())
    (await fleet.until_started(1)).end(CRASH)
    await fleet.until(lambda: supervisor.document()["state"] == "restarting")
    signal.raise_signal(signal.SIGTERM)
    async with asyncio.timeout(5):
        assert await running == 0


async def test_a_process_that_comes_up_after_the_signal_is_told_of_it(
    fleet: Fleet,
) -> None:
    async def start() -> FakeWard:
        signal.raise_signal(signal.SIGTERM)
        await fleet.until(lambda: one.document()["state"] == "draining")
        return await fleet.start()

    one = Supervisor(1, start)
    assert await one.run() == 0
    assert fleet.wards[0].orders[0] is Step.DRAIN


async def test_second_signal_cancels_and_third_kills_and_leaves(
    fleet: Fleet, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    monkeypatch.setattr(module, "leave_at_once", left.append)
    fleet.obeys = None
    running = asyncio.create_task(supervisor.run())
    await fleet.until_started(2)
    for _ in range(2):
        signal.raise_signal(signal.SIGINT)
    await fleet.until(lambda: fleet.wards[1].orders == [Step.DRAIN, Step.CANCEL])
    signal.raise_signal(signal.SIGINT)
    assert ([ward.is_killed for ward in fleet.wards], left) == ([True, True], [130])
    for ward in fleet.wards:
        ward.end(CRASH)
    await running


async def test_health_is_that_of_all_processes_with_their_restarts(
    fleet: Fleet, supervisor: Supervisor
) -> None:
    assert supervisor.document()["state"] == "starting"
    running = asyncio.create_task(supervisor.run())
    (await fleet.until_started(2)).end(CRASH)
    await fleet.until_started(3)
    await fleet.until(lambda: supervisor.document()["state"] == "ok")
    told = supervisor.document()
    assert [(each["pid"], each["restarts"]) for each in told["processes"]] == [(1, 0), (3, 1)]
    signal.raise_signal(signal.SIGTERM)
    await fleet.until(lambda: supervisor.document()["state"] == "draining")
    await running
