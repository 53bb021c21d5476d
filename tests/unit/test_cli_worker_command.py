"""The command line of `fairlane worker`: understood, or refused before anything is started."""

import asyncio
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from fairlane.cli.app import app
from fairlane.cli.outcome import Refused
from fairlane.cli.worker import command
from fairlane.cli.worker.loops import loop_factory
from fairlane.cli.worker.plan import HealthPlan, Plan
from fairlane.cli.worker.stopping import Step
from fairlane.cli.worker.wire import Wire


class Started(Exception):
    """The command line was understood."""


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*arguments: Any) -> int:
        raise Started(*arguments)

    monkeypatch.setattr(command, "work", start)
    monkeypatch.setattr(command, "supervise", start)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["worker", *arguments])


def started(*arguments: str) -> tuple[Any, ...]:
    result = invoke(*arguments)
    assert isinstance(result.exception, Started), result.output
    return result.exception.args


def test_without_options_one_process_runs_what_is_in_this_folder() -> None:
    here = str(Path.cwd())
    assert started("shop:pool") == (Plan(target="shop:pool", app_dir=here), HealthPlan())


def test_every_option_is_understood(tmp_path: Path) -> None:
    process = ("--processes", "3", "--app-dir", "/srv", "--loop", "asyncio", "--kill-after", "9")
    log = ("--log-format", "json", "--log-level", "error")
    file = tmp_path / "h"
    told = ("--health-port", "80", "--health-host", "::", "--health-file", str(file))
    assert started("shop:pool", *process, *log, *told) == (
        Plan(
            target="shop:pool",
            app_dir="/srv",
            loop="asyncio",
            log_format="json",
            log_level="error",
            kill_after=9.0,
        ),
        HealthPlan(host="::", port=80, file=file),
        3,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("shop:pool", "--processes", "0"),
        ("shop:pool", "--loop", "trio"),
        ("shop:pool", "--log-format", "xml"),
        ("shop:pool", "--log-level", "loud"),
        ("shop:pool", "--kill-after", "-1"),
        ("shop:pool", "--health-port", "65536"),
        ("shop:pool", "--health-file", "/no/such/folder/h"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_is_refused(arguments: tuple[str, ...]) -> None:
    assert invoke(*arguments).exit_code == 2


def test_a_plan_survives_the_wire() -> None:
    plan = Plan(target="shop:pool", log_level="error", kill_after=0.5)
    assert Plan.from_json(plan.to_json()) == plan


def test_uvloop_that_is_missing_is_refused_only_where_it_was_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop_factory("auto") is None
    with pytest.raises(Refused, match="uvloop is not installed"):
        loop_factory("uvloop")


def test_uvloop_is_used_where_it_is_installed() -> None:
    uvloop = pytest.importorskip("uvloop")
    assert loop_factory("auto") is loop_factory("uvloop") is uvloop.new_event_loop
    assert loop_factory("asyncio") is None


class Steps:
    def __init__(self) -> None:
        self.reached: asyncio.Queue[Step] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def reach(self, step: Step) -> None:
        self._loop.call_soon_threadsafe(self.reached.put_nowait, step)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Wire]]:
    """A wire, and the end of its supervisor."""
    ours, theirs = socket.socketpair()
    wire = Wire(theirs.detach())
    yield ours, wire
    ours.close()
    wire.close()


async def test_orders_come_over_the_wire_and_its_end_drains_and_then_leaves(
    ends: tuple[socket.socket, Wire],
) -> None:
    ours, wire = ends
    steps: Any = Steps()
    ours.sendall(Plan(target="shop:pool").to_json().encode() + b"\n")
    assert wire.plan().target == "shop:pool"
    wire.follow(steps, lambda: 0.0)
    ours.sendall(b"drain\ncancel\n")
    orders = [await steps.reached.get() for _ in range(2)]
    ours.close()
    at_its_end = [await steps.reached.get() for _ in range(2)]
    assert (orders, at_its_end) == ([Step.DRAIN, Step.CANCEL], [Step.DRAIN, Step.LEAVE])


def test_a_supervisor_that_does_not_listen_holds_up_nobody(
    ends: tuple[socket.socket, Wire],
) -> None:
    ours, wire = ends
    for _ in range(10_000):
        wire.tell({"state": "ok"})
    ours.close()
    wire.tell({"state": "ok"})


def test_a_wire_that_ends_before_the_plan_is_told(ends: tuple[socket.socket, Wire]) -> None:
    ours, wire = ends
    ours.close()
    with pytest.raises(EOFError):
        wire.plan()
