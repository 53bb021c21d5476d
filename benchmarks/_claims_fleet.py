"""The processes of claimers: started, begun together, and all gone at the end."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from benchmarks._claims_records import Orders, Share

__all__ = ("ClaimerDied", "Fleet", "fleet")

START_TIMEOUT = 60.0
ROOT = Path(__file__).parent.parent


class ClaimerDied(Exception):
    """A process of claimers ended before it had done its share; it said why on standard error."""


class Fleet:
    """Processes that are connected and wait for the sign to begin."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self._processes = processes

    async def claim(self) -> list[Share]:
        """Let all begin together, and return what each of them did.

        Raises `ClaimerDied` as soon as the others have finished.
        """
        for process in self._processes:
            _stdin(process).write(b"go\n")
        said = [await _stdout(process).read() for process in self._processes]
        for process in self._processes:
            if status := await process.wait():
                raise _death(process, status)
        return [Share.from_json(each) for each in said]


@asynccontextmanager
async def fleet(orders: Sequence[Orders]) -> AsyncIterator[Fleet]:
    """Start a process for each, and end those that still run when the block is left."""
    async with AsyncExitStack() as stack:
        processes = [await stack.enter_async_context(_running(each)) for each in orders]
        async with asyncio.timeout(START_TIMEOUT):
            for process in processes:
                await _await_ready(process)
        yield Fleet(processes)


@asynccontextmanager
async def _running(orders: Orders) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks._claims_process"),
        cwd=ROOT,
        stdin=PIPE,
        stdout=PIPE,
        start_new_session=True,  # Ctrl-C is for the parent, which then ends us
    )
    try:
        _stdin(process).write(orders.to_json().encode() + b"\n")
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        _stdin(process).close()
        await process.wait()


async def _await_ready(process: Process) -> None:
    if not await _stdout(process).readline():
        raise _death(process, await process.wait())


def _death(process: Process, status: int) -> ClaimerDied:
    return ClaimerDied(f"the claimers of process {process.pid} ended with status {status}")


def _stdin(process: Process) -> asyncio.StreamWriter:
    assert process.stdin is not None
    return process.stdin


def _stdout(process: Process) -> asyncio.StreamReader:
    assert process.stdout is not None
    return process.stdout
