"""Messages that will not be delivered any more, and how they come back."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Binary
from pymongo.errors import DocumentTooLarge, InvalidURI

from fairlane import AsyncMongoTransport, DeadLetter, Lease, PayloadError
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Claim = Callable[..., Awaitable[Lease[Any]]]
Snapshot = Callable[[], Awaitable[dict[str, Any]]]


async def letters(transport: Transport, group_id: str | None = None) -> list[DeadLetter[Any]]:
    return [letter async for letter in transport.dead_letters(group_id)]


@pytest.fixture
async def three_dead(transport: Transport, claim: Claim) -> list[int]:
    """Dead letters with the events 1 and 3 of group "a" and 2 of group "b"; their numbers."""
    seqs = await transport.publish_many([("a", 1, 2), ("b", 2), ("a", 3)])
    for _ in seqs:
        await transport.dead_letter(await claim(), "why")
    return seqs


async def test_dead_letter_takes_the_message_out_of_its_group(
    transport: Transport, claim: Claim
) -> None:
    await transport.publish_many([("g", 1), ("g", 2)])
    assert await transport.dead_letter(await claim(), "why")
    assert [message.event for message in await transport.peek("g")] == [2]
    assert (await claim()).event == 2


async def test_dead_letter_of_the_only_message_removes_the_group(
    transport: Transport, claim: Claim, snapshot: Snapshot
) -> None:
    await transport.publish("g", 1)
    await transport.dead_letter(await claim(), "why")
    left = await snapshot()
    assert (left["fairlane_locks"], left["fairlane_messages"]) == ([], [])


async def test_dead_letter_tells_what_died_when_and_why(
    transport: Transport, claim: Claim, clock: ManualClock
) -> None:
    seq = await transport.publish("g", {"a": 1}, 3)
    await transport.nack(await claim())
    clock.advance(90)
    await transport.dead_letter(await claim(), "cannot be handled")
    (letter,) = await letters(transport)
    assert letter == DeadLetter(
        seq=seq,
        group_id="g",
        event={"a": 1},
        priority=3,
        reason="cannot be handled",
        attempts=2,
        died_at=datetime.fromtimestamp(1_000_090, UTC),
        published_at=datetime.fromtimestamp(1_000_000, UTC),
    )


async def test_long_reason_is_cut(transport: Transport, claim: Claim) -> None:
    await transport.publish("g", 1)
    await transport.dead_letter(await claim(), "x" * 100_000)
    (letter,) = await letters(transport)
    assert letter.reason == "x" * 4_000


@pytest.mark.usefixtures("three_dead")
async def test_dead_letters_come_oldest_message_first(transport: Transport) -> None:
    assert [letter.event for letter in await letters(transport)] == [1, 2, 3]


@pytest.mark.usefixtures("three_dead")
async def test_dead_letters_of_one_group(transport: Transport) -> None:
    assert [letter.event for letter in await letters(transport, "a")] == [1, 3]
    assert await letters(transport, "none") == []


@pytest.mark.usefixtures("three_dead")
async def test_iteration_over_dead_letters_may_end_early(transport: Transport) -> None:
    iterator = transport.dead_letters()
    async for letter in iterator:
        assert letter.event == 1
        break
    await iterator.aclose()  # type: ignore[attr-defined]
    assert len(await letters(transport)) == 3


@pytest.mark.usefixtures("three_dead")
async def test_redrive_publishes_all_again(transport: Transport, claim: Claim) -> None:
    assert await transport.redrive() == 3
    assert await letters(transport) == []
    leases = [await claim(), await claim()]
    assert {(lease.group_id, lease.event) for lease in leases} == {("a", 1), ("b", 2)}


@pytest.mark.usefixtures("three_dead")
async def test_redrive_of_one_group_leaves_the_others_dead(transport: Transport) -> None:
    assert await transport.redrive(group_id="a") == 2
    assert [letter.event for letter in await letters(transport)] == [2]
    assert [message.event for message in await transport.peek("a")] == [1, 3]


async def test_redrive_of_one_message_leaves_the_others_dead(
    transport: Transport, three_dead: list[int]
) -> None:
    assert await transport.redrive(seq=three_dead[2]) == 1
    assert [letter.event for letter in await letters(transport)] == [1, 2]


async def test_redrive_with_both_conditions_wants_both(
    transport: Transport, three_dead: list[int]
) -> None:
    assert await transport.redrive(group_id="b", seq=three_dead[0]) == 0
    assert len(await letters(transport)) == 3


async def test_redrive_of_nothing_does_nothing(transport: Transport) -> None:
    assert await transport.redrive() == 0
    assert await transport.redrive(seq=99) == 0


@pytest.mark.usefixtures("three_dead")
async def test_redriven_message_is_new_at_the_end_of_its_group(
    transport: Transport, claim: Claim
) -> None:
    newer = await transport.publish("a", "newer")
    await transport.redrive(group_id="a")
    lease = await claim()
    assert (lease.event, lease.seq) == ("newer", newer)
    await transport.ack(lease)
    redriven = await claim()
    assert (redriven.event, redriven.attempt) == (1, 1)
    assert redriven.seq > newer


@pytest.mark.usefixtures("three_dead")
async def test_redriven_group_has_its_old_priority(transport: Transport, claim: Claim) -> None:
    await transport.redrive(group_id="a")
    assert (await claim(min_priority=2)).priority == 2


@pytest.mark.usefixtures("three_dead")
async def test_redriven_message_may_die_again(transport: Transport, claim: Claim) -> None:
    await transport.redrive(group_id="b")
    await transport.dead_letter(await claim(), "again")
    assert [letter.reason for letter in await letters(transport, "b")] == ["again"]
    assert await transport.redrive(group_id="b") == 1
    assert (await claim()).event == 2


@pytest.mark.usefixtures("three_dead")
async def test_redriven_message_may_be_acked(
    transport: Transport, claim: Claim, snapshot: Snapshot
) -> None:
    await transport.redrive()
    for _ in range(3):
        await transport.ack(await claim())
    left = await snapshot()
    assert {name: left[name] for name in left if name != "fairlane_counters"} == {
        "fairlane_dead": [],
        "fairlane_locks": [],
        "fairlane_messages": [],
    }


@pytest.mark.usefixtures("three_dead")
async def test_redrives_at_the_same_time_publish_each_letter_once(transport: Transport) -> None:
    numbers = await asyncio.gather(*(transport.redrive() for _ in range(4)))
    assert sum(numbers) == 3
    assert (await transport.stats()).messages == 3


@pytest.fixture
async def cut_off(transport: Transport, database: Any, three_dead: list[int]) -> None:
    """A redrive of the first dead letter that ended after its decision."""
    seq = await transport._store.reserve(1)
    decision = {"redriven_as": seq, "rising": True}
    await database["fairlane_dead"].update_one({"_id": three_dead[0]}, {"$set": decision})


@pytest.mark.usefixtures("cut_off")
async def test_redrive_that_was_cut_off_is_finished_by_repair(transport: Transport) -> None:
    assert (await transport.repair()).finished == 1
    assert [message.event for message in await transport.peek("a")] == [1]
    assert (await transport.repair()).finished == 0


@pytest.mark.usefixtures("cut_off")
async def test_redrive_that_was_cut_off_is_finished_by_the_next(transport: Transport) -> None:
    assert await transport.redrive(group_id="b") == 1
    assert (await transport.stats()).messages == 2


@pytest.mark.usefixtures("cut_off")
async def test_message_is_among_the_dead_or_in_its_group_and_never_hidden(
    transport: Transport,
) -> None:
    assert [letter.event for letter in await letters(transport)] == [2, 3]
    assert [message.event for message in await transport.peek("a")] == [1]
    stats = await transport.stats()
    assert (stats.dead, stats.messages) == (2, 1)


@pytest.mark.usefixtures("three_dead")
async def test_redriven_message_that_comes_back_after_its_settlement_is_not_delivered(
    transport: Transport, database: Any, claim: Claim
) -> None:
    """Statement 34: a redrive stood still, and goes on with its insert after all is over."""
    await transport.redrive(group_id="b")
    inserted = await database["fairlane_messages"].find_one({"group_id": "b"})
    await transport.ack(await claim())
    await database["fairlane_messages"].insert_one(inserted)
    await transport.publish("b", "next")
    assert (await claim()).event == "next"


class Picky:
    """A codec that cannot decode "bad"."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def encode(self, event: Any) -> Any:
        return event

    def decode(self, value: Any) -> Any:
        if value == "bad":
            raise self._error
        return value


