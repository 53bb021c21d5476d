"""Faults of comparable systems that time brings: skewed clocks, starvation (27, 31, 32)."""

import ast
import asyncio
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import fairlane
from fairlane import AsyncMongoTransport
from fairlane.clock import ServerClock
from fairlane.testing import ManualClock

MakeTransport = Callable[..., AsyncMongoTransport[Any]]

SOURCE = Path(fairlane.__file__).parent
OFFSETS = (-300.0, 0.0, 300.0)
CLAIMS = 80
CREDIT = 20.0


class Machine:
    """A machine whose clocks are wrong: its wall clock by an offset, its monotonic one by any."""

    def __init__(self, offset: float) -> None:
        self.offset = offset
        self._origin = 1_000.0 * offset

    def clock(self) -> ServerClock:
        return ServerClock(
            wall=lambda: time.time() + self.offset,
            monotonic=lambda: time.monotonic() + self._origin,
        )


@pytest.mark.parametrize("holder", range(len(OFFSETS)))
async def test_machines_whose_clocks_differ_never_hold_one_group_together(
    make_transport: MakeTransport, holder: int
) -> None:
    machines = [Machine(offset) for offset in OFFSETS]
    transports = [make_transport(clock=machine.clock()) for machine in machines]
    await transports[0].publish("g", 1)
    lease = await transports[holder].claim("holder", visibility=30.0)
    assert lease is not None
    machines[holder].offset -= 3_600.0  # its wall clock is set back while it holds the lease
    lease = await transports[holder].extend(lease, 30.0)
    assert [await other.claim("other") for other in transports] == [None, None, None]
    assert await transports[holder].ack(lease)


@pytest.mark.parametrize("offset", OFFSETS)
async def test_delay_is_kept_to_a_second_of_the_servers_time_on_a_skewed_machine(
    make_transport: MakeTransport, offset: float
) -> None:
    skewed, right = make_transport(clock=Machine(offset).clock()), make_transport(clock=None)
    await skewed.publish("g", 1)
    lease = await skewed.claim("w")
    assert lease is not None
    await skewed.nack(lease, delay=0.5)
    began = time.monotonic()
    while await right.claim("w") is None:  # noqa: ASYNC110 - it is the server that is waited for
        await asyncio.sleep(0.02)
    assert 0.4 <= time.monotonic() - began <= 1.5


def test_only_the_clock_module_reads_the_machines_time() -> None:
    readers = {
        str(path.relative_to(SOURCE))
        for part in ("transport", "lease", "driver", ".")
        for path in (SOURCE / part).glob("*.py")
        if _reads_time(ast.parse(path.read_text()))
    }
    assert readers == {"clock.py"}


def _reads_time(tree: ast.Module) -> bool:
    imported = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return "time" in imported or bool(named & {"utcnow", "today", "perf_counter"})


@pytest.mark.parametrize("fails_by", ["nack", "death"])
async def test_failing_group_keeps_no_other_waiting_longer_than_a_round(
    transport: AsyncMongoTransport[Any], clock: ManualClock, fails_by: str
) -> None:
    groups = ["bad", "a", "b", "c", "d"]
    await transport.publish_many([(group, n) for n in range(12) for group in groups])
    served: list[str] = []
    while len(served) < 50:
        clock.advance(31.0 if fails_by == "death" else 1.0)
        lease = await transport.claim("w")
        assert lease is not None
        served.append(lease.group_id)
        if lease.group_id != "bad":
            await transport.ack(lease)
        elif fails_by == "nack":
            await transport.nack(lease)
    for group in groups[1:]:
        assert longest_wait(served, group) <= len(groups), group


async def test_backlog_waits_for_new_groups_no_longer_than_their_credit(
    make_transport: MakeTransport, clock: ManualClock
) -> None:
    """One claim a second and one new group for each: every turn of the backlog delays the next."""
    transport = make_transport(new_group_credit=CREDIT)
    await transport.publish_many([("old", n) for n in range(CLAIMS)])
    served: list[str] = []
    for number in range(CLAIMS):
        clock.advance(1.0)
        await transport.publish(f"new-{number}", number)
        lease = await transport.claim("w")
        assert lease is not None
        served.append(lease.group_id)
        await transport.ack(lease)
    assert longest_wait(served, "old") <= CREDIT + 1 + served.count("old")


@pytest.mark.parametrize("groups", [1, 100])
async def test_one_message_is_served_within_a_round_of_a_busy_neighbour(
    transport: AsyncMongoTransport[Any], clock: ManualClock, groups: int
) -> None:
    await transport.publish_many([(f"busy-{n % groups}", n) for n in range(200)])
    clock.advance(1.0)
    await transport.publish("single", "message")
    for _ in range(groups + 1):
        clock.advance(0.01)
        lease = await transport.claim("w")
        assert lease is not None
        if lease.group_id == "single":
            return
        await transport.ack(lease)
    pytest.fail("not served within a round")


def longest_wait(served: list[str], group: str) -> int:
    """Return the greatest number of claims from one for the group, or the start, to the next."""
    turns = [-1, *(turn for turn, name in enumerate(served) if name == group), len(served)]
    return max(later - earlier for earlier, later in pairwise(turns))
