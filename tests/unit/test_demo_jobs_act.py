"""What the stage learns of a run over jobs: when to kill, when it is over, what a kill leaves."""

from types import SimpleNamespace
from typing import Any

import pytest

from fairlane.cli.demo.jobs import act
from fairlane.cli.demo.jobs.act import JobsAct
from fairlane.cli.demo.jobs.enqueuing import Placed
from fairlane.cli.demo.jobs.ledger import Held
from fairlane.cli.demo.jobs.plan import TICKING_ID, JobsPlan, planned
from fairlane.cli.demo.records import Delivery, Execution

PLAN = JobsPlan(jobs=planned(4))


class ScriptedLedger:
    """Says what it is told to: one set of leases for each look."""

    def __init__(self) -> None:
        self.number_ended = 0
        self.looks: list[set[Held]] = []

    async def ended(self) -> int:
        return self.number_ended

    async def held_by(self, worker: str) -> set[Held]:
        return self.looks.pop(0) if self.looks else set()


class Setting:
    """An act whose jobs are all in, the first one with a call that found it taken."""

    def __init__(self) -> None:
        calls = [(0, True), (0, False), (1, True), (2, True), (3, True)]
        placed = [_placed(index, is_created) for index, is_created in calls]
        self.enqueuing = SimpleNamespace(placed=placed, finished=4)
        self.fleet = SimpleNamespace(is_victim_busy=True)
        self.ledger = ScriptedLedger()
        parts: Any = {"enqueuing": self.enqueuing, "ledger": self.ledger, "fleet": self.fleet}
        self.act = JobsAct(PLAN, **parts)

    async def look(self, *, ended: int, ticks: int = 0) -> None:
        self.ledger.number_ended = ended
        await self.act.look([_tick(moment) for moment in range(ticks)])


def _placed(index: int, is_created: bool) -> Placed:
    return Placed(
        job=PLAN.jobs[index],
        id=f"job-{index}",
        is_created=is_created,
        started_at=0,
        returned_at=1,
    )


def _tick(moment: int) -> Execution:
    delivery = Delivery(group=TICKING_ID, index=moment, seq=moment, attempt=1, digest="")
    return Execution(worker="w", delivery=delivery, started_at=0, ended_at=1, outcome="handled")


@pytest.fixture
def setting(monkeypatch: pytest.MonkeyPatch) -> Setting:
    monkeypatch.setattr(act, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(act, "BETWEEN_LOOKS", 0.0)
    return Setting()


@pytest.mark.parametrize(("ended", "expected"), [(1, False), (2, True)])
async def test_it_is_time_to_kill_half_way(setting: Setting, ended: int, expected: bool) -> None:
    await setting.look(ended=ended)
    assert setting.act.is_time_to_kill is expected


@pytest.mark.parametrize(("ended", "expected"), [(3, False), (4, True)])
async def test_an_idle_worker_is_killed_only_when_there_is_no_job_left(
    setting: Setting, ended: int, expected: bool
) -> None:
    setting.fleet.is_victim_busy = False
    await setting.look(ended=ended)
    assert setting.act.is_time_to_kill is expected


@pytest.mark.parametrize(
    ("ended", "ticks", "expected"), [(4, 2, True), (3, 2, False), (4, 1, False)]
)
async def test_a_run_is_over_when_all_jobs_have_ended_and_two_ticks_have_run(
    setting: Setting, ended: int, ticks: int, expected: bool
) -> None:
    await setting.look(ended=ended, ticks=ticks)
    assert setting.act.is_complete is expected


async def test_a_run_is_not_over_before_all_is_enqueued(setting: Setting) -> None:
    setting.enqueuing.finished = 3
    await setting.look(ended=4, ticks=2)
    assert not setting.act.is_complete


async def test_what_a_kill_leaves_is_looked_for_more_than_once(setting: Setting) -> None:
    early, late = Held(job_id="a", epoch=1), Held(job_id="b", epoch=1)
    setting.ledger.looks = [{early}, {early, late}, {late}]
    await setting.act.after_kill("worker-1")
    assert setting.act.held == {early, late}


async def test_the_database_is_not_asked_at_every_look(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await setting.look(ended=1)
    monkeypatch.setattr(act, "LOOK_EVERY", 60.0)
    await setting.look(ended=2)
    assert setting.act.ended == 1
