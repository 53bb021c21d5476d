"""A write that has begun is finished, and a cancellation is never swallowed."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from fairlane.shield import finish

pytestmark = pytest.mark.filterwarnings("error")


class Write:
    """A piece of work that tests hold up and let go."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.release = asyncio.Event()
        self.finished = asyncio.Event()
        self.done = False
        self.was_cancelled = False
        self.undone: list[str] = []

    async def run(self) -> str:
        self.started.set()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        self.done = True
        self.finished.set()
        return "result"

    async def undo(self, result: str) -> None:
        self.undone.append(result)


@pytest.fixture
async def write() -> Write:
    return Write()


async def until_blocked() -> None:
    """Let every task run as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def cancelled(task: asyncio.Task[Any]) -> bool:
    """Return whether the task ended by a cancellation."""
    await asyncio.wait((task,))
    return task.cancelled()


async def test_result_is_returned(write: Write) -> None:
    write.release.set()
    assert await finish(write.run(), undo=write.undo) == "result"
    assert write.undone == []


async def test_error_passes_through(write: Write) -> None:
    async def broken() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await finish(broken(), undo=write.undo)
    assert write.undone == []


async def test_work_is_finished_after_a_cancellation(write: Write) -> None:
    task = asyncio.create_task(finish(write.run()))
    await write.started.wait()
    task.cancel()
    await until_blocked()
    assert not task.done()
    write.release.set()
    assert await cancelled(task)
    assert write.done


async def test_work_of_a_caller_cancelled_before_its_first_step_is_finished(write: Write) -> None:
    task = asyncio.create_task(finish(write.run(), undo=write.undo))
    await asyncio.sleep(0)
    task.cancel()
    write.release.set()
    assert await cancelled(task)
    assert write.undone == ["result"]


async def test_result_that_a_cancelled_caller_does_not_see_is_undone(write: Write) -> None:
    task = asyncio.create_task(finish(write.run(), undo=write.undo))
    await write.started.wait()
    task.cancel()
    write.release.set()
    assert await cancelled(task)
    assert write.undone == ["result"]


async def test_result_is_undone_if_the_cancellation_comes_just_before_it_is_returned(
    write: Write,
) -> None:
    write.release.set()
    task = asyncio.create_task(finish(write.run(), undo=write.undo))
    await write.finished.wait()
    task.cancel()
    assert await cancelled(task)
    assert write.undone == ["result"]


async def test_further_cancellations_do_not_interrupt_the_work(write: Write) -> None:
    task = asyncio.create_task(finish(write.run(), undo=write.undo))
    await write.started.wait()
    for _ in range(5):
        task.cancel()
        await until_blocked()
    assert not task.done()
    write.release.set()
    assert await cancelled(task)
    assert write.undone == ["result"]


async def test_cancellation_during_the_undo_does_not_interrupt_it(write: Write) -> None:
    undoing, release, undone = asyncio.Event(), asyncio.Event(), []

    async def undo(result: str) -> None:
        undoing.set()
        await release.wait()
        undone.append(result)

    write.release.set()
    task = asyncio.create_task(finish(write.run(), undo=undo))
    await asyncio.sleep(0)
    task.cancel()
    await undoing.wait()
    task.cancel()
    await until_blocked()
    release.set()
    assert await cancelled(task)
    assert undone == ["result"]


async def test_work_that_takes_longer_than_the_deadline_is_cancelled(
    write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    task = asyncio.create_task(finish(write.run(), undo=write.undo, deadline=0.02))
    await write.started.wait()
    task.cancel()
    with caplog.at_level(logging.DEBUG):
        assert await cancelled(task)
    assert write.was_cancelled
    assert write.undone == []
    assert "could not be finished within 0.02 s" in caplog.text


async def test_work_that_ignores_its_cancellation_does_not_hold_the_caller_for_ever() -> None:
    """Its one second of grace is the only time that this room spends."""
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    task = asyncio.create_task(finish(stubborn(), deadline=0.01))
    await asyncio.sleep(0)
    task.cancel()
    assert await cancelled(task)
    release.set()
    await until_blocked()


async def test_uncancelled_work_may_take_longer_than_the_deadline(write: Write) -> None:
    task = asyncio.create_task(finish(write.run(), deadline=0.0))
    await until_blocked()
    write.release.set()
    assert await task == "result"


@pytest.mark.parametrize("part", ["work", "undo"])
async def test_error_after_the_cancellation_is_logged(
    caplog: pytest.LogCaptureFixture, part: str
) -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        if part == "work":
            raise ZeroDivisionError
        return "result"

    async def undo(result: str) -> None:
        raise ZeroDivisionError

    task = asyncio.create_task(finish(work(), undo=undo))
    await asyncio.sleep(0)
    task.cancel()
    with caplog.at_level(logging.WARNING):
        assert await cancelled(task)
    assert "ZeroDivisionError" in caplog.text


async def test_asyncio_timeout_around_it_waits_for_the_work(write: Write) -> None:
    asyncio.get_running_loop().call_later(0.03, write.release.set)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await finish(write.run(), undo=write.undo)
    assert write.undone == ["result"]


async def test_asyncio_timeout_around_a_caller_that_is_cancelled_as_well_is_a_cancellation(
    write: Write,
) -> None:
    async def caller() -> None:
        async with asyncio.timeout(0.01):
            await finish(write.run(), undo=write.undo)

    task = asyncio.create_task(caller())
    await write.started.wait()
    await asyncio.sleep(0.02)
    task.cancel()
    write.release.set()
    assert await cancelled(task)
    assert write.undone == ["result"]


async def test_wait_for_around_it_waits_for_the_work(write: Write) -> None:
    asyncio.get_running_loop().call_later(0.03, write.release.set)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(finish(write.run(), undo=write.undo), 0.01)
    assert write.undone == ["result"]


async def test_anyio_timeout_around_it_waits_for_the_work(write: Write) -> None:
    asyncio.get_running_loop().call_later(0.03, write.release.set)
    with anyio.move_on_after(0.01) as scope:
        await finish(write.run(), undo=write.undo)
    assert scope.cancelled_caught
    assert write.undone == ["result"]


async def test_cancelled_anyio_scope_around_it_is_left_after_the_work(write: Write) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(finish_in_group, write.run, write.undo)
        await write.started.wait()
        group.cancel_scope.cancel()
        asyncio.get_running_loop().call_soon(write.release.set)
    assert write.undone == ["result"]


async def finish_in_group(
    run: Callable[[], Coroutine[Any, Any, str]], undo: Callable[[str], Any]
) -> None:
    await finish(run(), undo=undo)


async def test_task_group_whose_other_task_fails_waits_for_the_work(write: Write) -> None:
    async def fail() -> None:
        await write.started.wait()
        asyncio.get_running_loop().call_soon(write.release.set)
        raise ZeroDivisionError

    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(finish(write.run(), undo=write.undo))
            group.create_task(fail())
    assert write.undone == ["result"]


async def test_caller_goes_on_normally_after_a_timeout_was_caught(write: Write) -> None:
    """Nothing of the cancellation is left in the task."""
    write.release.set()
    with anyio.move_on_after(0):
        await finish(write.run())
    await asyncio.sleep(0)
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0
    assert await finish(released().run()) == "result"


def released() -> Write:
    write = Write()
    write.release.set()
    return write
