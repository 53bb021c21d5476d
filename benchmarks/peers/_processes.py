"""The processes of one library: started, begun together, and all gone at the end."""

import asyncio
import os
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from benchmarks.peers._records import Orders, Share

__all__ = ("Ran", "SubjectFailed", "ran")

ROOT = Path(__file__).parents[2]
START_TIMEOUT = 60.0
GRACE = 30.0
"""Seconds beyond its orders after which a process is taken for hung."""
LINE = 256 * 2**20
LAST_WORDS = 600


class SubjectFailed(Exception):
    """A library's process ended or hung; the text ends with what it said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What the processes did, and the seconds that `meter` went on meanwhile, if it is known."""

    shares: tuple[Share, ...]
    metered: float | None = None


@dataclass(frozen=True, slots=True)
class Running:
    process: Process
    said: IO[bytes]

    async def line(self, timeout: float) -> bytes:
        """Return its next line; raises `SubjectFailed` if none comes."""
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(timeout):
                line = await self.process.stdout.readline()
                if not line:
                    await self.process.wait()
        except TimeoutError:
            raise SubjectFailed(f"no answer within {timeout:g} s: {self._last_words()}") from None
        if not line:
            status = self.process.returncode
            raise SubjectFailed(f"ended with status {status}: {self._last_words()}")
        return line

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")

    def _last_words(self) -> str:
        self.said.seek(0)
        text = self.said.read().decode(errors="replace").strip()
        return text[-LAST_WORDS:] or "(it said nothing)"


async def ran(
    python: str, program: str, orders: Sequence[Orders], meter: Callable[[], float | None]
) -> Ran:
    """Run a process for each of the orders, all at once.

    `meter` is read when they are told to begin, and when the last one is done.
    """
    async with AsyncExitStack() as stack:
        running = [
            await stack.enter_async_context(_running(python, program, each)) for each in orders
        ]
        for each in running:
            await each.line(START_TIMEOUT)
        before = meter()
        for each in running:
            each.write("go")
        lines = [await each.line(orders[0].seconds + GRACE) for each in running]
        after = meter()
    metered = None if before is None or after is None else after - before
    try:
        shares = tuple(Share.from_json(line) for line in lines)
    except ValueError as error:  # one library's answer must not end the run of all
        raise SubjectFailed(f"its answer cannot be read: {error}") from error
    return Ran(shares=shares, metered=metered)


@asynccontextmanager
async def _running(python: str, program: str, orders: Orders) -> AsyncIterator[Running]:
    with tempfile.TemporaryFile() as said:
        process = await asyncio.create_subprocess_exec(
            *(python, "-m", f"benchmarks.peers.subjects.{program}"),
            cwd=ROOT,
            env=_environment(python),
            stdin=PIPE,
            stdout=PIPE,
            stderr=said,
            limit=LINE,
            start_new_session=True,  # Ctrl-C is for the parent, which then ends us
        )
        running = Running(process, said)
        try:
            running.write(orders.to_json())
            yield running
        finally:
            if process.returncode is None:
                process.kill()
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()


def _environment(python: str) -> dict[str, str] | None:
    """Return an environment in which a library's interpreter sees nothing of the project's."""
    if python == sys.executable:
        return None
    return {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
