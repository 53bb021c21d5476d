"""A worker process of `test_races_multi.py`: coroutine claimers that journal what they held.

`python claimers.py URL DB DRIVER NAME KIND STRATEGY`: a KIND of `drain` acks until nothing is left,
`hold` claims once each and keeps the lease. It says `ready`, waits for a line, and prints one JSON
list.
"""

import asyncio
import json
import sys
import time
from typing import Any

from fairlane import AsyncMongoTransport, Lease
from fairlane.lease.strategy import Strategy, checked_strategy

CLAIMERS = 8

Transport = AsyncMongoTransport[Any]
Journal = list[dict[str, Any]]


async def drain(transport: Transport, name: str, journal: Journal) -> None:
    while (lease := await transport.claim(name, 60)) or (await transport.stats()).messages:
        if lease is not None:
            journal.append(await handled(transport, lease))


async def handled(transport: Transport, lease: Lease[Any]) -> dict[str, Any]:
    start = time.monotonic()
    for _ in range(5):  # let the other claimers in
        await asyncio.sleep(0)
    end = time.monotonic()
    assert await transport.ack(lease)
    return {"group": lease.group_id, "event": lease.event, "start": start, "end": end}


async def hold(transport: Transport, name: str, journal: Journal) -> None:
    lease = await transport.claim(name, 60)
    if lease is not None:
        journal.append({"group": lease.group_id})


async def main(
    url: str, db_name: str, driver: str, name: str, kind: str, *, strategy: Strategy
) -> None:
    work = {"drain": drain, "hold": hold}[kind]
    journal: Journal = []
    async with AsyncMongoTransport[Any].from_url(
        url, db_name, driver=driver, strategy=strategy
    ) as transport:
        print("ready", flush=True)  # noqa: T201
        await asyncio.to_thread(sys.stdin.readline)
        async with asyncio.TaskGroup() as claimers:
            for number in range(CLAIMERS):
                claimers.create_task(work(transport, f"{name}.{number}", journal))
    print(json.dumps(journal), flush=True)  # noqa: T201


if __name__ == "__main__":
    *arguments, chosen = sys.argv[1:]
    asyncio.run(main(*arguments, strategy=checked_strategy(chosen)))
