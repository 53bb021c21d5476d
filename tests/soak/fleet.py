"""The machines: worker processes that are started, killed and stopped, and leave their books."""

import asyncio
import contextlib
import os
import random
import sys
from itertools import count
from pathlib import Path

from fairlane.cli.demo.records import Execution, Journal, now
from fairlane.errors import FairlaneError
from fairlane.worker import WorkerEvent
from soak.ledger import read
from soak.plan import LONGEST_SKEW, MachinePlan, Plan

__all__ = ("Fleet",)

START_TIMEOUT = 60.0
STOP_TIMEOUT = 20.0
LOOK_EVERY = 0.1
SHOWN_LOG_BYTES = 4_000
# PyMongo 4.20 leaves a socket to the garbage collector when its connecting is cancelled.
WARNINGS = ("-W", "error", "-W", "ignore::ResourceWarning")
TESTS = Path(__file__).parents[1]


class Machine:
    """One worker process."""

    def __init__(self, plan: MachinePlan) -> None:
        self.plan = plan
        self.journal = Journal(Path(plan.journal))
        self._log = Path(plan.journal).with_suffix(".log")
        self._process: asyncio.subprocess.Process | None = None
        self._died_at = 0

    async def start(self) -> None:
        """Start the process and wait until it claims."""
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, *WARNINGS, "-m", "soak.machine"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=TESTS,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(self.plan.to_json().encode() + b"\n")
        async with asyncio.timeout(START_TIMEOUT):
            if not await self._process.stdout.readline():
                raise FairlaneError(f"{self.plan.name} did not start:\n{self.last_words()}")

    async def kill(self) -> None:
        """End it by SIGKILL, in the middle of whatever it does."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._reap()

    async def stop(self) -> None:
        """Let it finish what it does."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(STOP_TIMEOUT):
            await self._reap()
        if self._process.returncode:
            raise FairlaneError(f"{self.plan.name} ended badly:\n{self.last_words()}")

    async def _reap(self) -> None:
        assert self._process is not None
        await self._process.wait()
        self._died_at = self._died_at or now()

    def last_words(self) -> str:
        return self._log.read_text(errors="replace")[-SHOWN_LOG_BYTES:]

    def executions(self) -> list[Execution]:
        """Return what its handlers did; only after its end."""
        return self.journal.executions(died_at=self._died_at)


class Fleet:
    """All machines of a soak.

    Attributes:
        handled: executions that have ended well.
        killed: machines that were killed and replaced.
    """

    def __init__(self, plan: Plan, *, url: str, database: str, folder: Path) -> None:
        self._plan = plan
        self._url = url
        self._database = database
        self._folder = folder
        self._chance = plan.chance("fleet")
        self._numbers = count(1)
        self._working: list[Machine] = []
        self._gone: list[Machine] = []
        self.handled = 0
        self.killed = 0

    async def start(self) -> None:
        for _ in range(self._plan.machines):
            await self._add()

    async def _add(self) -> None:
        machine = Machine(self._describe(next(self._numbers)))
        self._working.append(machine)
        await machine.start()

    def _describe(self, number: int) -> MachinePlan:
        name, chance = f"machine-{number}", self._chance
        return MachinePlan(
            name=name,
            url=self._url,
            database=self._database,
            driver=chance.choice(("motor", "pymongo")),
            retries=chance.random() < 0.5,
            skew=chance.uniform(-LONGEST_SKEW, LONGEST_SKEW),
            leap=chance.choice((0.0, -3600.0, 3600.0)),
            handlers=self._plan.handlers,
            trusts_wall_clock=self._plan.trusts_wall_clocks,
            journal=str(self._folder / f"{name}.jsonl"),
            ledger=str(self._folder / f"{name}.ledger.jsonl"),
        )

    async def replace_one(self, chance: random.Random) -> None:
        """Kill one machine and start another in its place."""
        victim = self._working.pop(chance.randrange(len(self._working)))
        self._gone.append(victim)
        await victim.kill()
        self.killed += 1
        await self._add()

    async def watch(self) -> None:
        """Keep count of what is handled, for ever."""
        while True:
            for machine in (*self._gone, *self._working):
                ended = machine.journal.poll()
                self.handled += sum(execution.outcome == "handled" for execution in ended)
            await asyncio.sleep(LOOK_EVERY)

    async def end(self) -> None:
        """Kill every second machine and let the others finish."""
        working, self._working = self._working, []
        self._gone += working
        for machine in working[::2]:
            await machine.kill()
        async with asyncio.TaskGroup() as tasks:
            for machine in working[1::2]:
                tasks.create_task(machine.stop())

    async def kill_all(self) -> None:
        working, self._working = self._working, []
        self._gone += working
        for machine in working:
            await machine.kill()

    def executions(self) -> list[Execution]:
        return [execution for machine in self._gone for execution in machine.executions()]

    def told(self) -> tuple[list[WorkerEvent], list[str]]:
        """Return what the pools told, and the errors that nobody heard."""
        events: list[WorkerEvent] = []
        stray: list[str] = []
        for machine in self._gone:
            told, unheard = read(Path(machine.plan.ledger))
            events += told
            stray += [f"{machine.plan.name}: {error}" for error in unheard]
        return events, stray
