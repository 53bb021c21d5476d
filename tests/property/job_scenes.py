"""Small scenes of jobs. Each returns who acts in it."""

from functools import partial

from fairlane.jobs._drafts import OnDuplicate
from property.job_programs import (
    MOVES,
    JobProgram,
    JobPrograms,
    cancel,
    claim,
    define,
    enqueue,
    enqueue_many,
    every,
    fire,
    held,
    held_two,
    passage,
    reclaim,
    redrive,
    remove,
    tick,
    work,
    work_ending_in,
    work_on_two,
    work_twice,
)
from property.job_world import JobWorld
from property.play import AnyScene
from property.scenes import EXPIRY

__all__ = ("JOB_SCENES", "LARGE_JOB_SCENES")

PERIOD = 60.0
LONGER = 600.0


async def enqueue_and_two_workers(_: JobWorld) -> JobPrograms:
    return {"e": enqueue(), "v": work, "w": work}


async def two_workers_on_two_jobs(world: JobWorld) -> JobPrograms:
    await waiting(world, 2)
    return {"v": work, "w": work}


async def one_job(verb: str, world: JobWorld) -> JobPrograms:
    """One gives the job back in some way, or ends it, and another works."""
    await waiting(world)
    return {"v": work_ending_in(verb), "w": work_twice}


async def slow_claim_and_new_worker(world: JobWorld) -> JobPrograms:
    await waiting(world)
    return {"v": claim, "w": work, "time": passage(world)}


async def late(verb: str, world: JobWorld) -> JobPrograms:
    return {"v": await held(world, verb), "w": work, "time": passage(world)}


async def twice(verb: str, world: JobWorld) -> JobPrograms:
    return {"v": await held(world, verb, "ack"), "w": work}


async def last_attempt(verbs: tuple[str, ...], world: JobWorld) -> JobPrograms:
    """It runs out during the last attempt: whoever finds it next ends it, or its worker does."""
    last = await held(world, *verbs, max_attempts=1)
    return {"v": last, "w": claim, "r": reclaim, "time": passage(world)}


async def expired(world: JobWorld, **options: int) -> JobProgram:
    """Return the program of somebody whose job has run out, and who acks it late."""
    late = await held(world, "ack", **options)
    world.clock.advance(EXPIRY)
    return late


async def reclaim_and(world: JobWorld, **programs: JobProgram) -> JobPrograms:
    return {"v": await expired(world), "r": reclaim, **programs}


async def two_reclaimers(world: JobWorld) -> JobPrograms:
    """One job has an attempt left, the other has none."""
    await held(world, max_attempts=1)
    await expired(world)
    return {"r": reclaim, "s": reclaim, "w": work}


async def cancel_and_work(world: JobWorld) -> JobPrograms:
    return {"c": cancel(await waiting(world)), "w": work}


async def cancel_and_nack(world: JobWorld) -> JobPrograms:
    settle = await held(world, "nack")
    (job,) = world.stored()
    return {"c": cancel(job["_id"]), "v": settle, "w": work}


async def cancel_and_late_ack(world: JobWorld) -> JobPrograms:
    settle = await expired(world)
    (job,) = world.stored()
    return {"c": cancel(job["_id"]), "v": settle, "w": claim}


async def two_of_one_key(one: OnDuplicate, other: OnDuplicate, world: JobWorld) -> JobPrograms:
    return {"e": enqueue("k", one), "f": enqueue("k", other), "w": work}


async def key_taken(on_duplicate: OnDuplicate, world: JobWorld) -> JobPrograms:
    await waiting(world, key="k")
    return {"v": work, "e": enqueue("k", on_duplicate)}


async def replace_and_late_ack(world: JobWorld) -> JobPrograms:
    late = await held(world, "ack", key="k")
    return {"v": late, "e": enqueue("k", "replace"), "w": work, "time": passage(world)}


async def replace_and_nack(world: JobWorld) -> JobPrograms:
    return {"v": await held(world, "nack", key="k"), "e": enqueue("k", "replace"), "w": work}


async def two_replace_and_work(world: JobWorld) -> JobPrograms:
    await waiting(world, key="k")
    return {"e": enqueue("k", "replace"), "f": enqueue("k", "replace"), "w": work}


async def redrive_and_key_taken(world: JobWorld) -> JobPrograms:
    await failed(world, key="k")
    return {"r": redrive, "e": enqueue("k"), "w": work}


async def two_redrives(world: JobWorld) -> JobPrograms:
    await failed(world)
    return {"r": redrive, "s": redrive, "w": work}


async def enqueue_many_of_one_key(_: JobWorld) -> JobPrograms:
    return {"e": enqueue_many(None, "k"), "f": enqueue("k"), "w": work}


