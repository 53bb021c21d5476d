"""One worker process: load, open, work, drain, close."""

import asyncio
import logging
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from fairlane.cli.outcome import FAILED, OK
from fairlane.cli.worker import logs
from fairlane.cli.worker.failing import status_of, tell
from fairlane.cli.worker.finding import find
from fairlane.cli.worker.health import Document, document
from fairlane.cli.worker.loops import loop_factory
from fairlane.cli.worker.making import made
from fairlane.cli.worker.plan import HealthPlan, Plan
from fairlane.cli.worker.stopping import Step, Steps, leave_at_once
from fairlane.cli.worker.telling import beside, telling
from fairlane.cli.worker.wire import Wire
from fairlane.errors import FairlaneError

if TYPE_CHECKING:
    from fairlane.worker import WorkerPool

__all__ = ("Process", "work")

logger: logging.Logger = logging.getLogger(__name__)

FAREWELL = 10.0
"""Seconds that threads of handlers have to end, once all else is over."""

GIVING_BACK = 15.0
"""Seconds that an orphan has beyond its pool's `drain_timeout`."""

CANCELLED = "the task of the worker was cancelled, but not by a signal or the supervisor"

BEAT = 1.0
BEAT_AT_FIRST = 0.1


def work(plan: Plan, health: HealthPlan | None = None, wire: Wire | None = None) -> int:
    """Work until a signal, or the supervisor, says to stop; return the status to exit with."""
    logs.set_up(plan)
    process = Process(plan, health or HealthPlan(), wire)
    try:
        factory = loop_factory(plan.loop)
    except Exception as error:
        tell(plan, error)
        return status_of(error)
    with asyncio.Runner(loop_factory=factory) as runner:
        status = runner.run(process.run())
        process.steps.leave_in(FAREWELL, status)  # Python waits for the threads of handlers
    return status


class Process:
    def __init__(self, plan: Plan, health: HealthPlan, wire: Wire | None = None) -> None:
        self.steps: Steps = Steps(self._act, leave=leave_at_once, kill_after=plan.kill_after)
        self._plan = plan
        self._health = health
        self._wire = wire
        self._pool: WorkerPool[Any] | None = None
        self._task: asyncio.Task[Any] | None = None

    async def run(self) -> int:
        """Return the exit status; an error has been told then."""
        self._task = asyncio.current_task()
        with self.steps.following_signals():
            try:
                async with self._heard(), telling(self._health, self._document):
                    await self._work()
            except asyncio.CancelledError:
                if not self.steps.step:
                    tell(self._plan, FairlaneError(CANCELLED))
                    return FAILED
            except (Exception, SystemExit) as error:
                tell(self._plan, error)
                return status_of(error)
        logger.info("worker ended")
        return OK

    async def _work(self) -> None:
        target = self._plan.target
        async with made(find(target, self._plan.app_dir), target) as pool:
            self._pool = pool
            loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
            python = platform.python_version()
            logger.info("%s works as %s; Python %s, %s", target, pool.worker_id, python, loop)
            if self.steps.step:
                return
            await pool.run()

    def _act(self, step: Step) -> None:
        if step is Step.DRAIN and self._pool is not None:
            logger.info("draining; a second signal cancels handlers, a third one leaves at once")
            self._pool.stop()
        elif self._task is not None:  # nothing is at work yet, or it shall be cancelled
            logger.info("stopping: %s", "handlers are cancelled" if self._pool else "no pool yet")
            self._task.cancel()

    def _document(self) -> Document:
        return document(self._pool)

    @asynccontextmanager
    async def _heard(self) -> AsyncIterator[None]:
        """Let a supervisor hear of this process, and this process of its supervisor."""
        wire = self._wire
        if wire is not None:
            wire.follow(self.steps, self._patience)
        async with nullcontext() if wire is None else beside(self._beat(wire)):
            yield

    async def _beat(self, wire: Wire) -> None:
        while True:
            health = self._document()
            wire.tell(health)
            await asyncio.sleep(BEAT_AT_FIRST if health["last_poll_age"] is None else BEAT)

    def _patience(self) -> float:
        drain = 0.0 if self._pool is None else self._pool.drain_timeout
        return drain + GIVING_BACK
