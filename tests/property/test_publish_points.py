"""Publish, disturbed at every driver call (statements 20, 21, 35 and 55; faults 2, 3 and 17)."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from property.scenes import leased, park, snapshot
from property.script import (
    Happening,
    Point,
    Script,
    at_every_point,
    cancel,
    cancel_twice,
    crash,
    fail,
)
from property.world import ALL_PLACES, Participant, Stage

Publish = Callable[[Participant], Coroutine[Any, Any, object]]

ENDINGS: dict[str, Happening] = {"crash": crash, "error": fail()}
CANCELLATIONS: dict[str, Happening] = {"once": cancel, "twice": cancel_twice}
IN_MEMORY = pytest.mark.memory_only
PUBLISHES: dict[str, Publish] = {
    "publish": Participant.publish,
    "publish_many": lambda publisher: publisher.publish_many("g", "h", "g"),
}
A_WHILE = 10.0
"""Seconds: longer than repair gives a publish in progress."""


@pytest.fixture(params=ALL_PLACES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["publish", pytest.param("publish_many", marks=IN_MEMORY)])
def publish(request: pytest.FixtureRequest) -> Publish:
    return PUBLISHES[request.param]


@pytest.fixture(params=["crash", pytest.param("error", marks=IN_MEMORY)])
def ending(request: pytest.FixtureRequest) -> Happening:
    return ENDINGS[request.param]


async def test_interrupted_publish_is_delivered_after_repair_or_stored_nothing(
    stage: Stage, publish: Publish, ending: Happening
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        publisher, other = await world.join(script), await world.join()
        await script.run(publish(publisher))
        stored = [message["event"] for message in await world.stored("messages")]
        world.clock.advance(A_WHILE)
        await other.repair()
        assert sorted(await world.drain(other)) == stored
        await world.check()

    await at_every_point(ending, scenario)


async def test_crashed_publish_many_is_delivered_after_repair_as_far_as_it_got(
    stage: Stage,
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        publisher = await world.join(script)
        await script.run(publisher.publish_many("g", "h", "g"))
        await world.check()

    await at_every_point(crash, scenario)


@IN_MEMORY
async def test_interrupted_publish_says_so_by_an_error(stage: Stage) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        publisher = await world.join(script)
        outcome = await script.run(publisher.publish())
        assert isinstance(outcome.error, AutoReconnect | None)
        assert (outcome.error is not None) == script.has_struck

    await at_every_point(fail(), scenario)


async def test_publish_repeated_with_its_message_id_yields_one_message(
    stage: Stage, ending: Happening
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        publisher, other = await world.join(script), await world.join()
        await script.run(publisher.publish(message_id="once"))
        await other.publish(event=0, message_id="once")
        assert await world.drain(other) == [0]
        await world.check()

    await at_every_point(ending, scenario)


@IN_MEMORY
async def test_repeat_of_a_message_id_may_itself_be_repeated(
    stage: Stage, ending: Happening
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        publisher, other = await world.join(script), await world.join()
        await other.publish(message_id="once")
        await script.run(publisher.publish(event=0, message_id="once"))
        await other.publish(event=0, message_id="once")
        assert await world.drain(other) == [0]
        await world.check()

    await at_every_point(ending, scenario)


@pytest.mark.parametrize("times", ["once", pytest.param("twice", marks=IN_MEMORY)])
async def test_cancelled_publish_is_whole_or_nothing_without_repair(
    stage: Stage, publish: Publish, times: str
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        publisher, other = await world.join(script), await world.join()
        outcome = await script.run(publish(publisher))
        assert outcome.is_cancelled == script.has_struck
        stored = await world.stored("messages")
        assert len(stored) in (0, len(world.log.stories))
        assert len(await world.drain(other)) == len(stored)
        await world.check()

    await at_every_point(CANCELLATIONS[times], scenario)


async def test_publish_overtaken_by_another_is_delivered(stage: Stage, publish: Publish) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        publisher, other = await world.join(script), await world.join()
        script.happening = lambda _: other.publish()
        (await script.run(publish(publisher))).result()
        await world.check()

    await at_every_point(None, scenario)


async def test_publish_overtaken_by_a_whole_life_of_its_group_is_delivered(
    stage: Stage, publish: Publish
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        publisher, other = await world.join(script), await world.join()

        async def whole_life(_: Script) -> None:
            await other.publish()
            await world.drain(other)

        script.happening = whole_life
        (await script.run(publish(publisher))).result()
        await world.check()

    await at_every_point(None, scenario)


@IN_MEMORY
async def test_message_published_after_the_return_of_another_is_delivered_after_it(
    stage: Stage,
) -> None:
    """Publish A, stop inside publish B of the same group, publish C: only B may change places."""

    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        publisher, other = await world.join(script), await world.join()
        first = await other.publish()
        script.happening = lambda _: other.publish()
        (await script.run(publisher.publish())).result()
        last = await other.publish()
        delivered = await world.drain(other)
        assert (delivered[0], delivered[-1]) == (first, last)
        await world.check()

    await at_every_point(None, scenario)


async def test_publish_into_a_group_that_drains_meanwhile_is_delivered(stage: Stage) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        publisher, worker = await world.join(script), await world.join()
        lease = await leased(world, worker, messages=1)
        script.happening = lambda _: worker.ack(lease)
        (await script.run(publisher.publish())).result()
        await world.check()

    await at_every_point(None, scenario)


async def test_publish_does_not_make_a_leased_group_claimable(stage: Stage) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        publisher, worker = await world.join(script), await world.join()
        await leased(world, worker)

        async def claim_nothing(_: Script) -> None:
            assert await worker.claim() is None

        script.happening = claim_nothing
        (await script.run(publisher.publish())).result()

    await at_every_point(None, scenario)


async def test_publish_does_not_unpark_a_group(stage: Stage) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        publisher, worker = await world.join(script), await world.join()
        await park(worker, await leased(world, worker))

        async def claim_nothing(_: Script) -> None:
            assert await worker.claim() is None

        script.happening = claim_nothing
        (await script.run(publisher.publish())).result()
        await world.check()

    await at_every_point(None, scenario)


async def test_repair_does_not_disturb_a_publish_in_progress(
    stage: Stage, publish: Publish
) -> None:
    async def scenario(script: Script) -> None:
        world = await stage.fresh()
        publisher, other = await world.join(script), await world.join()

        async def repair_and_claim(_: Script) -> None:
            world.clock.advance(A_WHILE)
            await other.repair()
            if lease := await other.claim():
                await other.ack(lease)

        script.happening = repair_and_claim
        (await script.run(publish(publisher))).result()
        await world.check()

    await at_every_point(None, scenario)


async def test_full_repair_finds_a_message_that_was_inserted_minutes_after_its_number(
    stage: Stage,
) -> None:
    """The watermark of the quick repair has passed the number whose message is still to come."""
    world = await stage.fresh()
    script = Script(Point(0, is_after=True))
    publisher, other = await world.join(script), await world.join()

    async def stall_while_others_go_on(script: Script) -> None:
        await other.publish("h")
        world.clock.advance(120.0)
        await other.repair()
        script.rearm("locks.upsert", crash)

    script.happening = stall_while_others_go_on
    await script.run(publisher.publish("g"))
    await world.check(full_repair=True)


@IN_MEMORY
async def test_refused_publish_writes_no_message(stage: Stage) -> None:
    world = await stage.fresh()
    publisher = await world.join()
    await publisher.publish("g", message_id="taken")
    before = await snapshot(world)
    with pytest.raises(Exception, match="taken"):
        await publisher.publish("h", message_id="taken")
    assert await snapshot(world) == before
