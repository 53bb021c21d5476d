"""Play a scene at random: any number of faults may strike, and time passes.

A failure names its seed. `FAIRLANE_SEED=<seed>` plays that one alone; `FAIRLANE_SCHEDULES=<n>`
plays n schedules drawn at random instead of the usual ones.
"""

import os
import random
from collections.abc import Awaitable, Callable, Iterator

from property.actors import (
    cancel,
    cancel_after,
    crash_after,
    crash_before,
    go,
    lose_reply,
    number_ids,
    refuse,
    refuse_for_good,
)
from property.explorer import Scene, own_ids
from property.job_world import JobStage, JobWorld
from property.play import AnyScene
from property.scenes import EXPIRY
from property.scheduler import Choose, Dice, Lots, run, seat
from property.world import VISIBILITY, Stage, World

__all__ = ("play_at_random", "play_jobs_at_random", "seeds")

FAULTS = (crash_before, crash_after, refuse, refuse_for_good, lose_reply, cancel, cancel_after)
FATES = (go,) * 70 + FAULTS
STEPS_OF_TIME = (0.5, 6.0, VISIBILITY - 1.0, EXPIRY)


def seeds(usual: int) -> Iterator[int]:
    """Yield the usual seeds, always the same, or those that the environment asks for."""
    if seed := os.environ.get("FAIRLANE_SEED"):
        yield int(seed)
    elif number := os.environ.get("FAIRLANE_SCHEDULES"):
        yield from (random.randrange(2**32) for _ in range(int(number)))
    else:
        yield from range(usual)


async def play_at_random(stage: Stage, scene: Scene, seed: int) -> None:
    """Play one schedule of the scene; raise what the judge finds, with the seed and the turns."""
    world = await stage.fresh()

    async def judge() -> None:
        await world.expect_stats_agree()
        await world.check(full_repair=True)

    await _play(world, scene, seed, judge)


async def play_jobs_at_random(stage: JobStage, scene: AnyScene, seed: int) -> None:
    """Play one schedule of a scene of jobs, as above; its ids are always the same."""
    number_ids()
    with own_ids():
        world = await stage.fresh()
        await _play(world, scene, seed, world.judge)


async def _play(
    world: World | JobWorld, scene: AnyScene, seed: int, judge: Callable[[], Awaitable[None]]
) -> None:
    def pass_time(choose: Choose) -> None:
        if not choose(25):
            world.clock.advance(STEPS_OF_TIME[choose(len(STEPS_OF_TIME))])

    lots = Lots(Dice(seed), fates=FATES, interlude=pass_time)
    programs = await seat(world, await scene(world))
    try:
        await run(programs, lots.turn)
        await judge()
    except Exception as error:
        error.add_note("\n".join((f"FAIRLANE_SEED={seed}", *lots.trace, *world.log.lines)))
        raise
