"""The known defects of the original design: exploration finds each, and none in the product.

Every scene is explored completely, on the original protocol and on the product. What is expected of
the original is the violated invariant, the smallest schedule that violates it, and how many do.
"""

from functools import partial
from typing import Any

import pytest

from fairlane import Lease
from property.actors import Actor, crash_after, go
from property.known_exploration import Cast, Defect, Scene, defect_of, expect_no_defect
from property.known_subjects import ProductStage, SeedStage
from property.scenes import EXPIRY, MOVES, died, leased
from property.wire import Step
from property.world import Participant, World

pytestmark = pytest.mark.usefixtures("silence")


async def expect_defect_of_original_only(scene: Scene, defect: Defect) -> None:
    assert await defect_of(SeedStage(), scene) == defect
    await expect_no_defect(ProductStage(is_recent=True), scene)
    await expect_no_defect(ProductStage(is_recent=False), scene)


async def publish(_: Actor, self: Participant) -> None:
    await self.publish()


async def claim(_: Actor, self: Participant) -> None:
    await self.claim()


async def settle(move: str, lease: Lease[Any], _: Actor, self: Participant) -> None:
    await MOVES[move](self, lease)


async def expiry(world: World, actor: Actor) -> None:
    await actor.park(Step("clock", "advance"))
    world.clock.advance(EXPIRY)


async def claim_after_expiry(world: World, actor: Actor, self: Participant) -> None:
    await expiry(world, actor)
    await self.claim()


async def ack_and_publish(world: World) -> Cast:
    lease = await leased(world, await world.join(), messages=1)
    return Cast({"worker": partial(settle, "ack", lease), "publisher": publish})


async def test_ack_strands_what_is_published_before_it_removes_the_lock() -> None:
    await expect_defect_of_original_only(
        ack_and_publish,
        Defect(
            violations={"I4 1 is stranded until repair"},
            schedule=(
                "worker: locks.find_one, messages.delete_one, messages.find_one",
                "publisher: counters.find_one_and_update, messages.insert, locks.upsert",
                "worker: locks.delete_one",
            ),
            found_by=4,
            convicting=4,
            schedules=35,
        ),
    )


async def claim_of_empty_group_and_publish(world: World) -> Cast:
    """The group is empty because a worker died in its ack, before it removed the lock."""
    lease = await leased(world, await world.join(), messages=1)
    await died(world, "locks.delete_one", lambda dying: dying.ack(lease))
    world.clock.advance(EXPIRY)
    return Cast({"worker": claim, "publisher": publish})


async def test_claim_strands_what_is_published_before_it_removes_the_lock() -> None:
    await expect_defect_of_original_only(
        claim_of_empty_group_and_publish,
        Defect(
            violations={"I4 1 is stranded until repair"},
            schedule=(
                "worker: locks.find_one_and_update, messages.find",
                "publisher: counters.find_one_and_update, messages.insert, locks.upsert",
                "worker: locks.delete_one, locks.find_one_and_update",
            ),
            found_by=10,
            convicting=3,
            schedules=29,
        ),
    )


async def park_and_settle_again(second: str, world: World) -> Cast:
    lease = await leased(world, await world.join(), messages=1)
    return Cast({"worker": partial(settle, "park", lease), "twin": partial(settle, second, lease)})


async def test_parked_lease_can_be_acked() -> None:
    await expect_defect_of_original_only(
        partial(park_and_settle_again, "ack"),
        Defect(
            violations={"I3 0 settled by nack, then by ack", "I3 0 settled by ack, then by nack"},
            schedule=(
                "worker: locks.find_one, locks.update_one",
                "twin: locks.find_one, messages.delete_one, messages.find_one, locks.delete_one",
            ),
            found_by=1,
            convicting=14,
            schedules=15,
        ),
    )


@pytest.mark.parametrize(("second", "convicting"), [("nack", 5), ("park", 6)])
async def test_parked_lease_can_be_nacked_again(second: str, convicting: int) -> None:
    await expect_defect_of_original_only(
        partial(park_and_settle_again, second),
        Defect(
            violations={"I3 0 settled by nack, then by nack"},
            schedule=(
                "worker: locks.find_one, locks.update_one",
                "twin: locks.find_one, locks.update_one",
            ),
            found_by=1,
            convicting=convicting,
            schedules=6,
        ),
    )


async def ack_twice_at_once(world: World) -> Cast:
    lease = await leased(world, await world.join(), messages=1)
    return Cast({"worker": partial(settle, "ack", lease), "twin": partial(settle, "ack", lease)})


