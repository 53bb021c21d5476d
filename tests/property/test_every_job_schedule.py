"""All schedules of small scenes of jobs: whatever the order and whatever fails, J1 to J6 hold.

As `test_every_schedule.py` does with messages: one fault anywhere; large scenes, and older servers,
without faults unless `FAIRLANE_FAULTS` says how many.
"""

import pytest

from property.explorer import explore
from property.job_scenes import JOB_SCENES, LARGE_JOB_SCENES
from property.job_world import JobStage
from property.play import AnyScene
from property.test_every_schedule import FAULTS, FEWER_FAULTS, expect_choice

pytestmark = pytest.mark.usefixtures("silence")


@pytest.mark.timeout(0)
@pytest.mark.parametrize("scene", JOB_SCENES.values(), ids=JOB_SCENES)
async def test_every_schedule_of_jobs_keeps_the_rules(scene: AnyScene) -> None:
    expect_choice(await explore(scene, stage=JobStage(), faults=FAULTS))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("scene", LARGE_JOB_SCENES.values(), ids=LARGE_JOB_SCENES)
async def test_every_schedule_of_a_large_scene_of_jobs_keeps_the_rules(scene: AnyScene) -> None:
    expect_choice(await explore(scene, stage=JobStage(), faults=FEWER_FAULTS))
