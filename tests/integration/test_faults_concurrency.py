"""Faults of comparable systems, provoked by real concurrency on a real server (1, 2, 3, 17, 42)."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from fairlane import AsyncMongoTransport
from fairlane.testing import ManualClock
from property.log import Log
from property.scenes import MOVES
from property.world import Participant, documents, drain, judge

MakeTransport = Callable[..., AsyncMongoTransport[Any]]

MESSAGES = int(os.environ.get("FAIRLANE_MESSAGES", "500"))
"""For each driver; the report of fault 1 speaks of 5,000, which takes half a minute."""
CANCELLATIONS = 500
"""For each driver."""
LONGEST_DELAY = 0.004
"""Seconds: about what an operation takes, so that cancellations meet it everywhere."""
GROUPS = ("g", "h", "i")


def an_hour_on() -> float:
    return time.time() + 3_600.0


def join(make_transport: MakeTransport, log: Log, name: str, **options: Any) -> Participant:
    return Participant(make_transport(**{"clock": None, **options}), log, name)


async def work_off(self: Participant, is_published: asyncio.Event) -> None:
    while True:
        is_last_look = is_published.is_set()
        lease = await self.claim()
        if lease is not None:
            assert await self.ack(lease)
        elif is_last_look:
            return
        else:
            await asyncio.sleep(0.005)


async def run_all(
    make_transport: MakeTransport, *, publishers: int, workers: int, messages: int
) -> Log:
    """Publish and work off messages of three groups at once; return what everybody saw."""
    log, is_published = Log(), asyncio.Event()

    async def publish_all() -> None:
        await asyncio.gather(*(publish(number) for number in range(publishers)))
        is_published.set()

    async def publish(number: int) -> None:
        publisher = join(make_transport, log, f"publisher-{number}")
        for count in range(messages // publishers):
            await publisher.publish(GROUPS[(count + number) % len(GROUPS)])

    work = [
        work_off(join(make_transport, log, f"worker-{number}"), is_published)
        for number in range(workers)
    ]
    await asyncio.gather(publish_all(), *work)
    await judge(log, join(make_transport, log, "janitor", clock=an_hour_on))
    return log


async def test_publishers_and_workers_of_three_groups_lose_and_repeat_nothing(
    make_transport: MakeTransport,
) -> None:
    log = await run_all(make_transport, publishers=2, workers=4, messages=MESSAGES)
    assert [len(story.delivered) for story in log.stories.values()] == [1] * MESSAGES


async def test_each_of_twenty_publishers_finds_its_order_kept_in_every_group(
    make_transport: MakeTransport,
) -> None:
    log = await run_all(make_transport, publishers=20, workers=4, messages=200)
    assert len(log.stories) == 200


async def test_two_hundred_first_publishes_to_one_group_make_one_group(
    make_transport: MakeTransport,
) -> None:
    transport = make_transport()
    await asyncio.gather(*(transport.publish("g", number) for number in range(200)))
    stats = await transport.stats()
    assert (stats.groups, stats.messages) == (1, 200)


async def test_two_hundred_transports_may_start_at_once_on_an_empty_database(
    make_transport: MakeTransport,
) -> None:
    transports = [make_transport(clock=None) for _ in range(200)]
    await asyncio.gather(*(transport.__aenter__() for transport in transports))
    assert len(await documents(transports[0], "counters")) == 1


async def test_message_of_a_publisher_killed_between_its_writes_is_delivered_after_repair(
    make_transport: MakeTransport, fairlane_url: str, db_name: str
) -> None:
    victim = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", DYING_PUBLISHER, fairlane_url, db_name], check=False
    )
    assert victim.returncode == -signal.SIGKILL
    transport = make_transport(clock=an_hour_on)
    assert await transport.claim("w") is None
    assert (await transport.repair()).repaired == 1
    lease = await transport.claim("w")
    assert lease is not None
    assert lease.event == "orphan"


DYING_PUBLISHER = """
import asyncio, os, signal, sys
from fairlane import AsyncMongoTransport
from fairlane.testing import ManualClock
from motor.motor_asyncio import AsyncIOMotorClient

async def die(writes):
    os.kill(os.getpid(), signal.SIGKILL)

async def main(url, db_name):
    transport = AsyncMongoTransport(AsyncIOMotorClient(url), db_name)
    await transport.stats()
    transport._store.driver.has_cross_collection_bulk = False
    transport._store.locks.upsert = die
    await transport.publish("g", "orphan")

asyncio.run(main(*sys.argv[1:]))
"""


async def test_cancelled_operations_are_done_or_undone_whenever_they_are_cancelled(
    make_transport: MakeTransport, clock: ManualClock
) -> None:
    """Cancellations come while commands are under way, which no hook around a call can do."""
    log, chance = Log(), random.Random(42)
    self, other = (Participant(make_transport(), log, name) for name in ("self", "other"))
    for number in range(CANCELLATIONS):
        cancel = chance.choice(CANCELLATIONS_OF)
        await cancel(self, other, f"group-{number}", chance)
    clock.advance(3_600.0)
    await judge(log, other)


async def cancelled(operation: Coroutine[Any, Any, Any], chance: random.Random) -> Any:
    """Cancel the operation somewhere; return its result if it was too quick for that."""
    task = asyncio.ensure_future(operation)
    await asyncio.sleep(chance.uniform(0.0, LONGEST_DELAY))
    task.cancel()
    await asyncio.wait((task,))
    return None if task.cancelled() else task.result()


async def cancel_publish(
    self: Participant, other: Participant, group_id: str, chance: random.Random
) -> None:
    await cancelled(self.publish(group_id), chance)
    await drain(other)


async def cancel_claim(
    self: Participant, other: Participant, group_id: str, chance: random.Random
) -> None:
    await other.publish(group_id)
    lease = await cancelled(self.claim(), chance) or await other.claimed()
    assert lease.attempt == 1
    assert await other.ack(lease)


async def cancel_move(
    self: Participant, other: Participant, group_id: str, chance: random.Random
) -> None:
    await other.publish(group_id)
    lease = await self.claimed()
    name = chance.choice(sorted(MOVES))
    await cancelled(MOVES[name](self, lease), chance)
    assert await other.ack(lease) == (name == "extend"), name
    if name in ("nack", "release"):
        await drain(other)


async def cancel_redrive(
    self: Participant, other: Participant, group_id: str, chance: random.Random
) -> None:
    await other.publish(group_id)
    await other.dead_letter(await other.claimed())
    await cancelled(self.redrive(), chance)
    await other.repair()
    await drain(other)


CANCELLATIONS_OF = (*[cancel_publish] * 2, *[cancel_claim] * 2, *[cancel_move] * 7, cancel_redrive)