async def test_lease_is_acked_twice_when_both_checks_come_before_both_removals() -> None:
    await expect_defect_of_original_only(
        ack_twice_at_once,
        Defect(
            violations={"I1 0 settled by ack, then by ack", "I3 0 settled by ack, then by ack"},
            schedule=(
                "worker: locks.find_one, messages.delete_one, messages.find_one",
                "twin: locks.find_one, messages.delete_one, messages.find_one, locks.delete_one",
                "worker: locks.delete_one",
            ),
            found_by=2,
            convicting=68,
            schedules=70,
        ),
    )


async def late_ack_and_new_owner(world: World) -> Cast:
    """The new owner holds its lease until all is over, then acks."""
    lease = await leased(world, await world.join(), messages=1)
    owned: list[tuple[Participant, Lease[Any]]] = []

    async def own(actor: Actor, self: Participant) -> None:
        await expiry(world, actor)
        if taken_over := await self.claim():
            owned.append((self, taken_over))

    async def ack() -> None:
        for owner, taken_over in owned:
            await owner.ack(taken_over)

    return Cast({"late": partial(settle, "ack", lease), "owner": own}, epilogue=ack)


async def test_late_ack_deletes_the_message_of_the_new_owner() -> None:
    await expect_defect_of_original_only(
        late_ack_and_new_owner,
        Defect(
            violations={"I1 0 settled by ack, then by ack"},
            schedule=(
                "late: locks.find_one",
                "owner: clock.advance, locks.find_one_and_update, messages.find",
                "late: messages.delete_one, messages.find_one, locks.delete_one",
            ),
            found_by=47,
            convicting=2,
            schedules=75,
        ),
    )


async def claims_by_two_clocks(world: World) -> Cast:
    await (await world.join()).publish()
    return Cast({"punctual": claim, "hasty": claim}, ahead={"hasty": 60.0})


async def test_claim_by_a_clock_ahead_takes_over_a_live_lease() -> None:
    await expect_defect_of_original_only(
        claims_by_two_clocks,
        Defect(
            violations={"I3 0 delivered while 0 is leased"},
            schedule=(
                "punctual: locks.find_one_and_update, messages.find",
                "hasty: locks.find_one_and_update, messages.find",
            ),
            found_by=1,
            convicting=3,
            schedules=5,
        ),
    )


async def slow_claim_and_new_owner(world: World) -> Cast:
    await (await world.join()).publish()
    return Cast({"slow": claim, "owner": partial(claim_after_expiry, world)})


async def test_slow_claim_hands_out_a_lease_that_another_has_taken_over() -> None:
    await expect_defect_of_original_only(
        slow_claim_and_new_owner,
        Defect(
            violations={"I3 0 delivered while 0 is leased"},
            schedule=(
                "slow: locks.find_one_and_update",
                "owner: clock.advance, locks.find_one_and_update, messages.find",
                "slow: messages.find",
            ),
            found_by=4,
            convicting=2,
            schedules=9,
        ),
    )


async def publish_and_perhaps_die(_: World) -> Cast:
    return Cast({"publisher": publish}, fates=(go, crash_after))


async def test_publisher_that_dies_between_its_writes_leaves_a_message_for_ever() -> None:
    await expect_defect_of_original_only(
        publish_and_perhaps_die,
        Defect(
            violations={"I5"},
            schedule=("publisher: counters.find_one_and_update, messages.insert crash_after",),
            found_by=3,
            convicting=1,
            schedules=4,
        ),
    )


async def failing_group_beside_a_waiting_one(world: World) -> Cast:
    publisher, worker = await world.join(), await world.join()
    await publisher.publish("waiting")
    waiting = await publisher.publish("waiting")
    await worker.ack(await worker.claimed())
    world.clock.advance(1.0)
    failing = await publisher.publish("failing")

    async def fail_twice(_: Actor, self: Participant) -> None:
        await self.nack(await self.claimed())
        world.clock.advance(1.0)
        await self.nack(await self.claimed())

    async def expect_turns() -> None:
        stories = world.log.stories
        if not stories[waiting].delivered:
            raise AssertionError(f"{waiting} waits while {failing} is delivered again")

    return Cast({"worker": fail_twice}, epilogue=expect_turns)


async def test_nacked_group_takes_every_claim() -> None:
    attempt = "locks.find_one_and_update, messages.find, locks.find_one, locks.update_one"
    await expect_defect_of_original_only(
        failing_group_beside_a_waiting_one,
        Defect(
            violations={"1 waits while 2 is delivered again"},
            schedule=(f"worker: {attempt}, {attempt}",),
            found_by=1,
            convicting=1,
            schedules=1,
        ),
    )
