"""A worker process as its supervisor sees it."""

import asyncio
import json
import socket
import sys
import time
from contextlib import suppress

from fairlane.cli.worker.health import OF_NO_POOL, Document
from fairlane.cli.worker.plan import Plan
from fairlane.cli.worker.restarts import Life
from fairlane.cli.worker.stopping import Step
from fairlane.cli.worker.telling import beside
from fairlane.cli.worker.wire import ORDERS

__all__ = ("Child", "spawned")

SILENT_AFTER = 10.0


class Child:
    """A process that has been started, and the wire to it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.pid: int = process.pid
        self._process = process
        self._reader = reader
        self._writer = writer
        self._began = self._heard = time.monotonic()
        self._has_worked = False
        self._said: Document = {**OF_NO_POOL, "last_poll_age": None, "worker_id": None}

    async def live(self) -> Life:
        """Listen until the process has ended."""
        async with beside(self._listen()):
            status = await self._process.wait()
        self._writer.close()
        seconds = time.monotonic() - self._began
        return Life(status=status, seconds=seconds, has_worked=self._has_worked)

    def order(self, step: Step) -> None:
        """Tell it to drain, or to cancel its handlers. Twice is as once."""
        with suppress(OSError):
            self._writer.write(ORDERS[step] + b"\n")

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()

    def health(self) -> Document:
        """Return what it said last; `silent` if that was long ago, as with a loop that hangs."""
        said = {**self._said, "pid": self.pid}
        return {**said, "state": "silent"} if self._silence > SILENT_AFTER else said

    @property
    def _silence(self) -> float:
        return time.monotonic() - self._heard

    async def _listen(self) -> None:
        with suppress(OSError):
            async for line in self._reader:
                with suppress(ValueError):  # cut off
                    self._said = json.loads(line)
                self._heard = time.monotonic()
                self._has_worked |= self._said["last_poll_age"] is not None


async def spawned(plan: Plan) -> Child:
    """Start a process of its own session: what a terminal sends is for the supervisor."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "fairlane.cli.worker._child"),
                *(str(theirs.fileno()), plan.target),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
    reader, writer = await asyncio.open_connection(sock=ours)
    writer.write(plan.to_json().encode() + b"\n")
    return Child(process, reader, writer)
