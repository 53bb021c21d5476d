"""Schedules of many participants at random, with crashes, errors, cancellations and time.

A failure names its seed; `FAIRLANE_SEED=<seed> pytest tests/property/test_schedules.py` plays it
again, alone. `FAIRLANE_SCHEDULES=<n>` plays n schedules drawn at random instead of the usual ones.
"""

import logging
import os
import random
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from property.cast import MOODS, cast
from property.scenes import EXPIRY
from property.scheduler import (
    Actor,
    Choose,
    Dice,
    Scheduler,
    cancel,
    crash_after,
    crash_before,
    go,
    lose_reply,
    refuse,
)
from property.world import VISIBILITY, MemoryStage, Stage

FATES = (go,) * 60 + (crash_before, crash_after, refuse, lose_reply, cancel, cancel)
STEPS_OF_TIME = (0.5, 6.0, VISIBILITY - 1.0, EXPIRY)
IN_MEMORY = 400
ON_SERVER = 8


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Thousands of provoked errors are logged as they should be; formatting them takes longest."""
    caplog.set_level(logging.CRITICAL, logger="fairlane")


def seeds(usual: int) -> Iterator[int]:
    """Yield the usual seeds, always the same, or those that the environment asks for."""
    if seed := os.environ.get("FAIRLANE_SEED"):
        yield int(seed)
    elif number := os.environ.get("FAIRLANE_SCHEDULES"):
        yield from (random.randrange(2**32) for _ in range(int(number)))
    else:
        yield from range(usual)


async def play_at_random(stage: Stage, seed: int, mood: str, *, redrives: bool = False) -> None:
    """Play one schedule in which calls crash, fail and are cancelled, and time passes."""
    world = await stage.fresh()

    def pass_time(choose: Choose) -> None:
        if not choose(25):
            world.clock.advance(STEPS_OF_TIME[choose(len(STEPS_OF_TIME))])

    scheduler = Scheduler(Dice(seed), fates=FATES, interlude=pass_time)
    programs: dict[Actor, Coroutine[Any, Any, object]] = {}
    for name, program in cast(mood, redrives=redrives).items():
        actor = Actor(name)
        participant = await world.join(scheduler.conduct(actor))
        programs[actor] = program(actor, participant, Dice(f"{seed} {name}"))
    try:
        await scheduler.run(programs)
        await world.expect_stats_agree()
        await world.check(full_repair=True)
    except Exception as error:
        error.add_note("\n".join((f"FAIRLANE_SEED={seed}", *scheduler.trace, *world.log.lines)))
        raise


@pytest.mark.parametrize("mood", sorted(MOODS))
async def test_random_schedules_keep_the_invariants(stage: Stage, mood: str) -> None:
    for seed in seeds(IN_MEMORY if isinstance(stage, MemoryStage) else ON_SERVER):
        await play_at_random(stage, seed, mood)


@pytest.mark.memory_only
async def test_random_schedules_with_redrives_keep_the_invariants(stage: Stage) -> None:
    for seed in seeds(IN_MEMORY):
        await play_at_random(stage, seed, "deadly", redrives=True)
