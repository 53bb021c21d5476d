"""How long does a message wait for its handler in an idle pool, and what does waiting cost?

Publishers and pools have clients of their own, so that nothing is told within the process, unless
`--ways` says "local". Each message is published when the one before has been handled. Afterwards
the pools idle for a while, and what they send meanwhile is counted, getMore of streams included.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any
from uuid import uuid4

from benchmarks._measuring import CLIENTS, CommandCounter, Server, context, percentiles, served
from fairlane import AsyncMongoTransport, Lease, WorkerPool
from fairlane.driver import close
from fairlane.driver._watching import Stream

__all__ = ("main",)

WAYS = ("local", "stream", "poll")
SETTLING = 1.0
"""Seconds until all streams are open, and no pool claims any more."""


class Scene:
    """Pools on one database, and a transport that publishes to them."""

    def __init__(self, server: Server, options: argparse.Namespace, way: str) -> None:
        self.counter = CommandCounter()
        self.handled: asyncio.Queue[float] = asyncio.Queue()
        self._server = server
        self._options = options
        self._way = way
        self._database = f"fairlane_bench_{uuid4().hex[:12]}"

    async def open(self, stack: AsyncExitStack) -> AsyncMongoTransport[Any]:
        """Return the publishing transport, with all pools at rest."""
        publisher = await self._transport(stack)
        stack.push_async_callback(publisher.drop)
        for _ in range(self._options.pools):
            own = publisher if self._way == "local" else await self._transport(stack)
            pool = WorkerPool(own, self._handle, poll_interval=self._options.poll_interval)
            await stack.enter_async_context(pool)
        await asyncio.sleep(SETTLING)
        return publisher

    async def _transport(self, stack: AsyncExitStack) -> AsyncMongoTransport[Any]:
        client = CLIENTS[self._options.driver](self._server.url, event_listeners=[self.counter])
        stack.push_async_callback(close, client)
        transport = AsyncMongoTransport[Any](client, self._database, wakeups=self._way == "stream")
        return await stack.enter_async_context(transport)

    async def _handle(self, lease: Lease[Any]) -> None:
        self.handled.put_nowait(time.perf_counter() - lease.event)


@contextmanager
def streams_counted(counts: Counter[str]) -> Iterator[None]:
    """Count what streams send: their clients are copies, which have no listeners."""
    send = Stream._send

    async def counted(self: Stream, command: dict[str, Any], batch: str) -> Any:
        counts[next(iter(command))] += 1
        return await send(self, command, batch)

    Stream._send = counted  # type: ignore[method-assign]
    try:
        yield
    finally:
        Stream._send = send  # type: ignore[method-assign]


async def measure(server: Server, options: argparse.Namespace, way: str) -> dict[str, Any]:
    scene = Scene(server, options, way)
    counts = scene.counter.sent
    async with AsyncExitStack() as stack:
        stack.enter_context(streams_counted(counts))
        publisher = await scene.open(stack)
        before = counts.copy()
        waits = [
            await one_message(scene, publisher, options.pause) for _ in range(options.messages)
        ]
        busy = counts - before
        await asyncio.sleep(SETTLING)
        before = counts.copy()
        await asyncio.sleep(options.idle)
        idle = counts - before
    return {
        "way": way,
        "publish_to_start": percentiles(waits),
        "commands_per_message": round(busy.total() / options.messages, 2),
        "commands": dict(busy),
        "idle_commands_per_second_and_pool": round(idle.total() / options.idle / options.pools, 3),
        "idle_commands": dict(idle),
    }


async def one_message(scene: Scene, publisher: AsyncMongoTransport[Any], pause: float) -> float:
    """Return the seconds from the call of publish to the start of the handler."""
    await asyncio.sleep(pause)
    await publisher.publish(uuid4().hex, time.perf_counter())
    return await scene.handled.get()


async def measure_all(server: Server, options: argparse.Namespace) -> list[dict[str, Any]]:
    return [await measure(server, options, way) for way in options.ways]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", help="another server instead of a local one")
    parser.add_argument("--driver", choices=sorted(CLIENTS), default="motor")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--messages", type=int, default=100)
    parser.add_argument("--pools", type=int, default=1)
    parser.add_argument("--poll-interval", type=float, default=1.0)
    parser.add_argument("--pause", type=float, default=0.05, help="seconds between two messages")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds to count at rest")
    options = parser.parse_args()
    with served(options.url) as server:
        ways = asyncio.run(measure_all(server, options))
        head = context("wakeup", server, options.driver)
    asked = {name: getattr(options, name) for name in ("messages", "pools", "poll_interval")}
    print(json.dumps({**head, **asked, "ways": ways}, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
