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

from benchmarks._claims_products import PRODUCTS, Groups, Jobs
from benchmarks._claims_records import Call, Orders, Share
from benchmarks._measuring import CLIENTS, CommandCounter
from fairlane.driver import close

__all__ = ("claimers", "main")

STDIN = 0
WARM_UPS = 5


async def claimers(orders: Orders, stdin: io.FileIO) -> Share:
    """Connect, wait for the sign to begin, and claim until every claimer has found nothing."""
    counter = CommandCounter()
    client = CLIENTS[orders.driver](
        orders.url, event_listeners=[counter], maxPoolSize=max(100, orders.claimers)
    )
    try:
        product = PRODUCTS[orders.product]
        async with product(client, orders.database, strategy=orders.strategy) as claimable:
            await _warm_up(client, orders.claimers)
            print("ready", flush=True)  # noqa: T201  the parent waits for it
            if not await asyncio.to_thread(stdin.readline):
                raise SystemExit("the parent has gone")
            threading.Thread(target=_end_with_parent, daemon=True).start()
            return await _claim_all(claimable, orders, counter)
    finally:
        await close(client)


async def _warm_up(client: Any, claimers: int) -> None:
    """Open the connections, which is not what is measured."""
    for _ in range(WARM_UPS):
        await asyncio.gather(*(client.admin.command("ping") for _ in range(claimers)))


async def _claim_all(claimable: Groups | Jobs, orders: Orders, counter: CommandCounter) -> Share:
    calls: list[Call] = []
    before = counter.sent.copy()
    async with asyncio.TaskGroup() as tasks:
        for number in range(orders.first, orders.first + orders.claimers):
            tasks.create_task(_claim_on(claimable, f"w{number}", orders.batch, calls))
    return Share(
        strategy=claimable.strategy, commands=dict(counter.sent - before), calls=tuple(calls)
    )


async def _claim_on(claimable: Groups | Jobs, name: str, batch: int, calls: list[Call]) -> None:
    """Claim until a call returns nothing, that one included."""
    while True:
        began = time.perf_counter()
        claimed = await claimable.claim(name, batch)
        calls.append(Call(began, time.perf_counter(), tuple(claimed)))
        if not claimed:
            return


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
