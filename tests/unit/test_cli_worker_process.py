"""One worker process from its first line to its exit status, without a server and without time."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from types import ModuleType
from typing import Any

import anyio
import pytest
from pymongo.errors import OperationFailure
from worker_fakes import FakeSource, Fault, Record, in_virtual_time

from fairlane.cli.worker.plan import HealthPlan, Plan
from fairlane.cli.worker.process import Process
from fairlane.cli.worker.stopping import Step
from fairlane.errors import ConfigurationError, ServerUnreachable
from fairlane.worker import WorkerPool

PLAN = Plan(target="shop:pool")


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the application; a test gives it its `pool`."""
    module = ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop", module)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return module


@pytest.fixture
def process() -> Process:
    return Process(PLAN, HealthPlan())


async def slow(_: object) -> None:
    await anyio.sleep(10)


async def ended(process: Process, *steps: Step, record: Record) -> int:
    """Go these steps as soon as a handler is at work, and return the status."""
    running = asyncio.create_task(process.run())
    await record.until("claimed")
    await asyncio.sleep(1)
    for step in steps:
        process.steps.reach(step)
    return await running


@in_virtual_time
async def test_first_step_lets_the_handler_finish(shop: Any, process: Process) -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    shop.pool = WorkerPool(source, slow, on_event=record)
    assert await ended(process, Step.DRAIN, record=record) == 0
    assert record.kinds == ["claimed", "acked"]


@in_virtual_time
async def test_second_step_cancels_it_and_gives_its_lease_back(shop: Any, process: Process) -> None:
    source, record = FakeSource(), Record()
    source.publish("g")
    shop.pool = WorkerPool(source, slow, on_event=record)
    assert await ended(process, Step.DRAIN, Step.CANCEL, record=record) == 0
    assert (record.kinds, source.leased) == (["claimed", "released"], [])


@in_virtual_time
async def test_what_is_still_opening_is_cancelled_and_closed(shop: Any, process: Process) -> None:
    told = []

    @asynccontextmanager
    async def opening() -> AsyncIterator[WorkerPool[Any]]:
        try:
            await anyio.sleep(1_000)
            yield WorkerPool(FakeSource(), slow)
        finally:
            told.append("closed")

    shop.pool = opening
    running = asyncio.create_task(process.run())
    await asyncio.sleep(1)
    process.steps.reach(Step.DRAIN)
    assert (await running, told) == (0, ["closed"])


@in_virtual_time
async def test_a_signal_while_the_module_is_imported_lets_the_pool_claim_nothing(
    shop: Any, process: Process
) -> None:
    source = FakeSource()

    def factory() -> WorkerPool[Any]:
        process.steps.reach(Step.DRAIN)
        return WorkerPool(source, slow)

    shop.pool = factory
    assert await process.run() == 0
    assert source.calls["claim"] == 0


@in_virtual_time
async def test_a_factory_that_swallows_its_cancellation_gives_a_pool_that_claims_nothing(
    shop: Any, process: Process
) -> None:
    source = FakeSource()

    async def factory() -> WorkerPool[Any]:
        with suppress(asyncio.CancelledError):
            await anyio.sleep(1_000)
        return WorkerPool(source, slow)

    shop.pool = factory
    running = asyncio.create_task(process.run())
    await asyncio.sleep(1)
    process.steps.reach(Step.DRAIN)
    assert await asyncio.wait_for(running, 100) == 0
    assert source.calls["claim"] == 0


@in_virtual_time
async def test_a_pool_that_the_application_stops_is_a_good_end(shop: Any, process: Process) -> None:
    shop.pool = WorkerPool(FakeSource(), slow)
    shop.pool.stop()
    assert await process.run() == 0


@in_virtual_time
async def test_a_cancellation_that_nobody_asked_for_is_a_failure(
    shop: Any, process: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.pool = WorkerPool(FakeSource(), slow)
    running = asyncio.create_task(process.run())
    await asyncio.sleep(1)
    running.cancel()
    assert await running == 1
    assert "was cancelled" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigurationError("odd"), 2),
        (OperationFailure("odd", 18), 2),
        (ServerUnreachable("odd"), 1),
        (OSError("odd"), 1),
        (ZeroDivisionError("odd"), 1),
        (SystemExit("odd"), 1),
    ],
)
def test_what_a_factory_raises_is_a_status_and_one_line(
    shop: Any,
    process: Process,
    error: BaseException,
    status: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def factory() -> WorkerPool[Any]:
        raise error

    shop.pool = factory
    assert asyncio.run(process.run()) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("fairlane worker: ")
    assert "odd" in line


@in_virtual_time
async def test_a_login_that_is_refused_to_the_pool_is_not_worth_a_restart(
    shop: Any, process: Process
) -> None:
    source = FakeSource()
    source.always["claim"] = Fault(before=OperationFailure("bad auth", 18))
    shop.pool = WorkerPool(source, slow)
    assert await process.run() == 2


def test_a_module_that_is_not_there_is_a_status_and_one_line(
    shop: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    process = Process(Plan(target="shop:missing"), HealthPlan())
    assert asyncio.run(process.run()) == 2
    assert capsys.readouterr().err == "fairlane worker: module 'shop' has no 'missing'\n"
