"""Schedules of many participants at random, with crashes, errors, cancellations and time."""

import pytest

from property.cast import MOODS, crowd
from property.explorer import Scene
from property.job_cast import job_crowd
from property.job_world import JobStage
from property.sampling import play_at_random, play_jobs_at_random, seeds
from property.small_scenes import LARGE, SCENES
from property.world import MemoryStage, Stage

pytestmark = pytest.mark.usefixtures("silence")

IN_MEMORY = 500
ON_SERVER = 8
OF_EACH_SCENE = 5


@pytest.mark.timeout(0)
@pytest.mark.parametrize("mood", sorted(MOODS))
async def test_random_schedules_keep_the_invariants(stage: Stage, mood: str) -> None:
    for seed in seeds(IN_MEMORY if isinstance(stage, MemoryStage) else ON_SERVER):
        await play_at_random(stage, crowd(mood, seed), seed)


@pytest.mark.timeout(0)
async def test_random_schedules_of_jobs_keep_the_rules() -> None:
    stage = JobStage()
    for seed in seeds(IN_MEMORY):
        await play_jobs_at_random(stage, job_crowd(seed), seed)


@pytest.mark.timeout(0)
@pytest.mark.memory_only
async def test_random_schedules_with_redrives_keep_the_invariants(stage: Stage) -> None:
    """In half of them a dead head stops its group."""
    for seed in seeds(IN_MEMORY):
        scene = crowd("deadly", seed, redrives=True, stops=seed % 4 > 1)
        await play_at_random(stage, scene, seed)


@pytest.mark.timeout(0)
@pytest.mark.parametrize("scene", (SCENES | LARGE).values(), ids=SCENES | LARGE)
async def test_small_scenes_at_random_keep_the_invariants(stage: Stage, scene: Scene) -> None:
    for seed in seeds(OF_EACH_SCENE):
        await play_at_random(stage, scene, seed)
