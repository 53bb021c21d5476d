"""What a supervisor hears of a process, and tells it."""

import asyncio
import json
from typing import Any

import pytest

from fairlane.cli.worker import child as module
from fairlane.cli.worker.child import Child
from fairlane.cli.worker.stopping import Step

OK = {"state": "ok", "running": 1, "leased": 1, "last_poll_age": 0.1, "worker_id": "w", "pid": 7}


class FakeProcess:
    """Ends with status 5 once all that it has said was heard."""

    pid = 7

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def wait(self) -> int:
        while not self._reader.at_eof():  # noqa: ASYNC110  it tells nobody
            await asyncio.sleep(0)
        return 5


class FakeWriter:
    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        """End the wire."""


@pytest.fixture
async def reader() -> asyncio.StreamReader:
    return asyncio.StreamReader()


@pytest.fixture
def writer() -> FakeWriter:
    return FakeWriter()


@pytest.fixture
def child(reader: asyncio.StreamReader, writer: FakeWriter) -> Child:
    process: Any = FakeProcess(reader)
    out: Any = writer
    return Child(process, reader, out)


def say(reader: asyncio.StreamReader, *lines: object) -> None:
    for line in lines:
        reader.feed_data(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
    reader.feed_eof()


async def test_a_process_that_has_said_nothing_is_starting(child: Child) -> None:
    assert child.health().items() >= {"state": "starting", "pid": 7}.items()


async def test_health_is_what_the_process_has_said_last(
    child: Child, reader: asyncio.StreamReader
) -> None:
    say(reader, {**OK, "state": "starting"}, OK)
    life = await child.live()
    assert (child.health(), life.status) == (OK, 5)


@pytest.mark.parametrize(("age", "has_worked"), [(None, False), (0.1, True)])
async def test_a_process_has_worked_once_its_pool_had_an_answer(
    child: Child, reader: asyncio.StreamReader, age: float | None, has_worked: bool
) -> None:
    say(reader, {**OK, "last_poll_age": age}, {**OK, "last_poll_age": None})
    assert (await child.live()).has_worked is has_worked


async def test_a_line_that_is_cut_off_is_left_out(
    child: Child, reader: asyncio.StreamReader
) -> None:
    say(reader, OK, b'{"sta\n', b'{"state": "s')
    await child.live()
    assert child.health() == OK


async def test_a_process_that_says_nothing_for_long_is_silent(
    child: Child, reader: asyncio.StreamReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(reader, OK)
    await child.live()
    monkeypatch.setattr(module, "SILENT_AFTER", -1.0)
    assert child.health() == {**OK, "state": "silent"}


async def test_orders_are_lines(child: Child, writer: FakeWriter) -> None:
    child.order(Step.DRAIN)
    child.order(Step.CANCEL)
    assert writer.written == b"drain\ncancel\n"
