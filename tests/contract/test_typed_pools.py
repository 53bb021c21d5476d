"""A pool whose handler names the class of its events, on a server."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from contract.batches import Open
from fairlane import CallNext, Lease, WorkerPool

LONG = 30.0


@dataclass
class Step:
    number: int


@pytest.fixture
def way() -> dict[str, Any]:
    """In the server's time: pools wait in real time."""
    return {"clock": None}


async def test_message_that_cannot_be_decoded_dies_alone_in_the_middle_of_a_batch(
    open_on: Open,
) -> None:
    transport = await open_on()
    numbers: list[Any] = [1, 2, "three", 4, 5]
    await transport.publish_many([("g", {"number": number}) for number in numbers])
    handled: list[tuple[list[int], int]] = []
    seen: list[int] = []
    is_done = asyncio.Event()

    async def handle(lease: Lease[Step]) -> None:
        handled.append(([message.event.number for message in lease.messages], lease.attempt))
        if handled[-1][0][-1] == 5:
            is_done.set()

    async def see(work: Lease[Any], call_next: CallNext) -> None:
        seen.append(len(work.messages))
        await call_next(work)

    async with asyncio.timeout(LONG):
        async with WorkerPool(transport, handle, batch=5, poll_interval=0.05, middleware=[see]):
            await is_done.wait()
    assert handled == [([1, 2], 1), ([4, 5], 1)]
    assert seen == [5, 3, 2]
    letters = [each async for each in transport.dead_letters()]
    assert [(each.event, each.attempts) for each in letters] == [({"number": "three"}, 1)]
    assert letters[0].reason == "cannot be decoded: event.number: must be int, not str"
    assert (await transport.stats()).messages == 0
