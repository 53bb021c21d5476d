"""Programs of jobs for random schedules; each makes choices of its own."""

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from fairlane import Job
from property.actors import Actor
from property.cast import attempted
from property.job_programs import MOVES, JobProgram, tick
from property.job_worker import Worker
from property.job_world import JobWorld
from property.play import AnyScene
from property.scheduler import Choose, Dice

__all__ = ("job_crowd",)

KEYS = (None, None, "k", "l")
DUPLICATES: Any = ("skip", "replace", "raise")
MANNERS = ("ack",) * 4 + ("nack", "park", "fail", "release", "extend", "keep", "keep")
"""What workers do with their jobs: each time one of these."""

RandomProgram = Callable[..., Coroutine[Any, Any, None]]
"""A program that also takes `choose`."""


async def producer(actor: Actor, self: Worker, choose: Choose) -> None:
    for _ in range(1 + choose(3)):
        key = KEYS[choose(len(KEYS))]
        on_duplicate = DUPLICATES[0 if key is None else choose(3)]
        options = {"max_attempts": 1 + choose(3), "delay": (0.0, 10.0)[choose(2)]}
        await attempted(actor, self.enqueue(key, on_duplicate, **options))


async def worker(actor: Actor, self: Worker, choose: Choose) -> None:
    """Claim and settle; now and then keep a job for later, when its lease may have run out."""
    kept: list[Job] = []
    for _ in range(2 + choose(4)):
        if kept and not choose(2):
            await attempted(actor, _settle(self, kept.pop(), choose))
        job = (await attempted(actor, self.claim())).value
        if job is not None:
            manner = MANNERS[choose(len(MANNERS))]
            if manner == "keep":
                kept.append(job)
                continue
            await attempted(actor, MOVES[manner](self, job))
            if manner == "extend" or not choose(8):  # a second one, which must be refused
                await attempted(actor, _settle(self, job, choose))


async def batcher(actor: Actor, self: Worker, choose: Choose) -> None:
    kept: list[Job] = []
    for _ in range(2 + choose(3)):
        kept += (await attempted(actor, self.claim_many(1 + choose(4)))).value or ()
        chosen = [job for job in kept if choose(4)]
        if chosen:
            await attempted(actor, self.ack_many(chosen))
        kept = [job for job in kept if job not in chosen]


async def janitor(world: JobWorld, actor: Actor, self: Worker, choose: Choose) -> None:
    for _ in range(1 + choose(3)):
        jobs = [job["_id"] for job in world.stored() if job["kind"] == "event"]
        duty = choose(4)
        if duty == 0 and jobs:
            await attempted(actor, self.cancel(jobs[choose(len(jobs))]))
        elif duty == 1:
            await attempted(actor, self.redrive())
        else:
            await attempted(actor, self.reclaim())


async def clockwork(actor: Actor, self: Worker, choose: Choose) -> None:
    """Define a recurring job, run it, and maybe keep a run until its lease has run out."""
    await attempted(actor, self.define(tick))
    for _ in range(1 + choose(3)):
        job = (await attempted(actor, self.claim_tick(tick))).value
        if job is not None:
            await attempted(actor, self.fire(job, tick))
            if not choose(4):  # a second one, which must be refused
                await attempted(actor, self.fire(job, tick))


def job_crowd(seed: int) -> AnyScene:
    """Return two producers, four workers of three kinds, and one who looks after the rest."""

    async def scene(world: JobWorld) -> dict[str, JobProgram]:
        world.definitions[tick.name] = tick
        programs: dict[str, RandomProgram] = {
            "producer-0": producer,
            "producer-1": producer,
            "worker-0": worker,
            "worker-1": worker,
            "batcher": batcher,
            "clockwork-0": clockwork,
            "clockwork-1": clockwork,
            "janitor": partial(janitor, world),
        }
        return {
            name: partial(program, choose=Dice(f"{seed} {name}"))
            for name, program in programs.items()
        }

    return scene


async def _settle(self: Worker, job: Job, choose: Choose) -> bool:
    return await list(MOVES.values())[choose(len(MOVES))](self, job)
