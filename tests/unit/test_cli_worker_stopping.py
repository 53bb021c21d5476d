"""The end of a worker in three steps, whoever asks for them."""

import asyncio
import logging
import os
import queue
import signal
import threading
from collections.abc import Iterator

import pytest

from fairlane.cli.worker import stopping
from fairlane.cli.worker.stopping import Step, Steps

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Told:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.left: list[int] = []
        self.end = Steps(self.steps.append, leave=self.left.append)


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def test_each_signal_is_a_step_and_the_third_leaves_with_its_status() -> None:
    told = Told()
    with told.end.following_signals():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGINT):
            signal.raise_signal(number)
            await asyncio.sleep(0)
    assert (told.steps, told.left) == ([Step.DRAIN, Step.CANCEL], [130])


async def test_the_third_signal_leaves_though_the_loop_does_not_turn() -> None:
    told = Told()
    with told.end.following_signals():
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
        assert told.left == [143]


@pytest.mark.parametrize("is_signal_first", [True, False])
async def test_a_signal_that_a_supervisor_passes_on_to_who_had_it_too_is_one_step(
    is_signal_first: bool,
) -> None:
    told = Told()
    with told.end.following_signals():
        if not is_signal_first:
            told.end.reach(Step.DRAIN)
        signal.raise_signal(signal.SIGTERM)
        told.end.reach(Step.DRAIN)
        await asyncio.sleep(0)
    assert (told.steps, told.end.step) == ([Step.DRAIN], Step.DRAIN)


async def test_handlers_of_the_host_are_put_back_where_no_signal_came() -> None:
    def host(*_: object) -> None:
        raise AssertionError

    signal.signal(signal.SIGTERM, host)
    with Told().end.following_signals():
        pass
    assert signal.getsignal(signal.SIGTERM) is host


async def test_after_a_signal_a_late_one_does_not_change_how_the_process_ends() -> None:
    told = Told()
    with told.end.following_signals():
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGTERM)
    assert told.end.step is Step.CANCEL


async def test_time_runs_from_the_first_signal_and_leaves_with_its_status() -> None:
    left: asyncio.Queue[int] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def leave(status: int) -> None:
        loop.call_soon_threadsafe(left.put_nowait, status)

    with Steps(lambda _: None, leave=leave, kill_after=0.01).following_signals():
        signal.raise_signal(signal.SIGINT)
        assert await left.get() == 130


def test_leaving_ends_the_process_with_the_status_though_the_log_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended: list[int] = []
    words: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def end(status: int) -> None:
        ended.append(status)
        hang.set()

    monkeypatch.setattr(os, "_exit", end)
    monkeypatch.setattr(stopping, "LAST_WORDS", 0.01)
    hang = threading.Event()
    log = logging.getLogger(stopping.__name__)
    monkeypatch.setattr(log, "error", lambda *_: words.put(hang.wait(5)))
    stopping.leave_at_once(143)
    assert (ended, words.get()) == ([143], True)
