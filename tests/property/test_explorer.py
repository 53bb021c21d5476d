"""The explorer itself: it leaves out nothing that matters, and it finds what is wrong."""

import os
from typing import Any

import pytest
from pymongo.errors import PyMongoError

from fairlane import Lease
from fairlane.driver import Document
from fairlane.lease import commands
from fairlane.transport import _group_commands
from fairlane.transport._delivery import Delivery, Front
from fairlane.transport._settle import Settler
from property import programs
from property.actors import Program
from property.explorer import Scene, explore, replay
from property.job_scenes import JOB_SCENES
from property.job_world import JobStage
from property.moments import Outcome
from property.schedule_tree import Tree
from property.small_scenes import SCENES
from property.spoiling import Change, Command, spoil, without
from property.world import World

ack = Settler._ack
pytestmark = pytest.mark.usefixtures("silence")


async def publish_and_work(_: World) -> dict[str, Program]:
    return {"p": programs.publish, "w": programs.work}


async def publish_and_ack(world: World) -> dict[str, Program]:
    return {"p": programs.publish, "v": await programs.held(world, "ack")}


async def publish_and_claim_two(world: World) -> dict[str, Program]:
    await (await world.join()).publish("h")
    return {"p": programs.publish, "w": programs.claim_two}


async def claim_and_claim_in_two_partitions(world: World) -> dict[str, Program]:
    await world.divide(2)
    await (await world.join()).publish_many("g", "h")
    return {"v": programs.claim, "w": programs.backwards(programs.claim)}


WITHOUT_PRUNING = [publish_and_work, publish_and_ack]
if "FAIRLANE_FAULTS" in os.environ:  # each of them takes as long as all the others together
    WITHOUT_PRUNING += [publish_and_claim_two, claim_and_claim_in_two_partitions]


@pytest.mark.parametrize("scene", WITHOUT_PRUNING)
async def test_schedules_left_out_end_like_others_that_were_played(scene: Scene) -> None:
    pruned = await explore(scene)
    everything = await explore(scene, is_pruned=False)
    assert pruned.schedules < everything.schedules / 5
    assert pruned.endings == everything.endings


@pytest.mark.parametrize("scene", ["cancel_and_work", "fire_and_remove", "key_taken_replace"])
async def test_schedules_of_jobs_left_out_end_like_others_that_were_played(scene: str) -> None:
    pruned = await explore(JOB_SCENES[scene], stage=JobStage())
    everything = await explore(JOB_SCENES[scene], stage=JobStage(), is_pruned=False)
    assert pruned.schedules < everything.schedules / 5
    assert pruned.endings == everything.endings


async def test_what_is_foreseen_is_what_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Play what would have been foreseen, and compare."""
    known: dict[object, Outcome] = {}
    compared = 0

    def compare(self: Tree, outcome: Outcome) -> None:
        nonlocal compared
        cause = self._cause()
        compared += cause in known
        assert known.setdefault(cause, outcome) == outcome

    monkeypatch.setattr(Tree, "_learn", compare)
    monkeypatch.setattr(Tree, "foreseen", lambda _: None)
    await explore(SCENES["two_workers_on_one_group"])
    await explore(JOB_SCENES["two_workers_on_two_jobs"], stage=JobStage())
    assert compared > 1_000


def keeping_the_token(update: Any) -> Any:
    return {**update, "$set": without("token")(update["$set"])}


def without_counting(update: Any) -> Any:
    return {"$set": update["$set"], "$inc": {"attempts": 1}}


def pulling_forward(update: Any) -> Any:
    new = dict(update["$setOnInsert"])
    return {**update, "$set": {"available_at": new.pop("available_at")}, "$setOnInsert": new}


DEFECTS = [
    (_group_commands.drained, without("version"), "ack_and_two_publishes", "I4"),
    (_group_commands.abandoned, without("version"), "publish_into_a_group_found_empty", "I4"),
    (commands.held, without("token"), "slow_claim_and_new_owner", "epoch"),
    (commands.held, without("token"), "late_ack_and_new_owner", "I1"),
    (_group_commands.parked, keeping_the_token, "ack_after_park_and_work", "I3"),
    (commands.claimed, without_counting, "release_and_publish_and_work", "epoch"),
    (commands.due, without("available_at"), "two_workers_on_one_group", "I3"),
    (_group_commands.settled, keeping_the_token, "ack_after_ack_and_work", "I3"),
    (_group_commands.readied, pulling_forward, "nack_and_publish_and_work", "I3"),
]
"""A command, what is done to it, where that is found, and as what."""


@pytest.mark.parametrize(("command", "change", "scene", "violation"), DEFECTS)
async def test_spoiled_command_is_found(
    monkeypatch: pytest.MonkeyPatch, command: Command, change: Change, scene: str, violation: str
) -> None:
    spoil(monkeypatch, command, change)
    with pytest.raises(AssertionError, match=violation):
        await explore(SCENES[scene])


async def deleting_all_the_same(self: Settler, leases: list[Lease[int]]) -> list[object]:
    (lease,) = leases
    try:
        (is_held,) = await ack(self, leases)
    except PyMongoError:
        await self._store.messages.delete_one({"_id": lease.seq})
        raise
    if not is_held:
        await self._store.messages.delete_one({"_id": lease.seq})
    return [is_held]


@pytest.mark.parametrize("scene", ["two_workers_on_one_group", "late_ack_and_new_owner"])
async def test_refused_ack_that_deletes_its_message_is_found(
    monkeypatch: pytest.MonkeyPatch, scene: str
) -> None:
    monkeypatch.setattr(Settler, "_ack", deleting_all_the_same)
    with pytest.raises(AssertionError, match="I4"):
        await explore(SCENES[scene])


async def test_long_lease_that_does_not_look_again_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def sure(_: object, leases: list[Lease[int]]) -> list[Lease[int]]:
        return leases

    monkeypatch.setattr(Settler, "_last", sure)
    with pytest.raises(AssertionError, match="I5"):
        await explore(SCENES["repair_and_ack"])


async def test_claim_that_ignores_an_unfinished_death_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = Delivery._front

    async def ignorant(self: Delivery[int], group: Document, batch: int) -> Front | None:
        return await right(self, {key: group[key] for key in group.keys() - {"dead"}}, batch)

    monkeypatch.setattr(Delivery, "_front", ignorant)
    with pytest.raises(AssertionError, match="hidden letters"):
        await explore(SCENES["dead_letter_and_publish"])


async def test_moves_of_a_failure_replay_it(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, _group_commands.drained, without("version"))
    scene = SCENES["ack_and_two_publishes"]
    with pytest.raises(AssertionError) as found:
        await explore(scene)
    (moves,) = [note.removeprefix("moves: ") for note in found.value.__notes__]
    with pytest.raises(AssertionError) as again:
        await replay(scene, moves)
    assert str(again.value) == str(found.value)
