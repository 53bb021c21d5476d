"""Every operation of the transport, what must be there before it, and what its caller does next."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from fairlane import Lease
from property.script import Crashed, Outcome, Script, crash
from property.world import Participant, World

__all__ = ("OPERATIONS", "Operation")

Arrange = Callable[[World, Participant], Awaitable[Any]]
Act = Callable[[Participant, Any], Awaitable[Any]]
Then = Callable[[Participant, Any, Outcome], Awaitable[None]]

GRACE = 6.0
"""Seconds after which repair does what a publisher did not."""


async def nothing(*_: Any) -> None:
    """Leave it at that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What a victim does once, and what it does next whatever became of it.

    Attributes:
        arrange: prepares a world; what it returns goes to `act`, which may be called again.
        act: the operation.
        then: goes on as a caller would that does not know whether the operation took effect.
        is_repeatable: the driver repeats each of its commands: none changes many documents.
        is_decided_first: by its first command; what fails later is not the caller's.
    """

    act: Act
    arrange: Arrange = field(default=nothing)
    then: Then = field(default=nothing)
    is_repeatable: bool = True
    is_decided_first: bool = False


async def one_message(world: World, _: Participant) -> None:
    await (await world.join()).publish()


async def three_groups(world: World, _: Participant) -> None:
    await (await world.join()).publish_many("g", "h", "i")


async def leased_elsewhere(world: World, _: Participant) -> None:
    other = await world.join()
    await other.publish()
    await other.claimed()


async def head_acked(world: World, _: Participant) -> None:
    """Leave a group in the middle of its life."""
    other = await world.join()
    await other.publish_many("g", "g")
    await other.ack(await other.claimed())


async def leased(world: World, victim: Participant) -> Lease[Any]:
    await one_message(world, victim)
    return await victim.claimed()


async def leased_with_more_behind(world: World, victim: Participant) -> Lease[Any]:
    await one_message(world, victim)
    return await leased(world, victim)


async def ack_without_deletion(world: World, _: Participant) -> None:
    """Settle the first of two messages and die before its document is deleted."""
    await died_at("messages.delete_one", Participant.ack, world, messages=2)


async def ack_without_removal(world: World, _: Participant) -> None:
    """Settle the only message and die before the lock is removed."""
    await died_at("locks.delete_one", Participant.ack, world, messages=1)


async def death_without_burial(world: World, _: Participant) -> None:
    """Dead-letter the first of two messages and die before it is moved."""
    await died_at("messages.find_one", Participant.dead_letter, world, messages=2)


async def died_at(
    step: str,
    settle: Callable[[Participant, Lease[Any]], Coroutine[Any, Any, bool]],
    world: World,
    *,
    messages: int,
) -> None:
    """Settle the first message and die at the first driver call of that name."""
    for _ in range(messages):
        await (await world.join()).publish()
    script = Script(step, crash)
    dying = await world.join(script)
    outcome = await script.run(settle(dying, await dying.claimed()))
    assert isinstance(outcome.error, Crashed)


async def two_dead_letters(world: World, _: Participant) -> None:
    other = await world.join()
    for _event in range(2):
        await other.publish()
        await other.dead_letter(await other.claimed())


async def redriven(world: World, victim: Participant) -> None:
    await two_dead_letters(world, victim)
    await (await world.join()).redrive()


async def unlocked_messages(world: World, victim: Participant) -> None:
    """Store messages as publishers do that die before they make the group claimable."""
    other = await world.join()
    await other.publish_many("g", "h")
    store: Any = other.transport._store
    await store.locks._inner.delete_many({})
    world.clock.advance(GRACE)


async def all_kinds_of_harm(world: World, victim: Participant) -> None:
    await death_without_burial(world, victim)
    other = await world.join()
    await other.publish("h")
    store: Any = other.transport._store
    await store.locks._inner.delete_one({"_id": "h"})
    world.clock.advance(GRACE)


async def an_event(world: World, victim: Participant) -> int:
    await one_message(world, victim)
    return world.log.publishing("g")


async def publish_again(victim: Participant, event: int, _: Outcome) -> None:
    await victim.publish(event=event, message_id="m")
    events = [message.event for message in await victim.transport.peek("g")]
    assert events.count(event) == 1


async def ack_what_was_claimed(victim: Participant, _: Any, outcome: Outcome) -> None:
    claimed = outcome.value or []
    for lease in claimed if isinstance(claimed, list) else [claimed]:
        assert await victim.ack(lease)


def again(act: Act) -> Then:
    async def then(victim: Participant, subject: Any, _: Outcome) -> None:
        await act(victim, subject)

    return then


async def ack_after_extend(victim: Participant, lease: Lease[Any], _: Outcome) -> None:
    assert await victim.ack(lease), "whether or not it was extended, the lease is ours"


def claim_of(arrange: Arrange, *, is_repeatable: bool = True) -> Operation:
    return Operation(
        arrange=arrange,
        act=lambda victim, _: victim.claim(),
        then=ack_what_was_claimed,
        is_repeatable=is_repeatable,
    )


def settlement(act: Act, arrange: Arrange = leased_with_more_behind) -> Operation:
    return Operation(arrange=arrange, act=act, then=again(act), is_decided_first=True)


def repeated(act: Callable[[Participant], Awaitable[Any]], arrange: Arrange) -> Operation:
    """Return an operation without an argument that its caller repeats."""

    async def acted(victim: Participant, _: Any) -> Any:
        return await act(victim)

    return Operation(arrange=arrange, act=acted, then=again(acted), is_repeatable=False)


OPERATIONS: dict[str, Operation] = {
    "publish": Operation(act=lambda victim, _: victim.publish()),
    "publish-to-a-leased-group": Operation(
        arrange=leased_elsewhere, act=lambda victim, _: victim.publish()
    ),
    "publish-with-message-id": Operation(
        arrange=an_event,
        act=lambda victim, event: victim.publish(event=event, message_id="m"),
        then=publish_again,
    ),
    "publish-many": Operation(act=lambda victim, _: victim.publish_many("g", "h", "g")),
    "claim": claim_of(one_message),
    "claim-in-an-older-life": claim_of(head_acked),
    "claim-after-a-cut-off-ack": claim_of(ack_without_deletion, is_repeatable=False),
    "claim-of-a-lock-left-behind": claim_of(ack_without_removal),
    "claim-after-a-cut-off-death": claim_of(death_without_burial),
    "claim-of-a-redriven-message": claim_of(redriven),
    "claim-many": Operation(
        arrange=three_groups,
        act=lambda victim, _: victim.claim_many(3),
        then=ack_what_was_claimed,
    ),
    "ack": settlement(lambda victim, lease: victim.ack(lease)),
    "ack-of-the-last": settlement(lambda victim, lease: victim.ack(lease), leased),
    "nack": settlement(lambda victim, lease: victim.nack(lease)),
    "nack-with-a-delay": settlement(lambda victim, lease: victim.nack(lease, 60.0)),
    "release": settlement(lambda victim, lease: victim.release(lease)),
    "dead-letter": settlement(lambda victim, lease: victim.dead_letter(lease)),
    "dead-letter-of-the-last": settlement(lambda victim, lease: victim.dead_letter(lease), leased),
    "extend": Operation(
        arrange=leased,
        act=lambda victim, lease: victim.extend(lease),
        then=ack_after_extend,
    ),
    "redrive": repeated(Participant.redrive, two_dead_letters),
    "repair": repeated(Participant.repair, all_kinds_of_harm),
    "repair-in-full": repeated(lambda victim: victim.repair(full=True), unlocked_messages),
    "dead-letters": repeated(Participant.dead_events, death_without_burial),
}
