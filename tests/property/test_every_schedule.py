"""All schedules of small scenes: whatever the order and whatever fails, the invariants hold.

Each schedule may have one fault, anywhere: a crash, a cancellation, a lost reply, a refusal, a jump
of the clock. Large scenes, and older servers, are explored without faults; `FAIRLANE_FAULTS=1`
allows so many everywhere. A failure prints its moves, which `explorer.replay` makes again.
"""

import os

import pytest

from property.explorer import Explored, Scene, explore
from property.small_scenes import LARGE, SCENES

pytestmark = pytest.mark.usefixtures("silence")

ASKED_FOR = os.environ.get("FAIRLANE_FAULTS")
FAULTS = int(ASKED_FOR or "1")
FEWER_FAULTS = int(ASKED_FOR or "0")
QUICK = [
    SCENES[name]
    for name in (
        "publish_into_a_group_found_empty",
        "repair_and_ack",
        "two_workers_on_one_group",
        "release_and_publish_and_work",
        "dead_letter_and_publish",
        "publish_many_and_work",
    )
]
"""Of an older server these are explored with faults as well."""


def expect_choice(explored: Explored) -> None:
    """Somebody had a choice, even if one schedule stands for all: nobody meets anybody."""
    assert explored.schedules + explored.redundant > 1


@pytest.mark.timeout(0)
@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
async def test_every_schedule_keeps_the_invariants(scene: Scene) -> None:
    expect_choice(await explore(scene, faults=FAULTS))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("scene", LARGE.values(), ids=LARGE)
async def test_every_schedule_of_a_large_scene_keeps_the_invariants(scene: Scene) -> None:
    expect_choice(await explore(scene, faults=FEWER_FAULTS))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
async def test_every_schedule_on_an_old_server_keeps_the_invariants(scene: Scene) -> None:
    faults = FAULTS if scene in QUICK else FEWER_FAULTS
    expect_choice(await explore(scene, is_recent=False, faults=faults))
