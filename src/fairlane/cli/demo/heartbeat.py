"""Whether the server still answers while a run goes on."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from pymongo.errors import OperationFailure, PyMongoError

from fairlane.errors import ServerUnreachable

__all__ = ("Heartbeat",)

INTERVAL = 1.0
NOTE_EVERY = 5.0
GIVE_UP_AFTER = 15.0


class Heartbeat:
    """Asks the server again and again, says when it is silent, and gives up in the end."""

    def __init__(self, ask: Callable[[], Awaitable[object]], note: Callable[[str], None]) -> None:
        self._ask = ask
        self._note = note
        self._answered_at = time.monotonic()
        self._noted = 0.0

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """End the block with `ServerUnreachable` (in a group) once the server has gone."""
        async with asyncio.TaskGroup() as tasks:
            watch = tasks.create_task(self._watch())
            yield
            watch.cancel()

    async def _watch(self) -> None:
        while True:
            if await self._answers():
                self._answered_at, self._noted = time.monotonic(), 0.0
            else:
                self._complain(time.monotonic() - self._answered_at)
            await asyncio.sleep(INTERVAL)

    async def _answers(self) -> bool:
        try:
            await self._ask()
        except OperationFailure:  # a refusal is an answer
            return True
        except PyMongoError:
            return False
        return True

    def _complain(self, silence: float) -> None:
        if silence >= GIVE_UP_AFTER:
            raise ServerUnreachable(f"gave up: no answer from the server for {silence:.0f} s")
        if silence >= self._noted + NOTE_EVERY:
            self._noted = silence
            self._note(f"no answer from the server for {silence:.0f} s")
