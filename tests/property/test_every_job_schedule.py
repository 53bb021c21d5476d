"""All schedules of small scenes of jobs: whatever the order and whatever fails, J1 to J6 hold.

As `test_every_schedule.py` does with messages: one fault anywhere; large scenes, and older servers,
without faults unless `FAIRLANE_FAULTS` says how many.
"""

import pytest

from fairlane.schema import partition_of
from property.explorer import explore
from property.job_scenes import JOB_SCENES, LARGE_JOB_SCENES
from property.job_world import JobStage
from property.play import AnyScene
from property.test_every_schedule import FAULTS, FEWER_FAULTS, expect_choice

pytestmark = pytest.mark.usefixtures("silence")

IN_TWO_PARTITIONS = (
    "enqueue_and_two_workers",
    "enqueue_and_work_twice",
    "two_workers_on_two_jobs",
    "claim_many_and_work",
)
assert [partition_of(job_id, 2) for job_id in ("0-", "1-", "0-e")] == [1, 0, 0]
"""The jobs of these scenes."""
ENDING = (
    "ack_after_ack",
    "ack_after_fail",
    "ack_many_and_time",
    "cancel_and_nack",
    "key_taken_replace",
    "late_ack_and_new_worker",
    "late_fail_and_new_worker",
    "work_after_fail",
)
"""Where jobs end, each before its attempts are used up."""


@pytest.mark.timeout(0)
@pytest.mark.parametrize("scene", JOB_SCENES.values(), ids=JOB_SCENES)
async def test_every_schedule_of_jobs_keeps_the_rules(scene: AnyScene) -> None:
    expect_choice(await explore(scene, stage=JobStage(), faults=FAULTS))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("scene", IN_TWO_PARTITIONS)
async def test_every_schedule_in_two_partitions_keeps_the_rules(scene: str) -> None:
    stage = JobStage(partitions=2)
    expect_choice(await explore(JOB_SCENES[scene], stage=stage, faults=FAULTS))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("scene", ENDING)
async def test_every_schedule_of_jobs_that_are_not_kept_keeps_the_rules(scene: str) -> None:
    stage = JobStage(is_kept=False)
    expect_choice(await explore(JOB_SCENES[scene], stage=stage, faults=FAULTS))


@pytest.mark.timeout(0)
@pytest.mark.parametrize("scene", LARGE_JOB_SCENES.values(), ids=LARGE_JOB_SCENES)
async def test_every_schedule_of_a_large_scene_of_jobs_keeps_the_rules(scene: AnyScene) -> None:
    expect_choice(await explore(scene, stage=JobStage(), faults=FEWER_FAULTS))
