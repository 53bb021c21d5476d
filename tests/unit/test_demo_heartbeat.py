"""`fairlane demo` notices a server that has gone, says so, and gives up."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from pymongo.errors import AutoReconnect, OperationFailure

from fairlane.cli.demo import heartbeat
from fairlane.cli.demo.heartbeat import Heartbeat
from fairlane.errors import ServerUnreachable


class Clock:
    """Each look is a second later."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1
        return self.now


@pytest.fixture(autouse=True)
def seconds_pass_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "INTERVAL", 0)
    monkeypatch.setattr(heartbeat, "time", Clock())


def answers(*script: Exception | None, then: Exception) -> Callable[[], Awaitable[None]]:
    steps = list(script)

    async def ask() -> None:
        error = steps.pop(0) if steps else then
        if error is not None:
            raise error

    return ask


async def watch(ask: Callable[[], Awaitable[None]]) -> list[str]:
    """Return what was said until the server was given up."""
    notes: list[str] = []
    with pytest.raises(ExceptionGroup) as caught:
        async with Heartbeat(ask, notes.append).watching():
            await asyncio.Event().wait()
    (error,) = caught.value.exceptions
    assert isinstance(error, ServerUnreachable)
    return [*notes, str(error)]


async def test_silence_is_told_now_and_then_and_ends_the_run() -> None:
    assert await watch(answers(then=AutoReconnect())) == [
        "no answer from the server for 5 s",
        "no answer from the server for 10 s",
        "gave up: no answer from the server for 15 s",
    ]


@pytest.mark.parametrize("answer", [None, OperationFailure("not allowed")])
async def test_an_answer_ends_the_silence(answer: Exception | None) -> None:
    gone = AutoReconnect()
    notes = await watch(answers(*[gone] * 12, answer, then=gone))
    assert notes == [
        "no answer from the server for 5 s",
        "no answer from the server for 10 s",
        "no answer from the server for 5 s",
        "no answer from the server for 10 s",
        "gave up: no answer from the server for 15 s",
    ]


async def test_the_watch_ends_with_the_block() -> None:
    async with Heartbeat(answers(then=AutoReconnect()), print).watching():
        pass
