"""The explorer itself: it leaves out nothing that matters, and it finds what is wrong."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from fairlane.lease import commands
from fairlane.transport import _group_commands
from property import small_scenes
from property.explorer import Program, Scene, explore, replay
from property.small_scenes import SCENES
from property.world import World

Change = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="fairlane")


async def publish_and_work(_: World) -> dict[str, Program]:
    return {"p": small_scenes.publish, "w": small_scenes.work}


async def publish_and_ack(world: World) -> dict[str, Program]:
    return {"p": small_scenes.publish, "v": await small_scenes.held(world, "ack")}


@pytest.mark.parametrize("scene", [publish_and_work, publish_and_ack])
async def test_schedules_left_out_end_like_others_that_were_played(scene: Scene) -> None:
    pruned = await explore(scene)
    everything = await explore(scene, is_pruned=False)
    assert pruned.schedules < everything.schedules / 5
    assert pruned.endings == everything.endings


def without(field: str) -> Change:
    def change(match: Any) -> Any:
        return {key: value for key, value in match.items() if key != field}

    return change


def keeping_the_token(update: Any) -> Any:
    return {**update, "$set": without("token")(update["$set"])}


def without_counting(update: Any) -> Any:
    return {"$set": update["$set"], "$inc": {"attempts": 1}}


DEFECTS = [
    ("drained", without("version"), "ack_and_two_publishes", "I4"),
    ("abandoned", without("version"), "publish_into_a_group_found_empty", "I4"),
    ("held", without("token"), "slow_claim_and_new_owner", "epoch"),
    ("held", without("token"), "late_ack_and_new_owner", "I1"),
    ("parked", keeping_the_token, "ack_after_park_and_work", "I3"),
    ("claimed", without_counting, "release_and_publish_and_work", "epoch"),
]
"""A command, what is done to it, where that is found, and as what."""


def spoil(patch: pytest.MonkeyPatch, name: str, change: Change) -> None:
    home = commands if hasattr(commands, name) else _group_commands
    right = getattr(home, name)
    patch.setattr(home, name, lambda *args, **options: change(right(*args, **options)))


@pytest.mark.parametrize(("name", "change", "scene", "violation"), DEFECTS)
async def test_spoiled_command_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, change: Change, scene: str, violation: str
) -> None:
    spoil(monkeypatch, name, change)
    with pytest.raises(AssertionError, match=violation):
        await explore(SCENES[scene])


async def test_moves_of_a_failure_replay_it(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, "drained", without("version"))
    scene = SCENES["ack_and_two_publishes"]
    with pytest.raises(AssertionError) as found:
        await explore(scene)
    (moves,) = [note.removeprefix("moves: ") for note in found.value.__notes__]
    with pytest.raises(AssertionError) as again:
        await replay(scene, moves)
    assert str(again.value) == str(found.value)
