"""Print how many schedules of each small scene there are: `python -m property.counts`, in tests."""

import asyncio
import logging
import sys
from collections.abc import Callable, Mapping

from property.explorer import explore
from property.job_scenes import JOB_SCENES, LARGE_JOB_SCENES
from property.job_world import JobStage
from property.play import AnyScene, PlayedStage
from property.small_scenes import LARGE, SCENES
from property.world import MemoryStage

Scenes = Mapping[str, AnyScene]


async def main() -> None:
    await show(lambda: MemoryStage(is_recent=True), SCENES, LARGE)
    await show(JobStage, JOB_SCENES, LARGE_JOB_SCENES)


async def show(stage: Callable[[], PlayedStage], scenes: Scenes, large: Scenes) -> None:
    for chosen, faults in ((scenes, 1), (large, 0)):
        for name, scene in chosen.items():
            explored = await explore(scene, stage=stage(), faults=faults)
            counts = f"{explored.schedules:7,} {explored.redundant:8,}"
            sys.stdout.write(f"{name:40} {faults} {counts}\n")


if __name__ == "__main__":
    logging.disable()  # thousands of provoked errors
    asyncio.run(main())
