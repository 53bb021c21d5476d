"""What does it cost when many schedulers enqueue the same jobs? Each unique key must win once.

Every scheduler has its own client and enqueues all the keys, in its own order, by `enqueue_many`.
Afterwards it is checked that each key has exactly one job, and that the schedulers were told so.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

from benchmarks._measuring import CLIENTS, CommandCounter, Server, context, served
from fairlane import AsyncJobQueue, EnqueuedMany, NewJob
from fairlane.driver import close

__all__ = ("main",)

PARTITIONS = 30
CHUNK = 500


async def schedule(queue: AsyncJobQueue, keys: Sequence[int]) -> list[EnqueuedMany]:
    """Enqueue all keys in chunks, as a scheduler does that has read so many from elsewhere."""
    jobs = [NewJob({"n": key}, unique_key=f"key-{key}") for key in keys]
    return [
        await queue.enqueue_many(jobs[first : first + CHUNK], "bulk", priority=40)
        for first in range(0, len(jobs), CHUNK)
    ]


async def measure(server: Server, driver: str, number: int, schedulers: int) -> dict[str, Any]:
    database, counter = f"fairlane_bench_{uuid4().hex[:12]}", CommandCounter()
    async with AsyncExitStack() as stack:
        queues = []
        for _ in range(schedulers):
            client = CLIENTS[driver](server.url, event_listeners=[counter])
            stack.push_async_callback(close, client)
            queue = AsyncJobQueue(client, database, partitions=PARTITIONS)
            queues.append(await stack.enter_async_context(queue))
        stack.push_async_callback(client.drop_database, database)
        before, began = counter.sent.copy(), time.perf_counter()
        keys = [random.Random(seed).sample(range(number), number) for seed in range(schedulers)]
        told = await asyncio.gather(*map(schedule, queues, keys))
        seconds = time.perf_counter() - began
        sent = counter.sent - before
        jobs = await client[database]["fairlane_jobs"].find({}, {"payload": 0}).to_list(None)
    return {
        "seconds": round(seconds, 3),
        "jobs_per_second": round(number * schedulers / seconds, 1),
        "commands_per_job": round(sent.total() / (number * schedulers), 4),
        "commands": dict(sent),
        "violations": violations(number, schedulers, [one for each in told for one in each], jobs),
    }


def violations(
    number: int, schedulers: int, told: Sequence[EnqueuedMany], jobs: Sequence[dict[str, Any]]
) -> list[str]:
    """Name each thing that does not hold, and by how much."""
    wrong = {
        "created": sum(each.created for each in told) - number,
        "skipped": sum(each.skipped for each in told) - number * (schedulers - 1),
        "errors": sum(len(each.errors) for each in told),
        "stored jobs": len(jobs) - number,
        "distinct keys": len({job["unique_key"] for job in jobs}) - number,
        "ids told": len({key for each in told for key in each.ids} ^ {job["_id"] for job in jobs}),
        "partitions": sum(job["partition"] not in range(PARTITIONS) for job in jobs),
        "priorities": sum(job["priority"] != 40 for job in jobs),
    }
    return [f"{name} (off by {value})" for name, value in wrong.items() if value]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", help="another server instead of a local one")
    parser.add_argument("--driver", choices=sorted(CLIENTS), default="motor")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--schedulers", type=int, default=8)
    options = parser.parse_args()
    with served(options.url) as server:
        found = asyncio.run(measure(server, options.driver, options.jobs, options.schedulers))
        head = context("bulk_enqueue", server, options.driver)
    asked = {"jobs": options.jobs, "schedulers": options.schedulers}
    print(json.dumps({**head, **asked, **found}, indent=2))  # noqa: T201
    if found["violations"]:
        sys.exit("\n".join(["what does not hold", *found["violations"]]))


if __name__ == "__main__":
    main()