@pytest.fixture(
    params=[
        ValueError("no such version"),
        KeyError("cents"),
        RecursionError(),
        PayloadError("event", "no"),
        ValueError("half of a pair: \ud800"),
        ValueError("x" * 100_000),
    ],
    ids=["ValueError", "KeyError", "RecursionError", "PayloadError", "surrogate", "long"],
)
def picky(request: pytest.FixtureRequest, make_transport: MakeTransport) -> Transport:
    return make_transport(codec=Picky(request.param))


async def test_message_that_cannot_be_decoded_goes_to_the_dead_letters(picky: Transport) -> None:
    """Statement 41: the claim goes on with the next message."""
    await picky.publish_many([("g", "bad"), ("g", "good")])
    lease = await picky.claim("w")
    assert lease is not None
    assert lease.event == "good"
    (letter,) = await letters(picky)
    assert (letter.seq, letter.attempts, letter.event) == (1, 1, None)
    assert letter.reason.startswith("cannot be decoded: ")
    assert letter.decode_error is not None


async def test_only_message_that_cannot_be_decoded_leaves_an_empty_transport(
    picky: Transport,
) -> None:
    """Statement 41."""
    await picky.publish("g", "bad")
    assert await picky.claim("w") is None
    stats = await picky.stats()
    assert (stats.groups, stats.messages, stats.dead) == (0, 0, 1)


