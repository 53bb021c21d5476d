"""The head of a group dies: others are delivered, or the group is stopped until it comes back."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, ConfigurationError, DeadLetter, Lease, WorkerPool
from fairlane.lease.settings import SWITCH
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Claim = Callable[..., Awaitable[Lease[Any]]]

EVENTS = ["m1", "m2", "m3"]


@pytest.fixture
def transport(make_transport: MakeTransport) -> Transport:
    return make_transport(dead_head="stop")


@pytest.fixture
async def stopped(transport: Transport, claim: Claim) -> DeadLetter[Any]:
    """The dead letter of m1, which stops its group; m2 and m3 stand behind it."""
    await transport.publish_many([("g", event) for event in EVENTS])
    assert await transport.dead_letter(await claim(), "because")
    return await the_letter(transport)


async def the_letter(transport: Transport) -> DeadLetter[Any]:
    (letter,) = [letter async for letter in transport.dead_letters()]
    return letter


async def drained(transport: Transport) -> list[Any]:
    """Deliver all that is due, one message after the other, and return the events."""
    events = []
    while lease := await transport.claim("w"):
        events.append(lease.event)
        assert await transport.ack(lease)
    return events


async def test_others_are_delivered_without_a_dead_head_unless_asked(
    make_transport: MakeTransport, claim: Claim
) -> None:
    skipping = make_transport()
    await skipping.publish_many([("g", event) for event in EVENTS])
    await skipping.dead_letter(await claim(), "because")
    assert not (await the_letter(skipping)).is_stopping
    assert await drained(skipping) == ["m2", "m3"]


def test_policy_that_does_not_exist_is_refused(make_transport: MakeTransport) -> None:
    with pytest.raises(ConfigurationError, match=r"dead_head must be one of \('skip', 'stop'\)"):
        make_transport(dead_head="wait")


@pytest.mark.usefixtures("stopped")
async def test_group_of_a_dead_head_is_held(transport: Transport) -> None:
    assert await transport.claim("w") is None
    assert await transport.claim_many("w", 5) == []
    assert await transport.next_due() is None
    assert [message.event for message in await transport.peek("g")] == ["m2", "m3"]


@pytest.mark.usefixtures("stopped")
async def test_stats_tell_of_a_stopped_group(transport: Transport) -> None:
    stats = await transport.stats()
    assert (stats.groups, stats.stopped) == (1, 1)
    assert (stats.ready, stats.leased, stats.parked) == (0, 0, 0)
    assert (stats.messages, stats.dead) == (2, 1)


async def test_dead_letter_tells_that_it_stops_its_group(
    transport: Transport, stopped: DeadLetter[Any]
) -> None:
    assert stopped.is_stopping
    await transport.resume("g")
    assert not (await the_letter(transport)).is_stopping


async def test_redriven_message_that_stopped_its_group_comes_back_at_its_front(
    transport: Transport, stopped: DeadLetter[Any]
) -> None:
    assert await transport.redrive(seq=stopped.seq) == 1
    assert (await transport.stats()).stopped == 0
    assert await drained(transport) == EVENTS
    assert (await transport.stats()).groups == 0


@pytest.mark.usefixtures("stopped")
async def test_resumed_group_goes_on_without_its_dead_message(transport: Transport) -> None:
    assert await transport.resume("g")
    assert await drained(transport) == ["m2", "m3"]
    assert (await the_letter(transport)).event == "m1"


@pytest.mark.usefixtures("stopped")
async def test_message_of_a_group_that_was_resumed_comes_back_at_its_end(
    transport: Transport,
) -> None:
    await transport.resume("g")
    await transport.redrive()
    assert await drained(transport) == ["m2", "m3", "m1"]


async def test_resume_says_whether_the_group_was_stopped(
    transport: Transport, stopped: DeadLetter[Any]
) -> None:
    assert not await transport.resume("another")
    assert await transport.resume(stopped.group_id)
    assert not await transport.resume(stopped.group_id)


async def test_group_is_stopped_with_nothing_behind_its_dead_message(
    transport: Transport, claim: Claim
) -> None:
    await transport.publish("g", "m1")
    await transport.dead_letter(await claim(), "because")
    assert (await transport.stats()).stopped == 1
    await transport.publish("g", "m2")
    assert await transport.claim("w") is None
    assert await transport.redrive() == 1
    assert await drained(transport) == ["m1", "m2"]


async def test_lock_of_a_group_that_is_resumed_with_nothing_behind_goes(
    transport: Transport, claim: Claim
) -> None:
    await transport.publish("g", "m1")
    await transport.dead_letter(await claim(), "because")
    await transport.resume("g")
    assert await drained(transport) == []
    assert (await transport.stats()).groups == 0


@pytest.mark.usefixtures("stopped")
async def test_redriven_message_may_die_and_stop_its_group_again(
    transport: Transport, claim: Claim
) -> None:
    for _ in range(2):
        await transport.redrive()
        lease = await claim()
        assert (lease.event, lease.attempt) == ("m1", 1)
        await transport.dead_letter(lease, "again")
    again = await the_letter(transport)
    assert (again.is_stopping, (await transport.stats()).stopped) == (True, 1)
    assert await transport.redrive(seq=again.seq) == 1
    assert await drained(transport) == EVENTS


@pytest.mark.usefixtures("stopped")
async def test_redrives_of_a_stopping_message_at_once_bring_it_back_once(
    transport: Transport,
) -> None:
    numbers = await asyncio.gather(*(transport.redrive() for _ in range(4)))
    assert sum(numbers) == 1
    assert await drained(transport) == EVENTS


async def test_group_is_stopped_by_a_death_in_the_middle_of_a_batch(
    transport: Transport, claim: Claim
) -> None:
    await transport.publish_many([("g", event) for event in EVENTS])
    lease = await claim(batch=3)
    assert await transport.dead_letter(lease, "because", done=1)
    assert await transport.claim("w") is None
    assert (await the_letter(transport)).event == "m2"
    await transport.redrive()
    assert await drained(transport) == ["m2", "m3"]


async def test_group_is_stopped_by_the_last_of_a_batch(transport: Transport, claim: Claim) -> None:
    await transport.publish_many([("g", event) for event in EVENTS])
    await transport.dead_letter(await claim(batch=3), "because", done=2)
    assert (await transport.stats()).stopped == 1
    await transport.redrive()
    assert await drained(transport) == ["m3"]


class Strict:
    """A codec that cannot decode "m1" before it is mended."""

    is_mended = False

    def encode(self, event: Any) -> Any:
        return event

    def decode(self, value: Any) -> Any:
        if value == "m1" and not self.is_mended:
            raise ValueError("no such version")
        return value


async def test_head_that_cannot_be_decoded_stops_its_group_until_it_can(
    make_transport: MakeTransport,
) -> None:
    codec = Strict()
    transport = make_transport(dead_head="stop", codec=codec)
    await transport.publish_many([("g", event) for event in EVENTS])
    assert await drained(transport) == []
    assert (await transport.stats()).stopped == 1
    codec.is_mended = True
    await transport.redrive()
    assert await drained(transport) == EVENTS


@pytest.mark.usefixtures("stopped")
async def test_stopped_group_survives_every_repair(
    transport: Transport, clock: ManualClock
) -> None:
    clock.advance(1_000_000)
    await transport.repartition(3)
    clock.advance(SWITCH + 60)
    for full in (False, True):
        await transport.repair(full=full)
        await transport.reconcile()
    assert await drained(transport) == []
    assert (await transport.stats()).stopped == 1
    await transport.redrive()
    assert await drained(transport) == EVENTS


@pytest.mark.usefixtures("stopped")
async def test_group_is_stopped_for_programs_that_skip(make_transport: MakeTransport) -> None:
    assert await drained(make_transport()) == []


@pytest.mark.usefixtures("stopped")
async def test_full_repair_of_a_message_at_the_front_begins_a_life_as_any_other(
    transport: Transport, database: Any, clock: ManualClock, claim: Claim
) -> None:
    """Its negative number must not become an epoch."""
    await transport.redrive()
    await database["fairlane_locks"].delete_many({})
    clock.advance(60)
    assert (await transport.repair(full=True)).repaired == 1
    lease = await claim()
    assert (lease.event, lease.epoch > 0) == ("m1", True)


@pytest.mark.usefixtures("stopped")
async def test_message_at_the_front_hides_no_older_one(
    transport: Transport, clock: ManualClock
) -> None:
    clock.advance(100)
    await transport.redrive()
    clock.advance(5)
    assert (await transport.stats()).oldest_age == 105


async def test_pool_stops_a_group_whose_head_fails_too_often(
    transport: Transport,
) -> None:
    """Fault 23."""
    await transport.publish_many([("g", "m1"), ("g", "m2"), ("h", "other")])
    handled: list[Any] = []

    async def handle(lease: Lease[Any]) -> None:
        handled.append(lease.event)
        if lease.event == "other":
            pool.stop()
        raise ValueError("never")

    pool = WorkerPool(transport, handle, max_attempts=1, concurrency=1)
    await pool.run()
    assert handled == ["m1", "other"]
    assert (await transport.stats()).stopped == 2
