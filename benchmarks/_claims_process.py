"""One process of claimers: `python -m benchmarks._claims_process`.

It reads its orders as one line of JSON from standard input (a URL may hold a password, and
arguments are public), says "ready" once it is connected, claims from the next line on, and prints
what it did. When standard input ends it ends as well: its parent is gone.
"""

import asyncio
import io
import os
import threading
import time
from typing import Any

from benchmarks._claims_records import Call, Claimed, Orders, Share
from benchmarks._measuring import CLIENTS, CommandCounter
from fairlane import AsyncMongoTransport, Lease
from fairlane.driver import close

__all__ = ("VISIBILITY", "claimers", "main")

STDIN = 0
VISIBILITY = 3600.0
"""Nothing is settled: all groups stay leased until the end."""

WARM_UPS = 5


async def claimers(orders: Orders, stdin: io.FileIO) -> Share:
    """Connect, wait for the sign to begin, and claim until every claimer has found nothing."""
    counter = CommandCounter()
    client = CLIENTS[orders.driver](
        orders.url, event_listeners=[counter], maxPoolSize=max(100, orders.claimers)
    )
    try:
        async with AsyncMongoTransport[Any](
            client, orders.database, strategy=orders.strategy
        ) as transport:
            await _warm_up(client, orders.claimers)
            print("ready", flush=True)  # noqa: T201  the parent waits for it
            if not await asyncio.to_thread(stdin.readline):
                raise SystemExit("the parent has gone")
            threading.Thread(target=_end_with_parent, daemon=True).start()
            return await _claim_all(transport, orders, counter)
    finally:
        await close(client)


async def _warm_up(client: Any, claimers: int) -> None:
    """Open the connections, which is not what is measured."""
    for _ in range(WARM_UPS):
        await asyncio.gather(*(client.admin.command("ping") for _ in range(claimers)))


async def _claim_all(
    transport: AsyncMongoTransport[Any], orders: Orders, counter: CommandCounter
) -> Share:
    calls: list[Call] = []
    before = counter.sent.copy()
    async with asyncio.TaskGroup() as tasks:
        for number in range(orders.first, orders.first + orders.claimers):
            tasks.create_task(_claim_on(transport, f"w{number}", orders.batch, calls))
    return Share(
        strategy=transport.strategy, commands=dict(counter.sent - before), calls=tuple(calls)
    )


async def _claim_on(
    transport: AsyncMongoTransport[Any], name: str, batch: int, calls: list[Call]
) -> None:
    """Claim until a call returns nothing, that one included."""
    while True:
        began = time.perf_counter()
        leases = await _claim(transport, name, batch)
        claimed = tuple(Claimed(each.group_id, each.token, each.attempt) for each in leases)
        calls.append(Call(began, time.perf_counter(), claimed))
        if not leases:
            return


async def _claim(transport: AsyncMongoTransport[Any], name: str, batch: int) -> list[Lease[Any]]:
    if batch > 1:
        return await transport.claim_many(name, batch, VISIBILITY)
    lease = await transport.claim(name, VISIBILITY)
    return [] if lease is None else [lease]


def _end_with_parent() -> None:
    while os.read(STDIN, 1):  # the bare descriptor: nothing is left locked at exit
        pass
    os._exit(1)


def main() -> None:
    with io.FileIO(STDIN, closefd=False) as stdin:
        share = asyncio.run(claimers(Orders.from_json(stdin.readline()), stdin))
    print(share.to_json())  # noqa: T201


if __name__ == "__main__":
    main()
