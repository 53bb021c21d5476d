"""Batches that fail, are cancelled, or find something wrong in their groups (statement 61)."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import pytest
from bson.binary import Binary
from pymongo.errors import AutoReconnect, OperationFailure

from contract.batches import Commands, Open, after, cancel, groups_of, lose_reply, once, taken
from fairlane import AsyncMongoTransport, Lease
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
FailCommand = Callable[..., Awaitable[None]]

REFUSED = 8_000
TOO_LARGE = 10_334
MEGABYTE = 2**20
FAR = 2_000_000.0
GOOD = ["a", "b", "c"]


@pytest.fixture
async def transport(open_on: Open) -> Transport:
    return await open_on()


@pytest.fixture
async def due(transport: Transport) -> list[str]:
    await publish(transport)
    return GOOD


async def publish(transport: Transport) -> None:
    await transport.publish_many([(group, group) for group in GOOD])


async def expect_all_claimable(transport: Transport, *, attempt: int = 1) -> list[Lease[Any]]:
    leases = await transport.claim_many("next", 10)
    assert sorted(groups_of(leases)) == GOOD
    assert {lease.attempt for lease in leases} == {attempt}
    return leases


async def test_batch_that_is_cancelled_at_any_command_gives_all_back(
    transport: Transport, commands: Commands
) -> None:
    """Statements 36 and 61: before each of its commands and after."""
    for point in count():
        await publish(transport)
        claim = await commands.disturb(transport.claim_many("w", 10), point, cancel)
        assert claim.cancelled() == commands.has_struck
        leases = claim.result() if not claim.cancelled() else await expect_all_claimable(transport)
        assert await transport.ack_many(leases) == [True] * len(GOOD)
        if not commands.has_struck:
            break
    assert point >= 6, "a batch is three commands"


async def test_batch_that_loses_the_reply_to_any_command_gives_all_back(
    transport: Transport, commands: Commands
) -> None:
    """Statements 36 and 61: also to the updates, which were applied."""
    for point in count(1, 2):
        await publish(transport)
        claim = await commands.disturb(transport.claim_many("w", 10), point, lose_reply)
        assert isinstance(claim.exception(), AutoReconnect) == commands.has_struck
        leases = claim.result() if not claim.exception() else await expect_all_claimable(transport)
        assert await transport.ack_many(leases) == [True] * len(GOOD)
        if not commands.has_struck:
            break
    assert point >= 6, "a batch is three commands"


REFUSALS: dict[str, tuple[tuple[str, ...], Any]] = {
    # name: the commands that are refused, and when
    "look": (("find",), {"times": 1}),
    "bid": (("update",), {"times": 1}),
    "read back": (("aggregate", "find"), {"skip": 1}),
}


@pytest.mark.usefixtures("due")
@pytest.mark.parametrize("step", REFUSALS)
async def test_batch_whose_command_is_refused_gives_all_back(
    transport: Transport, fail_command: FailCommand, step: str
) -> None:
    """Statement 61."""
    refused, mode = REFUSALS[step]
    await fail_command(*refused, mode=mode, errorCode=REFUSED)
    with pytest.raises(OperationFailure) as raised:
        await transport.claim_many("w", 10)
    assert raised.value.code == REFUSED
    await fail_command(*refused, mode="off")
    await expect_all_claimable(transport)


@pytest.mark.usefixtures("due")
async def test_batch_whose_connection_breaks_gives_all_back(
    transport: Transport, fail_command: FailCommand
) -> None:
    """Statement 61: the driver reads a second time, and fails again."""
    await fail_command("aggregate", "find", mode={"skip": 1}, closeConnection=True)
    with pytest.raises(AutoReconnect):
        await transport.claim_many("w", 10)
    await fail_command("find", mode="off")
    await expect_all_claimable(transport)


@pytest.mark.usefixtures("due")
async def test_batch_that_cannot_be_given_back_runs_out(
    transport: Transport,
    fail_command: FailCommand,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    await fail_command("aggregate", "find", "update", mode={"skip": 2}, errorCode=REFUSED)
    with caplog.at_level(logging.WARNING, logger="fairlane"), pytest.raises(OperationFailure):
        await transport.claim_many("w", 10, 30)
    await fail_command("find", mode="off")
    assert "3 leases run out by themselves" in caplog.text
    assert await transport.claim_many("w", 10) == []
    clock.advance(30)
    await expect_all_claimable(transport, attempt=2)


# What a claim puts right on its way


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What is wrong with group "g", and what becomes of its messages.

    Attributes:
        first: what the batch delivers of it; None if nothing.
        then: what the next batch delivers.
        dead: the events that are dead letters in the end.
    """

    arrange: Callable[[Transport, Any, pytest.MonkeyPatch], Awaitable[object]]
    first: Any = None
    then: Any = None
    dead: tuple[Any, ...] = ()


async def empty(transport: Transport, database: Any, _: pytest.MonkeyPatch) -> None:
    await transport.publish("g", 1)
    await database["fairlane_messages"].delete_many({})


async def settled(transport: Transport, database: Any, _: pytest.MonkeyPatch) -> None:
    seqs = await transport.publish_many([("g", 1), ("g", 2)])
    await database["fairlane_locks"].update_one({"_id": "g"}, {"$set": {"done": seqs[:1]}})


