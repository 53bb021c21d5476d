"""Every background loop of a pool of jobs bears the errors of the server (fault 38)."""

import logging
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from job_fakes import Scene
from worker_fakes import in_virtual_time

from fairlane import Fail, Retry
from unit.failing import ERRORS, Failing

LONGEST_PAUSE = 3.0
LEASE = 1_000.0
"""Seconds, above what all the tries take together."""
CALM = 70.0
"""Seconds after which the pool has reconciled."""


@dataclass(frozen=True)
class Work:
    """What a handler does so that a verb is called, and how the job ends."""

    seconds: float = 0.0
    answer: Exception | None = None
    ending: str = "acked"
    during: str = "degraded"
    lines: int = 1


VERBS = {
    "open": Work(during="starting"),
    "claim": Work(during="starting"),
    "extend": Work(seconds=LEASE * 0.9),
    "ack": Work(),
    "retry": Work(answer=Retry(0)),
    "fail": Work(answer=Fail("no"), ending="dead_lettered", lines=2),
    "reschedule": Work(),
    "revive": Work(),
    "reconcile": Work(),
}


def prepared(verb: str, work: Work) -> Scene:
    scene = Scene()
    answers = [work.answer]

    async def handle(*_: Any) -> None:
        await anyio.sleep(work.seconds)
        answer = answers.pop() if answers else None
        if answer is not None:
            raise answer

    if verb == "reschedule":
        scene.jobs.recurring("tick", every=3_600, lease=LEASE)(handle)
        scene.side.add_recurring("tick", 0.0)
    else:
        scene.jobs.event("work", lease=LEASE)(handle)
        scene.side.add("work")
    return scene


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("verb", VERBS)
def test_background_loop_of_jobs_survives_errors_of_the_server(
    verb: str, error: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It logs, backs off up to a cap, goes on; the health is degraded meanwhile."""
    caplog.set_level(logging.WARNING, logger="fairlane")
    work = VERBS[verb]

    @in_virtual_time
    async def scenario() -> None:
        scene = prepared(verb, work)
        failing = Failing(scene.side, verb, ERRORS[error])
        states = set()
        async with scene.pool() as pool:
            while not failing.is_over:
                await anyio.sleep(0.05 if failing.called_at else 1.0)
                if failing.called_at and not failing.is_over:
                    states.add(pool.health.state)
            await scene.record.until(work.ending)
            await anyio.sleep(CALM)
            last = pool.health.state
        assert (states, last) == ({work.during}, "ok")
        assert 0.0 < sum(failing.pauses[:3]) < sum(failing.pauses[-3:])
        assert max(failing.pauses) <= LONGEST_PAUSE

    scenario()
    assert len(caplog.records) == work.lines
