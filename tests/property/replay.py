"""Play one schedule of a small scene again: `python -m property.replay SCENE "MOVES"`, in tests."""

import asyncio
import logging
import sys

from property.explorer import replay
from property.job_scenes import JOB_SCENES, LARGE_JOB_SCENES
from property.job_world import JobStage
from property.small_scenes import LARGE, SCENES


def main(scene: str, moves: str) -> None:
    jobs = JOB_SCENES | LARGE_JOB_SCENES
    if scene in jobs:
        asyncio.run(replay(jobs[scene], moves, stage=JobStage()))
    else:
        asyncio.run(replay((SCENES | LARGE)[scene], moves))
    sys.stdout.write("every invariant holds\n")


if __name__ == "__main__":
    logging.disable()  # provoked errors
    main(*sys.argv[1:])