async def all_settled(transport: Transport, database: Any, _: pytest.MonkeyPatch) -> None:
    seqs = await transport.publish_many([("g", 1), ("g", 2)])
    await database["fairlane_locks"].update_one({"_id": "g"}, {"$set": {"done": seqs}})


async def undecodable(transport: Transport, database: Any, _: pytest.MonkeyPatch) -> None:
    seq, _second = await transport.publish_many([("g", 1), ("g", 2)])
    broken = {"event": Binary(b"abc", 4)}  # a UUID of three bytes
    await database["fairlane_messages"].update_one({"_id": seq}, {"$set": broken})


async def noted(transport: Transport, _: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker died after the settlement, before it moved the message."""

    async def die(*_: Any) -> bool:
        return False

    await transport.publish_many([("g", 1), ("g", 2)])
    (lease,) = await transport.claim_many("w", 2)
    with monkeypatch.context() as dying:
        dying.setattr(transport._dead._burial, "try_complete", die)
        assert await transport.dead_letter(lease, "why")


async def redriven(transport: Transport, _: Any, __: pytest.MonkeyPatch) -> None:
    await transport.publish("g", 1)
    (lease,) = await transport.claim_many("w", 2)
    await transport.dead_letter(lease, "why")
    assert await transport.redrive() == 1


async def redriven_and_settled(
    transport: Transport, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redrive that stood still inserts the message again after it was settled."""
    await redriven(transport, database, monkeypatch)
    await transport.publish("g", 2)
    await database["fairlane_dead"].delete_many({})


LEFTOVERS: dict[str, Leftover] = {
    "no message": Leftover(arrange=empty),
    "a settled message": Leftover(arrange=settled, first=2),
    "settled messages only": Leftover(arrange=all_settled),
    "an undecodable message": Leftover(arrange=undecodable, then=2, dead=(None,)),
    "a note": Leftover(arrange=noted, first=2, dead=(1,)),
    "a redriven message": Leftover(arrange=redriven, first=1),
    "a settled redriven message": Leftover(arrange=redriven_and_settled, then=2),
}


@pytest.mark.parametrize("kind", LEFTOVERS)
async def test_batch_puts_a_group_right_and_hands_the_others_out(
    transport: Transport, database: Any, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    leftover = LEFTOVERS[kind]
    await leftover.arrange(transport, database, monkeypatch)
    await publish(transport)
    delivered = []
    for _ in range(2):
        leases = await transport.claim_many("w", 10)
        delivered.append({lease.group_id: lease.event for lease in leases})
        assert all(await transport.ack_many(leases))
    first = {} if leftover.first is None else {"g": leftover.first}
    then = {} if leftover.then is None else {"g": leftover.then}
    assert delivered == [{**dict(zip(GOOD, GOOD, strict=True)), **first}, then]
    assert [letter.event async for letter in transport.dead_letters()] == list(leftover.dead)
    for name in ("locks", "messages"):
        assert await database[f"fairlane_{name}"].count_documents({}) == 0


class Picky:
    """A codec that cannot read one of the events."""

    def encode(self, event: Any) -> Any:
        return event

    def decode(self, value: Any) -> Any:
        if value == "b":
            raise ValueError("no b")
        return value


async def test_message_that_the_codec_refuses_goes_to_the_dead_letters_alone(
    open_on: Open,
) -> None:
    """Statement 41."""
    transport = await open_on(codec=Picky())
    await publish(transport)
    assert sorted(groups_of(await transport.claim_many("w", 10))) == ["a", "c"]
    (letter,) = [letter async for letter in transport.dead_letters()]
    assert (letter.group_id, letter.decode_error) == ("b", "ValueError: no b")


@pytest.mark.usefixtures("due")
async def test_batch_that_cannot_be_read_together_is_read_one_by_one(
    transport: Transport, fail_command: FailCommand
) -> None:
    """Where a lock and its front are more than a document may hold MongoDB refuses to join them."""
    await fail_command("aggregate", errorCode=TOO_LARGE)
    await expect_all_claimable(transport)


@pytest.mark.slow
@pytest.mark.usefixtures("due")
async def test_group_whose_messages_are_large_together_is_in_the_batch(
    transport: Transport,
) -> None:
    """Each is allowed; three of them and the lock are more than a document may hold."""
    await transport.publish_many([("g", bytes([n]) * (7 * MEGABYTE)) for n in range(3)])
    leases = await transport.claim_many("w", 10)
    assert sorted(groups_of(leases)) == [*GOOD, "g"]
    (large,) = [lease for lease in leases if lease.group_id == "g"]
    assert large.event == bytes(7 * MEGABYTE)


@pytest.mark.usefixtures("due")
async def test_group_that_is_lost_before_its_lock_is_put_right_is_not_handed_out(
    transport: Transport, clock: ManualClock, database: Any
) -> None:
    """Attempts of a message that was delivered before are noted in the lock, if it is held."""
    await transport.claim_many("w", 10, 30)
    clock.advance(30)

    async def take(_: Any) -> None:
        await taken(database, ["b"], until=FAR)

    after(transport._claimer._delivery, "_front", once(take))
    assert sorted(groups_of(await transport.claim_many("w", 10))) == ["a", "c"]
    lock = await database["fairlane_locks"].find_one({"_id": "b"})
    assert (lock["token"], lock.get("head")) == ("rival:b", None)
