"""Several worker processes: kept alive, told to stop, and none left behind."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from fairlane.cli.outcome import FAILED, OK, USAGE
from fairlane.cli.worker import logs
from fairlane.cli.worker.child import spawned
from fairlane.cli.worker.failing import GAVE_UP, status_of, tell
from fairlane.cli.worker.health import OF_NO_POOL, Document, fleet_document
from fairlane.cli.worker.plan import HealthPlan, Plan
from fairlane.cli.worker.restarts import Life, Restarts
from fairlane.cli.worker.stopping import Step, Steps, leave_at_once
from fairlane.cli.worker.telling import telling
from fairlane.errors import FairlaneError

__all__ = ("Supervisor", "supervise")

logger: logging.Logger = logging.getLogger(__name__)


class _Ward(Protocol):
    """What a supervisor needs of a process that it has started."""

    @property
    def pid(self) -> int: ...
    async def live(self) -> Life: ...
    def order(self, step: Step) -> None: ...
    def kill(self) -> None: ...
    def health(self) -> Document: ...


Start = Callable[[], Awaitable[_Ward]]


def supervise(plan: Plan, health: HealthPlan, processes: int) -> int:
    """Keep so many processes at work until a signal says to stop; return the exit status."""
    logs.set_up(plan)
    supervisor = Supervisor(processes, partial(spawned, plan), kill_after=plan.kill_after)
    return asyncio.run(_told(supervisor, plan, health))


async def _told(supervisor: "Supervisor", plan: Plan, health: HealthPlan) -> int:
    try:
        async with telling(health, supervisor.document):
            return await supervisor.run()
    except FairlaneError as error:
        tell(plan, error)
        return status_of(error)


class Supervisor:
    """Starts processes, and starts those again that end without having been asked to."""

    def __init__(
        self,
        processes: int,
        start: Start,
        *,
        restarts: Callable[[], Restarts] = Restarts,
        kill_after: float | None = None,
    ) -> None:
        self._start = start
        self._places = [_Place(number, restarts()) for number in range(1, processes + 1)]
        self._stopping = asyncio.Event()
        self._status = OK
        self._steps: Steps = Steps(self._act, leave=self._leave, kill_after=kill_after)

    async def run(self) -> int:
        """Return the exit status once all processes have ended."""
        with self._steps.following_signals():
            async with asyncio.TaskGroup() as tasks:
                for place in self._places:
                    tasks.create_task(self._keep(place))
        return self._status

    def document(self) -> Document:
        """Return the health of all processes together, and of each."""
        together = fleet_document([place.document() for place in self._places])
        return {**together, "state": "draining"} if self._stopping.is_set() else together

    async def _keep(self, place: "_Place") -> None:
        while not self._stopping.is_set():
            life = await self._live(place)
            if self._stopping.is_set():
                self._note(place, life)
            elif life.status == USAGE:
                self._give_up(USAGE, f"process {place.number} cannot work, see above")
            elif (delay := place.restarts.after(life)) is not None:
                await self._rest(place, life, delay)
            else:
                self._give_up(GAVE_UP, f"process {place.number} ends again before it has worked")

    async def _live(self, place: "_Place") -> Life:
        try:
            ward = await self._start()
        except OSError as error:
            logger.error("process %d cannot be started: %s", place.number, error)
            return Life(status=FAILED, seconds=0.0, has_worked=False)
        logger.info("process %d has pid %d", place.number, ward.pid)
        place.ward = ward
        if self._steps.step:
            ward.order(Step(min(self._steps.step, Step.CANCEL)))
        try:
            return await ward.live()
        finally:
            place.ward = None

    async def _rest(self, place: "_Place", life: Life, delay: float) -> None:
        logger.warning(
            *("process %d ended %s after %.1f s, starting another one in %.1f s", place.number),
            *(_how(life.status), life.seconds, delay),
        )
        try:
            async with asyncio.timeout(delay):
                await self._stopping.wait()
        except TimeoutError:
            pass

    def _note(self, place: "_Place", life: Life) -> None:
        logger.info("process %d ended %s", place.number, _how(life.status))
        if self._status == OK and life.status != OK:
            self._status = life.status if life.status > 0 else FAILED

    def _give_up(self, status: int, why: str) -> None:
        logger.critical("giving up, the others drain: %s", why)
        self._status = status
        self._stopping.set()
        self._steps.reach(Step.DRAIN)

    def _act(self, step: Step) -> None:
        logger.info("telling all processes to %s", step.name.lower())
        self._stopping.set()
        for ward in self._wards():
            ward.order(step)

    def _leave(self, status: int) -> None:
        for ward in self._wards():
            ward.kill()
        leave_at_once(status)

    def _wards(self) -> list[_Ward]:
        return [place.ward for place in self._places if place.ward is not None]


class _Place:
    """One of the processes of a fleet: whichever has it now."""

    def __init__(self, number: int, restarts: Restarts) -> None:
        self.number = number
        self.restarts = restarts
        self.ward: _Ward | None = None

    def document(self) -> Document:
        if self.ward is None:
            gone = {**OF_NO_POOL, "last_poll_age": None, "worker_id": None, "pid": None}
            state = "restarting" if self.restarts.count else "starting"
            return {**gone, "state": state, "restarts": self.restarts.count}
        return {**self.ward.health(), "restarts": self.restarts.count}


def _how(status: int) -> str:
    """Say how a process ended."""
    if status < 0:
        return f"by {signal.Signals(-status).name}"
    return f"with status {status}"
