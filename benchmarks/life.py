"""What does the whole life of a message cost? Publishers and workers in one event loop.

The publishers finish before the workers start, so each phase is measured alone; every worker
claims for itself, one message at a time.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from benchmarks._measuring import CLIENTS, CommandCounter, context, percentiles, served
from fairlane import AsyncMongoTransport


@dataclass(slots=True)
class Phase:
    """One measured phase: wall and CPU seconds, commands, and a latency for each operation."""

    seconds: float = 0.0
    cpu: float = 0.0
    commands: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)

    def report(self, messages: int) -> dict[str, object]:
        return {
            "per_second": round(messages / self.seconds),
            "cpu_us_per_message": round(self.cpu / messages * 1e6),
            "commands_per_message": round(self.commands.total() / messages, 2),
            "commands": dict(self.commands),
            **percentiles(self.latencies),
        }


@contextmanager
def measured(counter: CommandCounter) -> Iterator[Phase]:
    phase = Phase()
    before = counter.sent.copy()
    wall, cpu = time.perf_counter(), time.process_time()
    yield phase
    phase.seconds, phase.cpu = time.perf_counter() - wall, time.process_time() - cpu
    phase.commands = counter.sent - before


async def publisher(
    transport: AsyncMongoTransport[Any], phase: Phase, numbers: range, groups: int
) -> None:
    payload = "x" * 100
    for number in numbers:
        began = time.perf_counter()
        await transport.publish(f"group-{number % groups}", {"n": number, "payload": payload})
        phase.latencies.append(time.perf_counter() - began)


async def worker(transport: AsyncMongoTransport[Any], phase: Phase, name: str) -> None:
    while True:
        began = time.perf_counter()
        lease = await transport.claim(name)
        if lease is None:
            return
        await transport.ack(lease)
        phase.latencies.append(time.perf_counter() - began)


async def measure(url: str, options: argparse.Namespace) -> dict[str, object]:
    counter = CommandCounter()
    client = CLIENTS[options.driver](url, event_listeners=[counter])
    name = f"fairlane_bench_{uuid4().hex[:12]}"
    transport: AsyncMongoTransport[Any] = AsyncMongoTransport(client, name)
    async with transport:
        try:
            with measured(counter) as publish:
                await asyncio.gather(
                    *(
                        publisher(
                            transport,
                            publish,
                            range(first, options.messages, options.publishers),
                            options.groups,
                        )
                        for first in range(options.publishers)
                    )
                )
            with measured(counter) as process:
                await asyncio.gather(
                    *(worker(transport, process, f"w{n}") for n in range(options.workers))
                )
            left = await transport.stats()
        finally:
            await client.drop_database(name)
    if left.messages or len(process.latencies) != options.messages:
        raise SystemExit(f"not every message was handled once: {left}")
    return {
        "strategy": transport.strategy,
        "publish": publish.report(options.messages),
        "claim_and_ack": process.report(options.messages),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="another server instead of a local one")
    parser.add_argument("--driver", choices=sorted(CLIENTS), default="motor")
    parser.add_argument("--messages", type=int, default=2000)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--publishers", type=int, default=4)
    parser.add_argument("--workers", type=int, default=16)
    return parser.parse_args()


def main() -> None:
    options = arguments()
    with served(options.url) as server:
        result = asyncio.run(measure(server.url, options))
    settings = {
        key: getattr(options, key) for key in ("messages", "groups", "publishers", "workers")
    }
    print(json.dumps({**context("life", server, options.driver), **settings, **result}, indent=2))  # noqa: T201


if __name__ == "__main__":
    main()
