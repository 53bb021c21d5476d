"""Limits, and many who want the same (faults 15, 19 and 20).

A group is a limit of one over all machines; `max_concurrency` and `concurrency` limit one pool.
Nothing is ever stored as blocked: what is at its limit is left where it is, and no place that a
killed worker had can be lost.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairlane import AsyncJobQueue, AsyncMongoTransport, Jobs, Lease, WorkerPool
from fairlane.lease.strategy import Strategy

Transport = AsyncMongoTransport[Any]

GROUPS = 48
VISIBILITY = 1.5
POLL = 0.2
LONG = 20.0
WORKER = """
import asyncio, sys
from fairlane import AsyncMongoTransport, WorkerPool

async def handle(lease):
    print("started", lease.event, flush=True)
    await asyncio.sleep(3_600)

async def main(url, db_name, visibility):
    async with AsyncMongoTransport.from_url(url, db_name) as transport:
        await WorkerPool(transport, handle, visibility=float(visibility)).run()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("claimers", [1, 16])
@pytest.mark.parametrize("strategy", ["find_one_and_update", "update_one"])
async def test_claims_cost_no_more_commands_the_more_claimers_there_are(
    connect: Callable[..., Any], db_name: str, command_log: Any, strategy: Strategy, claimers: int
) -> None:
    """Fault 15: whoever loses a race for the first group takes the next one in the same command."""
    client = connect("pymongo", event_listeners=[command_log])
    transport = Transport(client, db_name, strategy=strategy)
    await transport.publish_many([(f"g{number}", number) for number in range(GROUPS)])
    command_log.take()
    claimed: list[str] = []

    async def drain(name: str) -> None:
        while (lease := await transport.claim(name, 60)) is not None:
            claimed.append(lease.group_id)

    await asyncio.gather(*(drain(f"w{number}") for number in range(claimers)))

    assert sorted(claimed) == sorted(f"g{number}" for number in range(GROUPS))
    assert len(command_log.take()) <= 2 * GROUPS + claimers


@asynccontextmanager
async def at_work(url: str, db_name: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another process that handles a message, and will never end it."""
    arguments = ("-c", WORKER, url, db_name, str(VISIBILITY))
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LONG):
            assert await process.stdout.readline() == b"started 0\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_group_whose_worker_was_killed_is_never_with_two_and_goes_on_when_its_lease_ends(
    connect: Callable[..., Any], db_name: str, fairlane_url: str
) -> None:
    """Fault 19: three wait, the worker of the first is killed, and two start at once."""
    transports = [Transport(connect("pymongo"), db_name) for _ in range(2)]
    await transports[0].publish_many([("g", number) for number in range(3)])
    done, running, most = asyncio.Event(), 0, 0
    handled: list[tuple[int, float]] = []

    async def handle(lease: Lease[Any]) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        handled.append((lease.event, time.monotonic()))
        await asyncio.sleep(0.1)
        running -= 1
        if lease.event == 2:
            done.set()

    async with at_work(fairlane_url, db_name) as process:
        process.kill()
        killed_at = time.monotonic()
    options: dict[str, Any] = {"visibility": VISIBILITY, "poll_interval": POLL}
    async with (
        WorkerPool(transports[0], handle, **options),
        WorkerPool(transports[1], handle, **options),
        asyncio.timeout(LONG),
    ):
        await done.wait()

    assert (most, [number for number, _ in handled]) == (1, [0, 1, 2])
    assert handled[0][1] - killed_at < VISIBILITY + 5 * POLL


async def test_job_that_is_enqueued_while_its_type_is_at_its_limit_is_stored_as_any_other(
    connect: Callable[..., Any], db_name: str, command_log: Any
) -> None:
    """Fault 20: whoever enqueues asks for no limit, so there is nothing to be out of date."""
    queue, jobs = AsyncJobQueue(connect("pymongo"), db_name), Jobs()
    writer = AsyncJobQueue(connect("pymongo", event_listeners=[command_log]), db_name)
    started = [asyncio.Event(), asyncio.Event()]
    go_on = asyncio.Event()

    @jobs.event("work", max_concurrency=1)
    async def work(context: Any, number: int) -> None:
        started[number].set()
        await go_on.wait()

    await writer.enqueue(0, "work")
    command_log.take()
    async with WorkerPool(queue, jobs, poll_interval=POLL), asyncio.timeout(LONG):
        await started[0].wait()
        second = await writer.enqueue(1, "work")
        sent = command_log.take()
        waiting = await queue.get(second.id)
        assert not started[1].is_set()
        go_on.set()
        began_at = time.monotonic()
        await started[1].wait()
        waited = time.monotonic() - began_at

    assert sent == ["insert"]
    assert waiting is not None
    assert waiting.state == "pending"
    assert waited < 5 * POLL
