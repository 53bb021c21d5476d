"""A worker process is stopped past its lease and goes on when another one has the message."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Lease
from integration.wire.stopped import VISIBILITY

Transport = AsyncMongoTransport[Any]
Process = asyncio.subprocess.Process

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs SIGSTOP")

LONG = 40.0
REFUSED = dict.fromkeys(("ack", "nack", "release", "dead_letter", "extend"), False)


@pytest.fixture(params=["motor", "pymongo"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def transport(make_transport: Callable[..., Transport]) -> Transport:
    """The other worker, in the server's time."""
    return make_transport(clock=None)


class Worker:
    """The process that is stopped."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def said(self) -> dict[str, Any]:
        """Return the next thing that it says."""
        assert self._process.stdout is not None
        async with asyncio.timeout(LONG):
            line = await self._process.stdout.readline()
        words: dict[str, Any] = json.loads(line)
        return words

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it run again, and do what it does late."""
        self._process.send_signal(signal.SIGCONT)
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")


@asynccontextmanager
async def worker(*arguments: str) -> AsyncIterator[Worker]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "integration.wire.stopped", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        yield Worker(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def taken_over(transport: Transport) -> Lease[Any]:
    """Claim as soon as the lease of the stopped worker has run out."""
    async with asyncio.timeout(LONG):
        while True:
            lease = await transport.claim("other", 60.0)
            if lease is not None:
                return lease
            await asyncio.sleep(VISIBILITY / 8)


Stopped = Callable[[str], Any]


@pytest.fixture
def stopped(transport: Transport, fairlane_url: str, db_name: str, driver: str) -> Stopped:
    """Let a worker hold the only message, stop it, and take the message over."""

    @asynccontextmanager
    async def run(kind: str) -> AsyncIterator[tuple[Worker, Lease[Any]]]:
        await transport.publish("g", "event")
        async with worker(fairlane_url, db_name, driver, kind) as late:
            epoch = (await late.said())["holds"]
            late.stop()
            lease = await taken_over(transport)
            assert (lease.attempt, lease.epoch > epoch) == (2, True)
            yield late, lease

    return run


async def test_late_worker_is_refused_everything_while_another_one_holds_the_message(
    stopped: Stopped, transport: Transport
) -> None:
    async with stopped("transport") as (late, lease):
        late.go_on()
        assert await late.said() == REFUSED
        assert await transport.ack(lease)


async def test_late_worker_is_refused_everything_after_another_one_settled_the_message(
    stopped: Stopped, transport: Transport
) -> None:
    async with stopped("transport") as (late, lease):
        await transport.ack(lease)
        late.go_on()
        assert await late.said() == REFUSED
        assert (await transport.stats()).groups == 0


@pytest.mark.parametrize("kind", ["coroutine", "thread"])
async def test_pool_that_was_stopped_loses_the_lease_and_settles_nothing(
    stopped: Stopped, transport: Transport, kind: str
) -> None:
    async with stopped(kind) as (late, lease):
        late.go_on()
        assert await late.said() == {"end": "lease_lost"}
        assert await transport.ack(lease)
