"""Calls made at the same time share a flush."""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from fairlane import flushing, shield
from fairlane.flushing import Flushes

WHO: ContextVar[str] = ContextVar("who")


class Line:
    """Flushes that are let through one by one; each item comes back negated."""

    def __init__(self, **options: int) -> None:
        self.flushed: list[list[int]] = []
        self.gates: list[asyncio.Future[None]] = []
        self.is_flushing = [asyncio.Event(), asyncio.Event(), asyncio.Event()]
        self.flushes: Flushes[int, int] = Flushes(self._flush, **{"most": 10, **options}, weigh=abs)

    async def _flush(self, items: Sequence[int]) -> list[int | Exception]:
        self.flushed.append(list(items))
        gate = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        self.is_flushing[len(self.gates) - 1].set()
        await gate
        return [LookupError(item) if item == 13 else -item for item in items]

    def call(self, *items: int) -> list[asyncio.Task[int]]:
        return [asyncio.create_task(self.flushes.call(item)) for item in items]


@pytest.fixture
def line() -> Line:
    return Line()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_lone_call_is_flushed_at_once(line: Line) -> None:
    (call,) = line.call(1)
    await settled()
    line.gates[0].set_result(None)
    assert await call == -1


async def test_calls_of_one_moment_share_a_flush(line: Line) -> None:
    line.call(1, 2, 3)
    await settled()
    assert line.flushed == [[1, 2, 3]]
    line.gates[0].set_result(None)
    await line.flushes.drain()


async def test_calls_made_during_a_flush_go_together_in_the_next_one(line: Line) -> None:
    line.call(1)
    await settled()
    calls = line.call(2, 3)
    await settled()
    assert line.flushed == [[1]]
    line.gates[0].set_result(None)
    await settled()
    assert line.flushed == [[1], [2, 3]]
    line.gates[1].set_result(None)
    assert await asyncio.gather(*calls) == [-2, -3]


async def test_each_caller_gets_its_own_result_or_error(line: Line) -> None:
    calls = line.call(1, 13, 3)
    await settled()
    line.gates[0].set_result(None)
    one, bad, three = await asyncio.gather(*calls, return_exceptions=True)
    assert (one, three) == (-1, -3)
    assert isinstance(bad, LookupError)


async def test_error_of_a_flush_is_that_of_each_caller_and_the_next_one_goes_on(line: Line) -> None:
    calls = line.call(1, 2)
    await settled()
    later = line.call(3)
    await settled()
    line.gates[0].set_exception(OSError("away"))
    await settled()
    line.gates[1].set_result(None)
    told = await asyncio.gather(*calls, *later, return_exceptions=True)
    assert [type(each) for each in told] == [OSError, OSError, int]


@pytest.mark.parametrize("bound", ["most", "heaviest"])
async def test_flush_is_bounded_by_count_and_by_weight(bound: str) -> None:
    line = Line(**{bound: {"most": 2, "heaviest": 5}[bound]})
    line.call(1, 2, 3)
    await settled()
    line.gates[0].set_result(None)
    await settled()
    line.gates[1].set_result(None)
    await line.flushes.drain()
    assert line.flushed == [[1, 2], [3]]


async def test_item_that_is_too_heavy_goes_alone() -> None:
    line = Line(heaviest=5)
    line.call(9, 1)
    await settled()
    line.gates[0].set_result(None)
    await settled()
    line.gates[1].set_result(None)
    await line.flushes.drain()
    assert line.flushed == [[9], [1]]


async def test_call_that_is_cancelled_before_its_flush_is_left_out(line: Line) -> None:
    line.call(1)
    await settled()
    second, third = line.call(2, 3)
    await settled()
    second.cancel()
    await settled()
    assert second.cancelled()
    line.gates[0].set_result(None)
    await settled()
    line.gates[1].set_result(None)
    assert await third == -3
    assert line.flushed == [[1], [3]]


@pytest.mark.parametrize("ticks", range(5))
async def test_only_call_that_waits_may_be_cancelled_at_any_moment(line: Line, ticks: int) -> None:
    line.call(1)
    await settled()
    (call,) = line.call(2)
    await settled()
    line.gates[0].set_result(None)
    for _ in range(ticks):
        await asyncio.sleep(0)
    call.cancel()
    await settled()
    for gate in line.gates[1:]:
        gate.set_result(None)
    await line.flushes.drain()
    await settled()
    assert call.cancelled()


async def test_call_that_is_cancelled_in_its_flush_waits_for_its_end(line: Line) -> None:
    first, second = line.call(1, 2)
    await settled()
    first.cancel()
    await settled()
    assert not first.done()
    line.gates[0].set_result(None)
    assert await second == -2
    await settled()
    assert first.cancelled()


async def test_cancelled_call_does_not_wait_for_ever(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushing, "DEADLINE", 0.01)
    first, second = line.call(1, 2)
    await settled()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    assert not second.done(), "its caller was not cancelled"
    line.gates[0].set_result(None)
    assert await second == -2


async def test_flush_without_an_answer_does_not_hold_up_the_next_one(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushing, "PATIENCE", 0.01)
    (stuck,) = line.call(1)
    await settled()
    (call,) = line.call(2)
    await line.is_flushing[1].wait()
    line.gates[1].set_result(None)
    assert await call == -2
    assert not stuck.done()
    line.gates[0].set_result(None)
    await line.flushes.drain()


async def test_what_one_caller_has_set_is_not_for_those_who_share_its_flush() -> None:
    seen: list[str] = []

    async def flush(items: Sequence[int]) -> Sequence[int]:
        seen.append(WHO.get("nobody"))
        return items

    flushes: Flushes[int, int] = Flushes(flush, most=10)
    WHO.set("me")
    assert await flushes.call(1) == 1
    assert seen == ["nobody"]


async def test_call_that_an_anyio_scope_cancels_waits_without_being_cancelled_again(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = 0

    async def wait(*arguments: Any, **options: Any) -> Any:
        nonlocal waits
        waits += 1
        return await asyncio.wait(*arguments, **options)

    monkeypatch.setattr(shield, "asyncio", SimpleNamespace(**{**vars(asyncio), "wait": wait}))
    asyncio.get_running_loop().call_later(0.05, lambda: line.gates[0].set_result(None))
    with anyio.move_on_after(0.01):
        await line.flushes.call(1)
    assert waits == 1


async def test_drain_gives_up_where_nobody_answers(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flushing, "DRAIN_SECONDS", 0.01)
    (call,) = line.call(1)
    await settled()
    await line.flushes.drain()
    assert not call.done()
    line.gates[0].set_result(None)
    assert await call == -1


async def test_drain_waits_for_all_that_was_called_for(line: Line) -> None:
    calls = line.call(1)
    await settled()
    calls += line.call(2)
    await settled()
    drained = asyncio.create_task(line.flushes.drain())
    line.gates[0].set_result(None)
    await settled()
    assert not drained.done()
    line.gates[1].set_result(None)
    await drained
    assert [call.result() for call in calls] == [-1, -2]


def test_end_of_the_loop_ends_all_calls() -> None:
    async def leave(told: list[asyncio.Task[int]]) -> None:
        line = Line()
        told += line.call(1)
        await settled()
        told += line.call(2)
        await settled()

    told: list[asyncio.Task[int]] = []
    asyncio.run(leave(told))
    assert all(call.cancelled() for call in told)
