"""A worker process that is stopped while it holds a lease: `python -m integration.wire.stopped`.

Arguments: URL DATABASE DRIVER KIND. It says what happens to it as lines of JSON. A KIND of
`transport` claims, waits for a line, and then tries everything that can be done with the lease;
`coroutine` and `thread` are the two kinds of handlers of a pool, which ends with its first lease.
"""

import asyncio
import json
import sys
from typing import Any

from fairlane import AsyncMongoTransport, Lease, LeaseLost, WorkerPool
from fairlane.worker import WorkerEvent

__all__ = ("VISIBILITY",)

VISIBILITY = 0.8
ENDS = ("acked", "nacked", "released", "dead_lettered", "lease_lost", "unsettled")

Transport = AsyncMongoTransport[Any]


def say(**words: Any) -> None:
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


async def hold(transport: Transport) -> None:
    lease = await transport.claim("stopped", VISIBILITY)
    assert lease is not None
    say(holds=lease.epoch)
    await asyncio.to_thread(sys.stdin.readline)
    say(
        ack=await transport.ack(lease),
        nack=await transport.nack(lease),
        release=await transport.release(lease),
        dead_letter=await transport.dead_letter(lease, "late"),
        extend=await is_extended(transport, lease),
    )


async def is_extended(transport: Transport, lease: Lease[Any]) -> bool:
    try:
        await transport.extend(lease, VISIBILITY)
    except LeaseLost:
        return False
    return True


async def handle_in_loop(lease: Lease[Any]) -> None:
    say(holds=lease.epoch)
    await asyncio.sleep(60)


def handle_in_thread(lease: Lease[Any]) -> None:
    say(holds=lease.epoch)
    sys.stdin.readline()


async def work(transport: Transport, handler: Any) -> None:
    def listen(event: WorkerEvent) -> None:
        if event.kind in ENDS:
            say(end=event.kind)
            pool.stop()

    pool = WorkerPool(
        transport, handler, visibility=VISIBILITY, poll_interval=0.05, on_event=listen
    )
    await pool.run()


async def main(url: str, database: str, driver: str, kind: str) -> None:
    async with Transport.from_url(url, database, driver=driver) as transport:
        if kind == "transport":
            await hold(transport)
        else:
            handlers = {"coroutine": handle_in_loop, "thread": handle_in_thread}
            await work(transport, handlers[kind])


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
