"""Many claimers at once, in one event loop and in several processes: statements 6 to 9."""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Lease

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]

GROUPS, MESSAGES = 4, 5
EVERYTHING = {f"g{group}": list(range(MESSAGES)) for group in range(GROUPS)}


SORTED_UPDATES = {"partitions": 3, "strategy": "update_one"}


@pytest.fixture(params=[{}, {"partitions": 3}, SORTED_UPDATES], ids=str)
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    options: dict[str, Any] = request.param
    return options


async def publish_everything(transport: Transport) -> None:
    await transport.publish_many(
        [(group, event) for event in range(MESSAGES) for group in EVERYTHING]
    )


class Floor:
    """Where handlers run: it notes who is inside which group, and what they handled."""

    def __init__(self) -> None:
        self.inside: Counter[str] = Counter()
        self.handled: dict[str, list[Any]] = {}
        self.most = 0

    async def handle(self, lease: Lease[Any]) -> None:
        group = lease.group_id
        self.inside[group] += 1
        self.most = max(self.most, self.inside[group])
        await asyncio.sleep(0)
        self.handled.setdefault(group, []).append(lease.event)
        await asyncio.sleep(0)
        self.inside[group] -= 1


async def work(transport: Transport, name: str, floor: Floor) -> None:
    while sum(map(len, floor.handled.values())) < GROUPS * MESSAGES:
        lease = await transport.claim(name, 60)
        if lease is not None:
            await floor.handle(lease)
            assert await transport.ack(lease)


@pytest.mark.parametrize("workers", [2, 8, 32])
async def test_concurrent_workers_never_meet_inside_a_group(
    transport: Transport, workers: int
) -> None:
    """Statements 6 and 9."""
    await publish_everything(transport)
    floor = Floor()
    await asyncio.gather(*(work(transport, f"w{number}", floor) for number in range(workers)))
    assert floor.most == 1
    assert floor.handled == EVERYTHING


async def test_concurrent_workers_with_their_own_transports_never_meet_inside_a_group(
    make_transport: MakeTransport,
) -> None:
    """Statement 6."""
    transports = [make_transport() for _ in range(4)]
    await publish_everything(transports[0])
    floor = Floor()
    await asyncio.gather(*(work(each, f"w{n}", floor) for n, each in enumerate(transports)))
    assert floor.most == 1
    assert floor.handled == EVERYTHING


async def test_concurrent_claimers_get_distinct_groups(transport: Transport) -> None:
    """Statements 7 and 9: as many claimers as groups, none goes away empty."""
    await transport.publish_many([(f"g{number}", number) for number in range(20)])
    leases = await asyncio.gather(*(transport.claim(f"w{number}") for number in range(20)))
    assert {lease.group_id for lease in leases if lease} == {f"g{number}" for number in range(20)}


async def test_concurrent_batches_of_claims_get_distinct_groups(transport: Transport) -> None:
    """Statement 7: a batch may lose some of its groups to others, who lease them then."""
    await transport.publish_many([(f"g{number}", number) for number in range(20)])
    batches = await asyncio.gather(*(transport.claim_many(f"w{n}", 5) for n in range(6)))
    batches.append(await transport.claim_many("w", 20))
    groups = [lease.group_id for batch in batches for lease in batch]
    assert sorted(groups) == sorted({f"g{number}" for number in range(20)})


async def test_concurrent_first_publishes_make_one_group(transport: Transport) -> None:
    """Every publisher creates the counter, the settings, the indexes and the lock."""
    seqs = await asyncio.gather(*(transport.publish("g", number) for number in range(50)))
    stats = await transport.stats()
    assert sorted(seqs) == list(range(1, 51))
    assert (stats.groups, stats.messages) == (1, 50)


async def test_concurrent_first_calls_of_new_transports_agree(
    make_transport: MakeTransport,
) -> None:
    transports = [make_transport() for _ in range(20)]
    await asyncio.gather(*(each.publish("g", n) for n, each in enumerate(transports)))
    assert len(await transports[0].peek("g", 100)) == 20


async def test_concurrent_publishers_keep_their_own_order(transport: Transport) -> None:
    """Statement 1: publishes that follow each other are delivered in that order."""

    async def publisher(name: int) -> None:
        for number in range(10):
            await transport.publish(f"g{number % 2}", (name, number))

    await asyncio.gather(*(publisher(name) for name in range(10)))
    delivered = []
    while (lease := await transport.claim("w")) is not None:
        delivered.append((lease.group_id, *lease.event))
        await transport.ack(lease)
    assert len(delivered) == 100
    for name in range(10):
        for group in ("g0", "g1"):
            numbers = [n for where, who, n in delivered if (where, who) == (group, name)]
            assert numbers == sorted(numbers)


async def test_publishers_and_workers_at_once_strand_nothing(transport: Transport) -> None:
    """Groups are drained and begun anew all the time: every acked message was delivered once."""
    floor = Floor()
    total = GROUPS * MESSAGES

    async def publisher() -> None:
        for number in range(total):
            await transport.publish(f"g{number % GROUPS}", number // GROUPS)

    await asyncio.gather(publisher(), *(work(transport, f"w{n}", floor) for n in range(8)))
    assert floor.most == 1
    assert floor.handled == EVERYTHING


Journals = Callable[[str], Awaitable[list[Any]]]


@pytest.fixture
async def journals(
    fairlane_url: str, db_name: str, driver: str, way: dict[str, Any]
) -> AsyncIterator[Journals]:
    """Return what runs three worker processes at the same time, and merges their journals."""
    programs: list[asyncio.subprocess.Process] = []

    async def run(kind: str) -> list[Any]:
        script = str(Path(__file__).with_name("claimers.py"))
        for name in ("p0", "p1", "p2"):
            program = await asyncio.create_subprocess_exec(
                *(sys.executable, script, fairlane_url, db_name, driver, name, kind),
                way.get("strategy", "auto"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            programs.append(program)
        for program in programs:
            assert program.stdout is not None
            assert await program.stdout.readline() == b"ready\n"
        outputs = await asyncio.gather(*(program.communicate(b"go\n") for program in programs))
        assert [program.returncode for program in programs] == [0, 0, 0]
        return [entry for out, _ in outputs for entry in json.loads(out)]

    yield run
    for program in programs:
        if program.returncode is None:
            program.kill()
            await program.wait()


async def test_workers_in_several_processes_never_meet_inside_a_group(
    transport: Transport, journals: Journals
) -> None:
    """Statement 8, of 6: their monotonic clocks are one, so their handlers can be compared."""
    await publish_everything(transport)
    entries = sorted(await journals("drain"), key=lambda e: e["start"])
    for group, events in EVERYTHING.items():
        mine = [entry for entry in entries if entry["group"] == group]
        assert [entry["event"] for entry in mine] == events
        assert all(one["end"] <= other["start"] for one, other in pairwise(mine))


async def test_claimers_in_several_processes_get_distinct_groups(
    transport: Transport, journals: Journals
) -> None:
    """Statement 8, of 7: 24 claimers in 3 processes over 20 groups."""
    await transport.publish_many([(f"g{number}", number) for number in range(20)])
    groups = [entry["group"] for entry in await journals("hold")]
    assert sorted(groups) == sorted(f"g{number}" for number in range(20))
