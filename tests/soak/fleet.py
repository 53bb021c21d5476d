"""The machines: worker processes that are started, killed and stopped, and leave their books."""

import asyncio
import contextlib
import os
import random
import sys
from dataclasses import replace
from itertools import count
from pathlib import Path

import anyio

from fairlane.cli.demo.records import Execution, Journal, now
from fairlane.errors import FairlaneError
from soak.ledger import Told, read
from soak.plan import LONGEST_GOODBYE, LONGEST_SKEW, MachinePlan, Plan

__all__ = ("Fleet",)

START_TIMEOUT = 60.0
STOP_TIMEOUT = LONGEST_GOODBYE + 5.0
LOOK_EVERY = 0.1
SHOWN_LOG_BYTES = 4_000
WARNINGS = {
    "motor": ("-W", "error"),
    # PyMongo 4.20 leaves a socket to the garbage collector when its connecting is cancelled.
    "pymongo": ("-W", "error", "-W", "ignore:unclosed <socket:ResourceWarning"),
}
TESTS = Path(__file__).parents[1]


class Machine:
    """One worker process.

    Attributes:
        handled: executions that have ended well, as far as `look` knows.
        fault: how it ended, if that was not as it should.
    """

    def __init__(self, plan: MachinePlan) -> None:
        self.plan = plan
        self.handled = 0
        self.fault: str | None = None
        self._journal = Journal(Path(plan.journal))
        self._log = Path(plan.journal).with_suffix(".log")
        self._process: asyncio.subprocess.Process | None = None
        self._died_at = 0

    async def start(self) -> None:
        """Start the process and wait until it claims."""
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, *WARNINGS[self.plan.driver], "-m", "soak.machine"),
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
        if self._process is None:
            return
        if self._process.returncode is not None:
            self.fault = f"ended by itself:\n{self.last_words()}"
            return
        self._died_at = now()  # when it is reaped another machine may already do its work
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()

    async def stop(self) -> None:
        """Let it finish what it does."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._process.wait()
        except TimeoutError:
            await self.kill()
        self._died_at = self._died_at or now()
        if self._process.returncode:
            self.fault = f"did not end well:\n{self.last_words()}"

    def last_words(self) -> str:
        return self._log.read_text(errors="replace")[-SHOWN_LOG_BYTES:]

    def look(self) -> None:
        """Count what it has handled since the last look."""
        self.handled += sum(each.outcome == "handled" for each in self._journal.poll())

    def executions(self) -> list[Execution]:
        """Return what its handlers did; only after its end."""
        return self._journal.executions(died_at=self._died_at)

    def told(self) -> Told:
        """Return what it wrote down; only after its end. Its fault is an error as well."""
        told = read(Path(self.plan.ledger))
        stray = told.stray if self.fault is None else [*told.stray, self.fault]
        return replace(told, stray=stray)


class Fleet:
    """All machines of a soak.

    Attributes:
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
        self.killed = 0

    @property
    def handled(self) -> int:
        """Executions that have ended well."""
        return sum(machine.handled for machine in (*self._gone, *self._working))

    async def start(self) -> None:
        async with asyncio.TaskGroup() as starts:
            for _ in range(self._plan.machines):
                starts.create_task(self._add(self.next()))

    async def _add(self, plan: MachinePlan) -> None:
        machine = Machine(plan)
        self._working.append(machine)
        await machine.start()

    def next(self) -> MachinePlan:
        """Choose what the next machine is like."""
        name, chance = f"machine-{next(self._numbers)}", self._chance
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
        await self._add(self.next())

    async def watch(self) -> None:
        """Keep count of what is handled, for ever."""
        while True:
            for machine in (*self._gone, *self._working):
                machine.look()
            await asyncio.sleep(LOOK_EVERY)

    async def idlers(self, within: float) -> list[str]:
        """Wait for each machine to handle one more event; return who does not in time."""
        before = {machine: machine.handled for machine in self._working}
        idle = [*before]
        with anyio.move_on_after(within):
            while idle:
                await asyncio.sleep(LOOK_EVERY)
                idle = [machine for machine in idle if machine.handled == before[machine]]
        return [machine.plan.name for machine in idle]

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

    def told(self) -> dict[str, Told]:
        """Return what each machine wrote down."""
        return {machine.plan.name: machine.told() for machine in self._gone}
