"""Starting on what is there already, and with as few rights as a client may have (fault 68)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pymongo.server_api import ServerApi

from fairlane import AsyncJobQueue, AsyncMongoTransport, Jobs, WorkerPool
from fairlane.lease.strategy import Strategy

Transport = AsyncMongoTransport[Any]

MANY = 2_000


@pytest.fixture
def strict(connect: Callable[..., Any], driver: str) -> Any:
    """A client that is refused every command that is not in version 1 of the stable API."""
    return connect(driver, server_api=ServerApi("1", strict=True))


@pytest.mark.parametrize("strategy", ["auto", "update_one"])
async def test_every_operation_of_a_transport_is_in_the_strict_api(
    strict: Any, db_name: str, strategy: Strategy
) -> None:
    transport = Transport(strict, db_name, strategy=strategy)
    await transport.publish_many([(f"g{number}", number) for number in range(4)])
    first = await transport.claim("w")
    others = await transport.claim_many("w", 3)
    assert first is not None
    await transport.extend(first)
    await transport.nack(first)
    await transport.ack_many(others[:1])
    await transport.dead_letter(others[1], "no")
    await transport.release(others[2])
    assert [letter.reason async for letter in transport.dead_letters()] == ["no"]
    await transport.redrive()
    await transport.repair(full=True)
    await transport.reconcile()
    await transport.next_due()
    assert (await transport.stats()).messages == 3
    await transport.drop()


@pytest.mark.parametrize("strategy", ["auto", "update_one"])
async def test_every_operation_of_a_queue_is_in_the_strict_api(
    strict: Any, db_name: str, strategy: Strategy
) -> None:
    queue, jobs, done = AsyncJobQueue(strict, db_name, strategy=strategy), Jobs(), asyncio.Event()

    @jobs.event("work", keep_history=60)
    async def work(context: Any, payload: Any) -> None:
        done.set()

    @jobs.recurring("tick", every=3_600)
    async def tick(context: Any) -> None: ...

    await queue.enqueue(1, "work", unique_key="one")
    async with WorkerPool(queue, jobs):
        await done.wait()
    await queue.reclaim_stale()
    await queue.reconcile()
    assert (await queue.stats("work")).done == 1
    await queue.drop()


async def test_several_start_at_once_on_a_collection_full_of_documents(
    connect: Callable[..., Any], driver: str, db_name: str
) -> None:
    """The documents are those of the original design, whose indexes are not there."""
    client = connect(driver)
    stored = [{"_id": n, "group_id": f"g{n % 50}", "event": n} for n in range(1, MANY + 1)]
    await client.get_database(db_name).get_collection("fairlane_messages").insert_many(stored)

    starts = [Transport(client, db_name) for _ in range(5)]
    await asyncio.gather(*(each.ensure_indexes() for each in starts))

    assert (await starts[0].stats()).messages == MANY