async def test_message_that_cannot_be_decoded_comes_back_to_those_who_can(
    picky: Transport, transport: Transport, claim: Claim
) -> None:
    """Statement 41: it was moved as it is."""
    await picky.publish("g", "bad")
    await picky.claim("w")
    assert await picky.redrive() == 1
    assert (await claim()).event == "bad"


async def insert_undecodable(database: Any, seq: int) -> None:
    """Store a message that no driver with our options decodes: a UUID of three bytes."""
    await database["fairlane_messages"].insert_one(
        {"_id": seq, "group_id": "g", "event": Binary(b"abc", 4)}
    )


@pytest.mark.parametrize("bad_seq", [1, 2, 3])
async def test_message_that_no_driver_decodes_goes_to_the_dead_letters_alone(
    transport: Transport, database: Any, bad_seq: int
) -> None:
    """Statement 41: its neighbours are delivered, whether they stand before or behind it."""
    good = {1: "one", 2: "two", 3: "three"}
    await transport.publish_many([("g", event) for event in good.values()])
    await database["fairlane_messages"].delete_one({"_id": bad_seq})
    await insert_undecodable(database, bad_seq)
    del good[bad_seq]
    delivered = []
    while (lease := await transport.claim("w")) is not None:
        delivered.append(lease.event)
        await transport.ack(lease)
    assert delivered == list(good.values())
    (letter,) = await letters(transport)
    assert (letter.seq, letter.event) == (bad_seq, None)
    assert letter.decode_error is not None


async def test_message_that_no_driver_decodes_comes_back_as_it_was(
    transport: Transport, database: Any
) -> None:
    """Statement 41: a redrive does not look inside."""
    await transport.publish("g", 1)
    await database["fairlane_messages"].delete_one({"_id": 1})
    await insert_undecodable(database, 1)
    assert await transport.claim("w") is None
    assert await transport.redrive() == 1
    stored = await database["fairlane_messages"].find_one({"_id": 2})
    assert stored["event"] == Binary(b"abc", 4)


async def test_document_without_an_event_goes_to_the_dead_letters(
    transport: Transport, database: Any, claim: Claim
) -> None:
    """Statement 41: somebody else wrote into the collection."""
    await transport.publish_many([("g", 1), ("g", 2)])
    await database["fairlane_messages"].update_one({"_id": 1}, {"$unset": {"event": ""}})
    assert (await claim()).event == 2
    (letter,) = await letters(transport)
    assert (letter.seq, letter.event) == (1, None)


async def test_dead_letter_without_an_event_does_not_stop_the_others(
    transport: Transport, database: Any, claim: Claim
) -> None:
    """It stays where it is, for people to look at, and repair goes on working."""
    await transport.publish_many([("g", 1), ("g", 2)])
    await database["fairlane_messages"].update_one({"_id": 1}, {"$unset": {"event": ""}})
    await transport.dead_letter(await claim(), "why")
    assert await transport.redrive() == 1
    assert [letter.seq for letter in await letters(transport)] == [1]
    assert (await transport.repair()).finished == 0
    assert (await claim()).event == 2


async def test_letter_that_cannot_be_stored_stops_nobody_else(
    transport: Transport, claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message of another design may be so large that its letter is too large."""
    await transport.publish_many([("large", 1), ("other", 2)])
    insert = transport._store.dead.insert

    async def refuse(documents: Any) -> None:
        if documents[0]["group_id"] == "large":
            raise DocumentTooLarge("too large by what a letter adds")
        await insert(documents)

    monkeypatch.setattr(transport._store.dead, "insert", refuse)
    for _ in range(2):
        await transport.dead_letter(await claim(), "why")
    assert await transport.claim("w") is None
    assert [letter.group_id for letter in await letters(transport)] == ["other"]
    monkeypatch.undo()
    assert [letter.group_id for letter in await letters(transport)] == ["large", "other"]


class Treacherous(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("error", [Treacherous(), InvalidURI("not a URI")], ids=["str", "driver"])
async def test_whatever_a_codec_raises_sends_the_message_to_the_dead_letters(
    make_transport: Callable[..., Transport], error: Exception
) -> None:
    """Statement 41."""

    class Codec:
        def encode(self, event: Any) -> Any:
            return event

        def decode(self, value: Any) -> Any:
            raise error

    transport = make_transport(codec=Codec())
    await transport.publish("g", 1)
    assert await transport.claim("w") is None
    (letter,) = await letters(transport)
    assert type(error).__name__ in letter.reason


async def test_letter_keeps_the_end_of_a_traceback(transport: Transport, claim: Claim) -> None:
    await transport.publish("g", 1)
    await transport.dead_letter(await claim(), "why", traceback="x" * 9_000 + "the end")
    (letter,) = [letter async for letter in transport.dead_letters()]
    assert letter.traceback is not None
    assert len(letter.traceback) == 4_000
    assert letter.traceback.endswith("the end")
