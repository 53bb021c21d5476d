"""Leases of several messages, settled in part, interrupted at every driver call.

The first driver call of a settlement decides of all its messages: the first ones are settled, one
is charged or buried, and those behind it are as if nobody had leased them.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Lease
from property.scenes import is_decided, snapshot
from property.script import Happening, Script, at_every_point, cancel, cancel_twice, crash, fail
from property.world import Participant, Stage, World

pytestmark = pytest.mark.memory_only

Settle = Callable[[AsyncMongoTransport[Any], Lease[Any]], Coroutine[Any, Any, bool]]

HELD = 3
"""Messages under the lease, of four in the group."""
LONG = 600.0

CASES: dict[str, tuple[Settle, int, list[int]]] = {
    # name: settlement, messages settled by it, buried ones
    "ack": (lambda t, lease: t.ack(lease), HELD, []),
    "nack": (lambda t, lease: t.nack(lease, 5.0), 0, []),
    "nack of a part": (lambda t, lease: t.nack(lease, 5.0, done=2), 2, []),
    "release of a part": (lambda t, lease: t.release(lease, done=1), 1, []),
    "dead letter": (lambda t, lease: t.dead_letter(lease, "why"), 1, [0]),
    "dead letter of a part": (lambda t, lease: t.dead_letter(lease, "why", done=1), 2, [1]),
    "dead letter of the last": (lambda t, lease: t.dead_letter(lease, "why", done=2), 3, [2]),
}
HAPPENINGS: dict[str, Happening] = {
    "crash": crash,
    "error": fail(),
    "cancel": cancel,
    "cancel twice": cancel_twice,
}


async def leased(worker: Participant, *, messages: int) -> Lease[Any]:
    await worker.transport.publish_many([("g", event) for event in range(messages)])
    lease = await worker.transport.claim("worker", batch=HELD)
    assert lease is not None
    assert [message.event for message in lease.messages] == list(range(HELD))
    return lease


async def delivered_to(other: Participant, world: World) -> list[Any]:
    """Drain the group message by message, after all leases and delays; no repair is needed."""
    world.clock.advance(LONG)
    events = []
    while (lease := await other.transport.claim("other")) is not None:
        events.append(lease.event)
        assert await other.transport.ack(lease)
    return events


@pytest.mark.parametrize("happening", HAPPENINGS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("messages", [HELD, HELD + 1])
async def test_interrupted_settlement_of_a_batch_is_done_or_not(
    stage: Stage, case: str, happening: str, messages: int
) -> None:
    settle, settled, buried = CASES[case]
    is_finished = happening.startswith("cancel")

    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, other = await world.join(script), await world.join()
        lease = await leased(worker, messages=messages)
        await script.run(settle(worker.transport, lease))
        is_done = is_finished or is_decided(script)
        left = range(settled if is_done else 0, messages)
        assert await delivered_to(other, world) == list(left)
        assert await other.dead_events() == (buried if is_done else [])
        documents, locks, _ = await snapshot(world)
        assert (documents, locks) == ([], [])

    await at_every_point(HAPPENINGS[happening], scenario)


@pytest.mark.parametrize("case", CASES)
async def test_message_published_while_a_batch_is_settled_is_delivered(
    stage: Stage, case: str
) -> None:
    settle, settled, _ = CASES[case]

    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, other = await world.join(script), await world.join()
        lease = await leased(worker, messages=HELD)
        script.happening = lambda _: other.transport.publish("g", "late")
        (await script.run(settle(worker.transport, lease))).result()
        late = ["late"] if script.has_struck else []
        assert await delivered_to(other, world) == [*range(settled, HELD), *late]

    await at_every_point(None, scenario)


@pytest.mark.parametrize("case", CASES)
async def test_settlement_of_a_batch_that_somebody_else_has_changes_nothing(
    stage: Stage, case: str
) -> None:
    settle, _, _ = CASES[case]

    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, other = await world.join(script), await world.join()
        late = await leased(worker, messages=HELD)
        world.clock.advance(LONG)
        new = await other.transport.claim("other", batch=HELD)
        assert new is not None
        script.happening = lambda _: other.transport.repair()
        assert not (await script.run(settle(worker.transport, late))).result()
        assert await other.transport.ack(new)
        assert await delivered_to(other, world) == [1, 2]  # what came again came alone

    await at_every_point(None, scenario)


@pytest.mark.parametrize("happening", HAPPENINGS)
async def test_interrupted_claim_of_a_batch_loses_and_repeats_nothing(
    stage: Stage, happening: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        worker, other = await world.join(script), await world.join()
        first = await leased(other, messages=HELD + 2)
        await other.transport.nack(first, done=1)
        await script.run(worker.transport.claim("worker", batch=HELD))
        assert await delivered_to(other, world) == [1, 2, 3, 4]

    await at_every_point(HAPPENINGS[happening], scenario)
