"""Print how many schedules of each small scene there are: `python -m property.counts`, in tests."""

import asyncio
import logging
import sys

from property.explorer import explore
from property.small_scenes import LARGE, SCENES


async def main() -> None:
    write = sys.stdout.write
    for scenes, faults in ((SCENES, 1), (LARGE, 0)):
        for name, scene in scenes.items():
            explored = await explore(scene, faults=faults)
            write(f"{name:40} {faults} {explored.schedules:7,} {explored.redundant:8,}\n")


if __name__ == "__main__":
    logging.disable()  # thousands of provoked errors
    asyncio.run(main())
