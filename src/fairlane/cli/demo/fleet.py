"""The worker processes: started, watched, killed on purpose, and all gone at the end."""

import asyncio
import sys
from itertools import count
from pathlib import Path
from types import TracebackType

from fairlane.cli.demo.crew import Crew, WorkerPlan
from fairlane.cli.demo.records import Execution, Journal, Settlement, now
from fairlane.errors import FairlaneError

__all__ = ("Fleet", "Worker")

START_TIMEOUT = 60.0
STOP_TIMEOUT = 6.0
SHOWN_LOG_LINES = 15


class Worker:
    """One worker process and its journal."""

    def __init__(self, plan: WorkerPlan, slot: int, log: Path) -> None:
        self.plan = plan
        self.slot = slot
        self.journal: Journal = Journal(Path(plan.journal))
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._died_at = 0

    @property
    def pid(self) -> int:
        return self._running().pid

    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "the worker was not started"
        return self._process

    async def start(self) -> None:
        """Start the process and wait until it claims."""
        with self._log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "fairlane.cli.demo._worker"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the parent, who then ends us in order
            )
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(self.plan.to_json().encode() + b"\n")
        try:
            async with asyncio.timeout(START_TIMEOUT):
                is_ready = bool(await process.stdout.readline())
        except TimeoutError:
            problem = f"worker {self.plan.name} was not ready within {START_TIMEOUT:g} s"
            raise FairlaneError(problem) from None
        if not is_ready:
            await self._reap()
            raise self._death()

    def check_alive(self) -> None:
        """Raise `FairlaneError` with its last words if the process has ended by itself."""
        if self._process is not None and self._process.returncode is not None:
            raise self._death()

    def _death(self) -> FairlaneError:
        lines = self._log.read_text(errors="replace").splitlines()[-SHOWN_LOG_LINES:]
        status = self._running().returncode
        said = "\n".join(lines) or "(nothing)"
        return FairlaneError(
            f"worker {self.plan.name} ended by itself with status {status}; it said:\n{said}"
        )

    async def kill(self) -> None:
        """End the process by SIGKILL and wait until it is gone."""
        process = self._running()
        if process.returncode is None:
            process.kill()
        await self._reap()

    async def stop(self) -> None:
        """Let the process finish what it does; kill it if that takes too long."""
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await self._reap()
        except TimeoutError:
            await self.kill()

    async def _reap(self) -> None:
        await self._running().wait()
        self._died_at = self._died_at or now()

    def executions(self) -> list[Execution]:
        """Return what the handlers of a process that is gone did."""
        return self.journal.executions(died_at=self._died_at)


class Fleet:
    """All worker processes of a run; an async context manager that leaves none behind."""

    def __init__(self, plan: Crew, *, url: str, database: str, folder: Path) -> None:
        self._plan = plan
        self._url = url
        self._database = database
        self._folder = folder
        self._names = (f"worker-{number}" for number in count(1))
        self._working: list[Worker] = []
        self._gone: list[Worker] = []
        self.killed: list[str] = []

    async def __aenter__(self) -> "Fleet":
        try:
            async with asyncio.TaskGroup() as tasks:
                for slot in range(self._plan.processes):
                    tasks.create_task(self._start(slot))
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _start(self, slot: int) -> Worker:
        name = next(self._names)
        plan = WorkerPlan(
            name=name,
            url=self._url,
            database=self._database,
            driver=self._plan.driver,
            claimers=self._plan.claimers(slot),
            visibility=self._plan.visibility,
            journal=str(self._folder / f"{name}.jsonl"),
            work=self._plan.work,
        )
        worker = Worker(plan, slot, self._folder / f"{name}.log")
        self._working.append(worker)
        await worker.start()
        return worker

    @property
    def is_victim_busy(self) -> bool:
        """Whether a handler was at work, when last looked, in the process that `kill_one` kills."""
        return self._working[0].journal.running > 0

    async def kill_one(self) -> Worker:
        """Kill the first worker process in the middle of its work and return it."""
        victim = self._working.pop(0)
        self._gone.append(victim)
        self.killed.append(victim.plan.name)
        await victim.kill()
        return victim

    async def replace(self, victim: Worker) -> Worker:
        """Start another process with as many claimers as the victim had."""
        return await self._start(victim.slot)

    def poll(self) -> list[Execution]:
        """Return the executions that ended since the last poll, in all processes."""
        return [e for worker in [*self._gone, *self._working] for e in worker.journal.poll()]

    def check_alive(self) -> None:
        """Raise `FairlaneError` if a process that nobody killed has ended."""
        for worker in self._working:
            worker.check_alive()

    async def stop(self) -> None:
        """Let all processes finish what they do, and wait until they are gone."""
        async with asyncio.TaskGroup() as tasks:
            for worker in self._working:
                tasks.create_task(worker.stop())
        self._gone += self._working
        self._working = []

    def executions(self) -> list[Execution]:
        """Return all executions of all processes; only after `stop`."""
        return [e for worker in self._gone for e in worker.executions()]

    def settlements(self) -> list[Settlement]:
        """Return how leases ended, as all pools tell it; only after `executions`."""
        return [s for worker in self._gone for s in worker.journal.settlements]
