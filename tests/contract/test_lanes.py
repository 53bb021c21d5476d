"""Slots that are reserved for urgent groups, on a server."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Lease, WorkerPool

Transport = AsyncMongoTransport[Any]

URGENT = 3


@pytest.fixture
def way() -> dict[str, Any]:
    """In the server's time: pools wait in real time."""
    return {"clock": None, "partitions": 4}


class Hall:
    """Where handlers work until they are let go."""

    def __init__(self) -> None:
        self.inside: list[int] = []
        self._changed = asyncio.Condition()
        self._is_open = asyncio.Event()

    async def handle(self, lease: Lease[Any]) -> None:
        await self._change(lambda: self.inside.append(lease.priority))
        await self._is_open.wait()
        await self._change(lambda: self.inside.remove(lease.priority))

    def open(self) -> None:
        self._is_open.set()

    async def until_inside(self, handlers: int) -> None:
        async with asyncio.timeout(10), self._changed:
            await self._changed.wait_for(lambda: len(self.inside) == handlers)

    async def _change(self, change: Callable[[], None]) -> None:
        async with self._changed:
            change()
            self._changed.notify_all()


async def test_urgent_groups_start_though_others_have_all_other_slots(
    make_transport: Callable[..., Transport],
) -> None:
    transport, hall = make_transport(), Hall()
    await transport.publish_many([(f"g{number}", number) for number in range(8)])
    pool = WorkerPool(transport, hall.handle, lanes={URGENT: 2, 0: 3}, poll_interval=60)

    async with pool:
        await hall.until_inside(3)
        await transport.publish_many([(f"u{number}", number, URGENT) for number in range(4)])
        await hall.until_inside(5)
        at_work = sorted(hall.inside)
        hall.open()

    assert at_work == [0, 0, 0, URGENT, URGENT]
