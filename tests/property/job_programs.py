"""What somebody does with jobs in a small scene, with a pause before each operation."""

from collections.abc import Callable, Coroutine
from typing import Any

from fairlane import Job
from fairlane.jobs import Jobs
from fairlane.jobs._definition import Definition
from fairlane.jobs._drafts import OnDuplicate
from property.actors import Actor
from property.cast import attempted
from property.job_worker import Worker
from property.job_world import JobWorld
from property.scenes import EXPIRY

__all__ = (
    "MOVES",
    "JobProgram",
    "JobPrograms",
    "cancel",
    "claim",
    "define",
    "enqueue",
    "enqueue_many",
    "every",
    "fire",
    "held",
    "held_two",
    "passage",
    "reclaim",
    "redrive",
    "remove",
    "tick",
    "work",
    "work_ending_in",
    "work_on_two",
    "work_twice",
)

JobProgram = Callable[[Actor, Worker], Coroutine[Any, Any, object]]
JobPrograms = dict[str, JobProgram]
Move = Callable[[Worker, Job], Coroutine[Any, Any, bool]]

DELAY = 60.0


async def park(worker: Worker, job: Job) -> bool:
    return await worker.nack(job, DELAY)


MOVES: dict[str, Move] = {
    "ack": Worker.ack,
    "nack": Worker.nack,
    "park": park,
    "fail": Worker.fail,
    "release": Worker.release,
    "extend": Worker.extend,
}
"""What may be done with a job that is held."""


def enqueue(
    key: str | None = None, on_duplicate: OnDuplicate = "skip", **options: Any
) -> JobProgram:
    async def add(actor: Actor, self: Worker) -> None:
        await actor.pause("enqueue")
        await attempted(actor, self.enqueue(key, on_duplicate, **options))

    return add


def enqueue_many(*keys: str | None) -> JobProgram:
    async def add(actor: Actor, self: Worker) -> None:
        await actor.pause("enqueue_many")
        await attempted(actor, self.enqueue_many(*keys))

    return add


async def claim(actor: Actor, self: Worker) -> None:
    await actor.pause("claim")
    await attempted(actor, self.claim())


def work_ending_in(verb: str) -> JobProgram:
    async def work(actor: Actor, self: Worker) -> None:
        await actor.pause("claim")
        if job := (await attempted(actor, self.claim())).value:
            await actor.pause(verb)
            await attempted(actor, MOVES[verb](self, job))

    return work


work = work_ending_in("ack")


async def work_twice(actor: Actor, self: Worker) -> None:
    await work(actor, self)
    await work(actor, self)


async def work_on_two(actor: Actor, self: Worker) -> None:
    await actor.pause("claim_many")
    jobs = (await attempted(actor, self.claim_many(2))).value or []
    if jobs:
        await actor.pause("ack_many")
        await attempted(actor, self.ack_many(jobs))


async def reclaim(actor: Actor, self: Worker) -> None:
    await actor.pause("reclaim")
    await attempted(actor, self.reclaim())


async def redrive(actor: Actor, self: Worker) -> None:
    await actor.pause("redrive")
    await attempted(actor, self.redrive())


def cancel(key: str) -> JobProgram:
    async def call_off(actor: Actor, self: Worker) -> None:
        await actor.pause("cancel")
        await attempted(actor, self.cancel(key))

    return call_off


async def held(world: JobWorld, *verbs: str, **options: Any) -> JobProgram:
    """Return the program of somebody who holds a job, and who is in no hurry to end it."""
    holder = await world.join()
    await holder.enqueue(**options)
    job = await holder.claimed()

    async def settle(actor: Actor, self: Worker) -> None:
        for verb in verbs:
            await actor.pause(verb)
            await attempted(actor, MOVES[verb](self, job))

    return settle


async def held_two(world: JobWorld) -> JobProgram:
    """Return the program of somebody who holds two jobs, and ends them together."""
    holder = await world.join()
    await holder.enqueue()
    await holder.enqueue()
    jobs = await holder.claim_many(2)

    async def settle(actor: Actor, self: Worker) -> None:
        await actor.pause("ack_many")
        await attempted(actor, self.ack_many(jobs))

    return settle


def passage(world: JobWorld, *steps: float) -> JobProgram:
    """Return the program of the time, which passes in these steps; by default past a lease."""

    async def pass_by(actor: Actor, _: Worker) -> None:
        for seconds in steps or (EXPIRY,):
            await actor.pause(f"{seconds:g} seconds")
            world.clock.advance(seconds)

    return pass_by


def every(seconds: float) -> Definition:
    """Return the definition of a job that recurs."""
    jobs = Jobs()

    @jobs.recurring("tick", every=seconds)
    async def tick(_: object) -> None: ...

    return tick.definition


tick = every(60.0)


def define(definition: Definition) -> JobProgram:
    async def say(actor: Actor, self: Worker) -> None:
        await actor.pause("define")
        await attempted(actor, self.define(definition))

    return say


async def fire(actor: Actor, self: Worker) -> None:
    await actor.pause("claim")
    if job := (await attempted(actor, self.claim_tick(tick))).value:
        await actor.pause("fire")
        await attempted(actor, self.fire(job, tick))


async def remove(actor: Actor, self: Worker) -> None:
    await actor.pause("remove")
    await attempted(actor, self.remove(tick.name))
