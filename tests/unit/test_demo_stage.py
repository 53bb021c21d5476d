"""The watching part of `fairlane demo`: when it kills, when it is done, when it gives up."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from fairlane.cli.demo import events, stage
from fairlane.cli.demo.display import Display
from fairlane.cli.demo.events import Events
from fairlane.cli.demo.input import Event
from fairlane.cli.demo.plan import Plan
from fairlane.cli.demo.records import Delivery, Execution
from fairlane.cli.demo.report import Leftovers
from fairlane.errors import FairlaneError

PLAN = Plan(
    events=tuple(Event(group="g", index=index, body=index) for index in range(4)), patience=0.05
)


def handled(index: int) -> Execution:
    delivery = Delivery(group="g", index=index, seq=index, attempt=1, digest="")
    return Execution(worker="w", delivery=delivery, started_at=0, ended_at=1, outcome="handled")


class ScriptedFleet:
    """Hands out one batch of executions for each poll, then nothing."""

    def __init__(self, *batches: Sequence[Execution]) -> None:
        self._batches = list(batches)
        self.polls = 0
        self.killed_at: list[int] = []
        self.replaced = 0
        self.death: FairlaneError | None = None

    def check_alive(self) -> None:
        if self.death is not None:
            raise self.death

    def poll(self) -> Sequence[Execution]:
        self.polls += 1
        return self._batches.pop(0) if self._batches else []

    async def kill_one(self) -> Any:
        self.killed_at.append(self.polls)
        return SimpleNamespace(plan=SimpleNamespace(name="w1"), pid=1)

    async def replace(self, victim: Any) -> Any:
        self.replaced += 1
        return victim


class ScriptedDatabase:
    def __init__(self, *left: Leftovers) -> None:
        self._left = list(left)
        self.looks = 0

    async def leftovers(self) -> Leftovers:
        self.looks += 1
        return self._left.pop(0) if self._left else Leftovers()


class StuckPublishing:
    """A publisher that never returns."""

    def __init__(self) -> None:
        self.published: list[object] = []
        self.is_cancelled = False

    async def run(self, events: object, publishers: int) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "TICK", 0)
    monkeypatch.setattr(events, "CLEAN_UP_TICK", 0.001)


async def play(
    fleet: ScriptedFleet,
    plan: Plan = PLAN,
    database: ScriptedDatabase | None = None,
    publishing: StuckPublishing | None = None,
) -> None:
    parts: dict[str, Any] = {
        "database": database or ScriptedDatabase(),
        "publishing": publishing or StuckPublishing(),
    }
    crew: Any = fleet
    with Display(Console(file=StringIO()), len(plan.events)) as display:
        act = Events(plan, **parts)
        await stage.Stage(plan, act, fleet=crew, display=display).play()


async def test_a_process_is_killed_and_replaced_once_half_is_handled() -> None:
    fleet = ScriptedFleet([handled(0)], [handled(1)], [handled(2)], [], [handled(3)])
    await play(fleet)
    assert (fleet.killed_at, fleet.replaced) == ([2], 1)


async def test_a_second_delivery_does_not_count_towards_the_half() -> None:
    fleet = ScriptedFleet([handled(0)], [handled(0)], [handled(1)], [handled(2), handled(3)])
    await play(fleet)
    assert fleet.killed_at == [3]


async def test_nobody_is_killed_without_a_plan_to() -> None:
    fleet = ScriptedFleet([handled(index) for index in range(4)])
    await play(fleet, replace(PLAN, is_killing=False))
    assert fleet.killed_at == []


async def test_a_run_in_which_nothing_moves_is_given_up() -> None:
    publishing = StuckPublishing()
    await play(ScriptedFleet([handled(0)]), publishing=publishing)
    assert publishing.is_cancelled


async def test_a_run_that_only_repeats_itself_is_given_up() -> None:
    repeating = ScriptedFleet()
    repeating.poll = lambda: [handled(0)]  # type: ignore[method-assign]
    await play(repeating)


async def test_a_process_that_ends_by_itself_ends_the_run() -> None:
    fleet = ScriptedFleet()
    fleet.death = FairlaneError("worker-1 ended")
    with pytest.raises(ExceptionGroup) as caught:
        await play(fleet)
    assert caught.value.exceptions == (fleet.death,)


async def test_the_end_waits_for_the_clean_up() -> None:
    database = ScriptedDatabase(Leftovers(messages=1, locks=1), Leftovers(locks=1))
    await play(ScriptedFleet([handled(index) for index in range(4)]), database=database)
    assert database.looks == 3
