"""Three processes with 64 claimers each: never two of them inside one group (fault 4).

Run as a program, this file is one of the processes. It says `ready`, waits for a line, works until
nothing is left, and prints what it held as one JSON list.
"""

import asyncio
import json
import random
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any

from fairlane import AsyncMongoTransport, Lease

Transport = AsyncMongoTransport[Any]
Span = tuple[float, float, int]

GROUPS, MESSAGES = 50, 20
CLAIMERS = 64
VISIBILITY = 60.0
LONGEST_HANDLER = 0.02
REST = 0.2
DRIVERS = ("motor", "pymongo", "motor")


async def handled(lease: Lease[Any]) -> tuple[str, Span]:
    began_at = time.monotonic()
    await asyncio.sleep(random.uniform(0.0, LONGEST_HANDLER))
    return lease.group_id, (began_at, time.monotonic(), lease.event)


async def work(
    transport: Transport, name: str, spans: list[tuple[str, Span]], is_drained: asyncio.Event
) -> None:
    while not is_drained.is_set():
        lease = await transport.claim(name, VISIBILITY)
        if lease is not None:
            spans.append(await handled(lease))
            assert await transport.ack(lease)
        else:
            await asyncio.sleep(random.uniform(0.0, REST))


async def watch(transport: Transport, is_drained: asyncio.Event) -> None:
    while (await transport.stats()).messages:  # noqa: ASYNC110 - it is the server that is waited for
        await asyncio.sleep(REST)
    is_drained.set()


async def main(url: str, database: str, driver: str, name: str) -> None:
    spans: list[tuple[str, Span]] = []
    is_drained = asyncio.Event()
    async with Transport.from_url(url, database, driver=driver) as transport:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        names = [f"{name}.{number}" for number in range(CLAIMERS)]
        claimers = (work(transport, each, spans, is_drained) for each in names)
        await asyncio.gather(watch(transport, is_drained), *claimers)
    sys.stdout.write(json.dumps(spans))


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert program.stdout is not None
        assert await program.stdout.readline() == b"ready\n"
        yield program
    finally:
        if program.returncode is None:
            program.kill()
            await program.communicate()


async def by_group(programs: list[asyncio.subprocess.Process]) -> dict[str, list[Span]]:
    """Let all begin at once; return who was in each group when: their clock is the machine's."""
    outputs = await asyncio.gather(*(program.communicate(b"go\n") for program in programs))
    groups: dict[str, list[Span]] = {}
    for output, _ in outputs:
        for group, (began_at, ended_at, event) in json.loads(output):
            groups.setdefault(group, []).append((began_at, ended_at, event))
    return groups


async def test_claimers_of_three_processes_never_meet_in_a_group_nor_get_a_message_twice(
    connect: Callable[..., Any], fairlane_url: str, db_name: str
) -> None:
    transport = Transport(connect("motor"), db_name)
    for number in range(MESSAGES):
        await transport.publish_many([(f"g{group}", number) for group in range(GROUPS)])
    async with AsyncExitStack() as stack:
        programs = [
            await stack.enter_async_context(process(fairlane_url, db_name, driver, f"{number}"))
            for number, driver in enumerate(DRIVERS)
        ]
        groups = await by_group(programs)

    assert len(groups) == GROUPS
    for spans in map(sorted, groups.values()):
        assert [event for _, _, event in spans] == [*range(MESSAGES)]
        assert all(first[1] <= second[0] for first, second in pairwise(spans))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
