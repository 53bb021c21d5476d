"""All schedules of small scenes: whatever the order and whatever fails, the invariants hold.

Each schedule may have one fault, anywhere: a crash, a cancellation, a lost reply, a refusal, a jump
of the clock. `FAIRLANE_FAULTS=2` allows two, and explores the large scenes and older servers too. A
failure prints its moves; `explorer.replay(scene, moves)` makes them again.
"""

import logging
import os

import pytest

from property.explorer import Scene, explore
from property.small_scenes import LARGE, SCENES

ASKED_FOR = os.environ.get("FAIRLANE_FAULTS")
FAULTS = int(ASKED_FOR or "1")
FAULTS_OLD = FAULTS if ASKED_FOR else 0
EXPLORED = SCENES | LARGE if ASKED_FOR else SCENES


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="fairlane")


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scene", EXPLORED.values(), ids=EXPLORED)
async def test_every_schedule_keeps_the_invariants(scene: Scene) -> None:
    assert (await explore(scene, faults=FAULTS)).schedules > 1


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scene", EXPLORED.values(), ids=EXPLORED)
async def test_every_schedule_on_an_old_server_keeps_the_invariants(scene: Scene) -> None:
    assert (await explore(scene, is_recent=False, faults=FAULTS_OLD)).schedules > 1
