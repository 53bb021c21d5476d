"""Worker pools on the real transport over the store in memory, in virtual time.

Every driver call lets the other tasks take some steps before it happens and before its reply is
read, so that whatever strikes at a step of the event loop strikes there as well.
"""

import asyncio
from typing import Any

from fairlane import AsyncMongoTransport, WorkerPool
from property.memory import MemoryDatabase
from property.wire import Call, Conduct, Step, Wire
from property.world import documents
from unit.worker_fakes import Record, in_virtual_time, now, ticks

__all__ = ("Pools", "Record", "in_virtual_time", "now", "stepwise", "ticks")

Transport = AsyncMongoTransport[Any]

STEPS = 3
LONG = 1_000.0
"""Seconds, of virtual time."""


async def stepwise(_: Step, call: Call) -> Any:
    await ticks(STEPS)
    try:
        return await call()
    finally:
        await ticks(STEPS)


class Pools:
    """Machines with a transport of their own each, on one database."""

    def __init__(self) -> None:
        self.record = Record()
        self.stray: list[dict[str, Any]] = []
        self._database = MemoryDatabase()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self.stray.append(context))

    async def transport(self, conduct: Conduct = stepwise, **options: Any) -> Transport:
        transport = self._database.transport(**{"clock": now, **options})
        await transport._store.ready()
        transport._store.driver.has_cross_collection_bulk = True
        transport._store.driver.has_union = True
        Wire(transport, conduct)
        return transport

    async def pool(
        self, handler: Any, conduct: Conduct = stepwise, **options: Any
    ) -> WorkerPool[Any]:
        transport = await self.transport(conduct)
        return WorkerPool(transport, handler, **{"on_event": self.record, **options})

    async def until(self, kind: str, times: int = 1) -> None:
        """Wait for an event of a pool, but not for ever: waiting takes no time here."""
        async with asyncio.timeout(LONG):
            await self.record.until(kind, times)

    async def locks(self) -> list[dict[str, Any]]:
        return await documents(await self.transport(), "locks")
