"""The guard of a job is left when nothing works under it any more: threads in real time."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from job_fakes import Scene, endings

from fairlane import FairlaneError, Job, JobContext
from fairlane.worker._hooks import Stay, guarded


class Gate:
    """A guard that notes who is inside."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.left = anyio.Event()

    @asynccontextmanager
    async def __call__(self, job: Job) -> AsyncIterator[None]:
        self.steps.append("in")
        try:
            yield
        finally:
            self.steps.append("out")
            self.left.set()


@pytest.fixture
def go() -> Iterator[threading.Event]:
    """What threads wait for; set at the end, whatever happens."""
    event = threading.Event()
    yield event
    event.set()


def blocking(gate: Gate, go: threading.Event) -> tuple[Callable[..., None], threading.Event]:
    begun = threading.Event()

    def work(ctx: JobContext, params: Any) -> None:
        begun.set()
        go.wait(30)
        gate.steps.append("worked")

    return work, begun


def _waiting(begun: threading.Event, go: threading.Event) -> None:
    begun.set()
    go.wait(30)


async def until(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 30)


async def test_guard_is_kept_by_a_thread_whose_lease_is_lost(go: threading.Event) -> None:
    """A8: until the handler has ended, however late that is."""
    scene, gate = Scene(), Gate()
    work, begun = blocking(gate, go)
    scene.jobs.event("work", lease=0.3)(work)
    key = scene.side.add()
    async with scene.pool(guard=gate):
        await until(begun)
        scene.side.take_away(key)
        await scene.record.until("lease_lost")
        before = list(gate.steps)
        go.set()
        await gate.left.wait()
    assert before == ["in"]
    assert gate.steps == ["in", "worked", "out"]


async def test_guard_is_kept_by_a_thread_that_outlives_its_pool(go: threading.Event) -> None:
    scene, gate = Scene(), Gate()
    work, begun = blocking(gate, go)
    scene.jobs.event("work")(work)
    scene.side.add()
    async with scene.pool(guard=gate, drain_timeout=0):
        await until(begun)
    assert endings(scene.record) == ["unsettled"]
    assert gate.steps == ["in"]
    go.set()
    await gate.left.wait()
    assert gate.steps == ["in", "worked", "out"]


async def test_guard_is_left_by_the_pool_where_the_thread_has_ended(go: threading.Event) -> None:
    scene, gate = Scene(), Gate()
    work, _ = blocking(gate, go)
    go.set()
    scene.jobs.event("work")(work)
    scene.side.add()
    async with scene.pool(guard=gate):
        await scene.record.until("acked")
        assert gate.steps == ["in", "worked", "out"]


async def test_thread_that_begins_after_its_guard_was_left_does_nothing() -> None:
    calls: list[int] = []
    async with guarded(Gate(), None) as stay:  # type: ignore[arg-type]
        assert stay is not None
        call = stay.around(lambda: calls.append(1))
    with pytest.raises(FairlaneError, match="guard has been left"):
        call()
    assert calls == []


async def test_later_one_of_loop_and_thread_leaves_the_guard_once() -> None:
    left: list[str] = []

    async def leave() -> None:
        left.append("left")

    early, late = Stay(), Stay()
    await asyncio.to_thread(early.around(lambda: None))
    assert left == []
    await early.end(leave)
    assert left == ["left"]

    begun, go = threading.Event(), threading.Event()
    thread = asyncio.create_task(asyncio.to_thread(late.around(partial(_waiting, begun, go))))
    await until(begun)
    await late.end(leave)
    assert left == ["left"]
    go.set()
    await thread
    assert left == ["left"] * 2


def test_guard_that_nobody_can_leave_any_more_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Its thread ends after the event loop."""
    begun, go = threading.Event(), threading.Event()

    async def abandoned() -> threading.Thread:
        stay = Stay()
        thread = threading.Thread(target=stay.around(partial(_waiting, begun, go)), daemon=True)
        thread.start()
        await until(begun)
        await stay.end(lambda: anyio.lowlevel.checkpoint())
        return thread

    thread = asyncio.run(abandoned())
    go.set()
    thread.join(30)
    assert "its event loop has ended" in caplog.text