async def enqueue_and_work_twice(world: JobWorld) -> JobPrograms:
    """In two partitions the claimer ends a round, and begins one."""
    await waiting(world)
    return {"e": enqueue(), "v": work_twice}


async def ack_many_and_time(world: JobWorld) -> JobPrograms:
    return {"v": await held_two(world), "w": work, "time": passage(world)}


async def claim_many_and_work(world: JobWorld) -> JobPrograms:
    await waiting(world, 2)
    return {"v": work_on_two, "w": work}


async def two_claims_of_many(world: JobWorld) -> JobPrograms:
    await waiting(world, 2)
    return {"v": work_on_two, "w": work_on_two}


async def everything_at_once(world: JobWorld) -> JobPrograms:
    """A job that is held runs out, and is reclaimed, replaced, cancelled and claimed."""
    settle = await held(world, "nack", key="k")
    (job,) = world.stored()
    return {
        "v": settle,
        "w": work,
        "r": reclaim,
        "c": cancel(job["_id"]),
        "e": enqueue("k", "replace"),
        "time": passage(world),
    }


async def two_define(world: JobWorld) -> JobPrograms:
    world.definitions[tick.name] = tick
    return {"d": define(tick), "e": define(tick), "time": passage(world, PERIOD), "f": fire}


async def due_tick(world: JobWorld) -> None:
    """Define a recurring job, and let its first tick come."""
    world.definitions[tick.name] = tick
    await (await world.join()).define(tick)
    world.clock.advance(PERIOD)


async def ticking(world: JobWorld, **programs: JobProgram) -> JobPrograms:
    await due_tick(world)
    return programs


async def two_fire_and_time(world: JobWorld) -> JobPrograms:
    await due_tick(world)
    return {"v": fire, "w": fire, "time": passage(world)}


async def fire_and_redefine(world: JobWorld) -> JobPrograms:
    """A run that ends when the new definition is stored is followed by a tick of that one."""
    await due_tick(world)
    world.gaps[LONGER] = world.clock(), world.clock() + LONGER
    return {"v": fire, "d": define(every(LONGER))}


async def waiting(world: JobWorld, number: int = 1, key: str | None = None) -> str:
    """Enqueue some jobs; return the id of the last."""
    worker = await world.join()
    ids = [await worker.enqueue(key) for _ in range(number)]
    return ids[-1] or ""


async def failed(world: JobWorld, key: str | None = None) -> None:
    worker = await world.join()
    await worker.enqueue(key)
    await worker.fail(await worker.claimed())


JOB_SCENES: dict[str, AnyScene] = {
    scene.__name__: scene
    for scene in (
        enqueue_and_two_workers,
        two_workers_on_two_jobs,
        slow_claim_and_new_worker,
        two_reclaimers,
        cancel_and_work,
        cancel_and_nack,
        cancel_and_late_ack,
        replace_and_late_ack,
        replace_and_nack,
        two_replace_and_work,
        redrive_and_key_taken,
        two_redrives,
        enqueue_many_of_one_key,
        enqueue_and_work_twice,
        ack_many_and_time,
        claim_many_and_work,
        two_define,
        two_fire_and_time,
        fire_and_redefine,
    )
}
JOB_SCENES |= {f"work_after_{verb}": partial(one_job, verb) for verb in MOVES if verb != "extend"}
JOB_SCENES |= {f"late_{verb}_and_new_worker": partial(late, verb) for verb in MOVES}
JOB_SCENES |= {f"ack_after_{verb}": partial(twice, verb) for verb in MOVES if verb != "extend"}
JOB_SCENES |= {
    f"last_attempt_and_{'_and_'.join(verbs)}": partial(last_attempt, verbs)
    for verbs in (("ack",), ("nack",), ("extend", "ack"))
}
JOB_SCENES |= {
    "reclaim_and_late_ack": reclaim_and,
    "reclaim_and_late_ack_and_work": partial(reclaim_and, w=work),
    "key_taken_skip": partial(key_taken, "skip"),
    "key_taken_replace": partial(key_taken, "replace"),
    "key_taken_raise": partial(key_taken, "raise"),
    "one_key_skip_and_replace": partial(two_of_one_key, "skip", "replace"),
    "one_key_skip_and_raise": partial(two_of_one_key, "skip", "raise"),
    "fire_and_remove": partial(ticking, v=fire, r=remove),
}
LARGE_JOB_SCENES: dict[str, AnyScene] = {
    scene.__name__: scene for scene in (two_claims_of_many, everything_at_once)
}
"""Scenes of which there are very many schedules with faults."""
