"""All schedules of small scenes: whatever the order and whatever fails, the invariants hold.

Each schedule may have one fault, anywhere: a crash, a cancellation, a lost reply, a refusal, a jump
of the clock. Large scenes, and older servers, are explored without faults; `FAIRLANE_FAULTS=1`
allows so many everywhere. A failure prints its moves, which `explorer.replay` makes again.
"""

import logging
import os

import pytest

from property.explorer import Scene, explore
from property.small_scenes import LARGE, SCENES

ASKED_FOR = os.environ.get("FAIRLANE_FAULTS")
FAULTS = int(ASKED_FOR or "1")
FEWER_FAULTS = int(ASKED_FOR or "0")


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="fairlane")


@pytest.mark.timeout(0)
@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
async def test_every_schedule_keeps_the_invariants(scene: Scene) -> None:
    assert (await explore(scene, faults=FAULTS)).schedules > 1


@pytest.mark.timeout(0)
@pytest.mark.parametrize("scene", LARGE.values(), ids=LARGE)
async def test_every_schedule_of_a_large_scene_keeps_the_invariants(scene: Scene) -> None:
    assert (await explore(scene, faults=FEWER_FAULTS)).schedules > 1


@pytest.mark.timeout(0)
@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
async def test_every_schedule_on_an_old_server_keeps_the_invariants(scene: Scene) -> None:
    assert (await explore(scene, is_recent=False, faults=FEWER_FAULTS)).schedules > 1
