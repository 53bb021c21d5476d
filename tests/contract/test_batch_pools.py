"""Pools that claim for all their slots at once, on a server: statements 2, 40 and 64."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from contract.batches import Open
from fairlane import AsyncMongoTransport, Lease, WorkerPool
from fairlane.worker import WorkerEvent

Transport = AsyncMongoTransport[Any]

GROUPS = 64
LONG = 30.0


@pytest.fixture(params=[1, 4])
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    """In the server's time: pools wait in real time."""
    return {"clock": None, "partitions": request.param}


class Floor:
    """Where the handlers of all pools work; it notes who is inside which group."""

    def __init__(self, messages: int) -> None:
        self.inside: Counter[str] = Counter()
        self.handled: dict[str, list[Any]] = {}
        self.most_in_a_group = 0
        self._left = messages
        self._is_done = asyncio.Event()

    async def handle(self, lease: Lease[Any]) -> None:
        self.inside[lease.group_id] += 1
        self.most_in_a_group = max(self.most_in_a_group, self.inside[lease.group_id])
        await asyncio.sleep(0)
        for message in lease.messages:
            self.handled.setdefault(lease.group_id, []).append(message.event)
        self.inside[lease.group_id] -= 1

    def note(self, event: WorkerEvent) -> None:
        self._left -= event.messages if event.kind == "acked" else 0
        if not self._left:
            self._is_done.set()

    async def until_done(self) -> None:
        async with asyncio.timeout(LONG):
            await self._is_done.wait()


async def test_pools_serve_each_group_in_order_and_never_twice_at_a_time(open_on: Open) -> None:
    """Statements 2 and 40."""
    transports = [await open_on() for _ in range(3)]
    await transports[0].publish_many([(f"g{n % 20}", n // 20) for n in range(100)])
    floor = Floor(100)
    options: dict[str, Any] = {"poll_interval": 0.05, "on_event": floor.note}
    async with asyncio.TaskGroup() as running:
        pools = [WorkerPool(each, floor.handle, **options) for each in transports]
        for pool in pools:
            running.create_task(pool.run())
        await floor.until_done()
        for pool in pools:
            pool.stop()
    assert floor.most_in_a_group == 1
    assert floor.handled == {f"g{n}": list(range(5)) for n in range(20)}
    stats = await transports[0].stats()
    assert (stats.groups, stats.messages) == (0, 0)


async def test_pool_takes_little_more_than_two_commands_for_each_message(
    open_on: Open, command_log: Any, server: str
) -> None:
    """Statement 64: the two of its ack (4 on an old server, and 2 for its front), and a claim."""
    transport = await open_on()
    await transport.publish_many([(f"g{n}", n) for n in range(GROUPS)])
    floor = Floor(GROUPS)
    pool = WorkerPool(transport, floor.handle, concurrency=GROUPS, on_event=floor.note)
    command_log.take()
    async with pool:
        await floor.until_done()
    assert len(command_log.take()) / GROUPS < (6.5 if server == "old" else 2.5)


async def test_pool_with_batches_takes_a_fraction_of_a_command_for_each_message(
    open_on: Open, command_log: Any, server: str
) -> None:
    """Statement 64: what one message costs is shared by eight."""
    transport = await open_on()
    await transport.publish_many([(f"g{n % GROUPS}", n // GROUPS) for n in range(8 * GROUPS)])
    floor = Floor(8 * GROUPS)
    pool = WorkerPool(transport, floor.handle, concurrency=GROUPS, batch=8, on_event=floor.note)
    command_log.take()
    async with pool:
        await floor.until_done()
    assert floor.handled == {f"g{n}": list(range(8)) for n in range(GROUPS)}
    assert len(command_log.take()) / (8 * GROUPS) < (0.9 if server == "old" else 0.4)
