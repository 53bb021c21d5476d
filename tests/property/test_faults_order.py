"""Publishers and workers at once, in memory: the numbers that the reports speak of (1, 3, 16)."""

import asyncio
import random
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from property.pools import ticks
from property.wire import Call, Step
from property.world import MemoryStage, Participant, World

GROUPS = ("g", "h", "i")
WORKERS = 4
SLOW = 7
"""Steps of a publisher's call, at most: the workers wait, and groups are drained all the time."""
WRITE_CONFLICT = 112


class Network:
    """Driver calls take a random number of steps there and back; some meet a write conflict."""

    def __init__(self, seed: int, *, steps: int = 3, conflicts: float = 0.0) -> None:
        self._chance = random.Random(seed)
        self._steps = steps
        self._conflicts = conflicts
        self.refused = 0

    async def __call__(self, _: Step, call: Call) -> Any:
        await ticks(self._chance.randrange(self._steps))
        if self._chance.random() < self._conflicts:
            self.refused += 1
            raise OperationFailure("WriteConflict", WRITE_CONFLICT)
        result = await call()
        await ticks(self._chance.randrange(self._steps))
        return result


@dataclass(slots=True)
class Run:
    """What producers published, and what workers got, by group."""

    world: World
    produced: dict[int, tuple[int, int]] = field(default_factory=dict)
    delivered: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    async def produce(self, producer: int, messages: int) -> None:
        """Publish a counter, to one group after the other."""
        publisher = await self.world.join(Network(producer, steps=SLOW))
        for count in range(messages):
            event = await publisher.publish(GROUPS[(producer + count) % len(GROUPS)])
            self.produced[event] = producer, count

    async def work_off(self, number: int, is_published: asyncio.Event) -> None:
        worker = await self.world.join(Network(-number))
        while True:
            is_last_look = is_published.is_set()
            lease = await worker.claim()
            if lease is not None:
                self.delivered[lease.group_id].append(lease.event)
                assert await worker.ack(lease)
            elif is_last_look:
                return
            await asyncio.sleep(0)

    async def play(self, *, producers: int, messages: int) -> None:
        is_published = asyncio.Event()
        async with asyncio.TaskGroup() as work:
            for number in range(WORKERS):
                work.create_task(self.work_off(number, is_published))
            async with asyncio.TaskGroup() as production:
                for producer in range(producers):
                    production.create_task(self.produce(producer, messages))
            is_published.set()
        await self.world.check()


@pytest.mark.timeout(180)
async def test_two_publishers_and_four_workers_lose_and_repeat_none_of_5000_messages() -> None:
    """Fault 1."""
    run = Run(await MemoryStage(is_recent=True).fresh())
    await run.play(producers=2, messages=2_500)
    assert sorted(event for group in run.delivered.values() for event in group) == [*range(5_000)]


async def test_each_of_twenty_producers_finds_its_counter_in_order_in_every_group() -> None:
    """Fault 3."""
    run = Run(await MemoryStage(is_recent=False).fresh())
    await run.play(producers=20, messages=20)
    assert sum(map(len, run.delivered.values())) == 400
    for events in run.delivered.values():
        for producer in range(20):
            produced = [run.produced[event] for event in events]
            counts = [count for who, count in produced if who == producer]
            assert counts == sorted(counts)


async def test_fifty_publishers_that_meet_write_conflicts_publish_all_when_they_repeat() -> None:
    """Fault 16, without transactions: a conflict leaves no half, and no group is blocked."""
    world = await MemoryStage(is_recent=True).fresh()
    network = Network(16, conflicts=0.3)

    async def publish_three(number: int) -> None:
        publisher = await world.join(network)
        for part in range(3):
            group_id = f"group-{(number * 3 + part) % 40}"
            await repeated(publisher, group_id, world.log.publishing(group_id))

    await asyncio.gather(*(publish_three(number) for number in range(50)))
    assert network.refused > 50
    assert sorted(await world.drain(await world.join())) == [*range(150)]
    await world.check()


async def test_publishers_that_give_up_after_a_write_conflict_block_no_group() -> None:
    """Fault 16: what an aborted transaction leaves."""
    world = await MemoryStage(is_recent=False).fresh()
    network = Network(16, conflicts=0.3)

    async def publish_once(number: int) -> None:
        publisher = await world.join(network)
        with suppress(OperationFailure):
            await publisher.publish(f"group-{number % 10}")

    await asyncio.gather(*(publish_once(number) for number in range(50)))
    assert network.refused > 10
    await world.check()


async def repeated(publisher: Participant, group_id: str, event: int) -> None:
    """Publish as a caller does that repeats what it does not know the outcome of."""
    is_published = False
    while not is_published:
        with suppress(OperationFailure):
            await publisher.publish(group_id, event=event, message_id=f"{event}")
            is_published = True
