"""A fresh job queue in memory with any number of participants, whose clock only the test moves."""

from collections.abc import Mapping
from typing import Any

from fairlane import AsyncJobQueue
from fairlane.driver import Document
from fairlane.jobs._definition import Definition
from fairlane.testing import ManualClock
from property.footprint import Footprint
from property.job_log import JobLog
from property.job_story import name_in_store
from property.job_worker import Worker
from property.lookout import Lookout
from property.memory import MemoryDatabase
from property.walks import let_walk
from property.wire import Conduct, Wire, straight
from property.world import HOUR, START

__all__ = ("JobStage", "JobWorld")

MOST_LEFT = 50
"""So many jobs at once are in no world: more of them mean that one is started for ever."""


class JobWorld:
    definitions: dict[str, Definition]
    """Of the recurring jobs, by name: those that whoever drains the world has."""
    gaps: dict[float, tuple[float, float]]
    """Of definitions, by their periods: between which moments they have no tick."""

    def __init__(self, stage: "JobStage") -> None:
        self.clock = stage.clock
        self.log = JobLog(stage.clock, is_kept=stage.is_kept)
        self.lookout = Lookout(stage.live, stage.clock, self.log.blame, part="jobs")
        self.definitions = {}
        self.gaps = {}
        self._stage = stage
        self._joined = 0

    async def join(self, conduct: Conduct = straight) -> Worker:
        """Add a participant, all of whose driver calls are made by `conduct`."""
        queue, wire = await self._stage.queue(self._joined)
        self._joined += 1
        name = f"p{self._joined}"
        wire.conduct = self.lookout.watched(name, conduct)
        return Worker(queue, self.log, name, self.lookout)

    def stored(self) -> list[Document]:
        return self._stage.stored()

    def state(self) -> object:
        """Return what tells this world from others, its log and its documents included."""
        return self.log.state(), self.lookout.state(), self._stage.contents()

    async def judge(self) -> None:
        """Work off an hour later what is left, and judge the run by J1 to J6."""
        self.log.expect_none()
        self._expect_unique()
        self._expect_redefined()
        self.clock.advance(HOUR)
        await self._drain(await self.join())
        self.log.check(self.stored())
        self._expect_ticks()

    def _recurring(self) -> list[Document]:
        return [each for each in self.stored() if each["kind"] == "recurring"]

    async def _drain(self, worker: Worker) -> None:
        for _ in range(MOST_LEFT):
            job = await worker.claim()
            if job is None:
                break
            assert await worker.ack(job)
        else:
            self.log.blame("J4 a job is started for ever")
        for definition in self.definitions.values():
            if job := await worker.claim_tick(definition):
                assert await worker.fire(job, definition)

    def _expect_unique(self) -> None:
        keys = [
            (each["type"], each["unique_key"]) for each in self.stored() if "unique_key" in each
        ]
        if len(set(keys)) < len(keys):
            self.log.blame(f"J5 two jobs are alive with one key: {keys}")

    def _expect_redefined(self) -> None:
        """What was defined last is stored, and the next tick is one of that definition."""
        for document in self._recurring():
            schedule = document["schedule"]
            if schedule not in self.log.defined.get(document["type"], [schedule]):
                self.log.blame(f"the new definition of {document['type']} is lost")
            after, before = self.gaps.get(schedule.get("every"), (0.0, 0.0))
            if document["token"] is None and after < document["scheduled_at"] < before:
                self.log.blame(f"the next tick of {document['type']} is of its old definition")

    def _expect_ticks(self) -> None:
        """Every recurring job that was not removed waits for its next tick."""
        found = {each["type"]: each for each in self._recurring()}
        for name in self.definitions:
            is_wanted = f"recurring:{name}" in self.log.created - self.log.removed
            if is_wanted and (name not in found or not self._waits(found[name])):
                self.log.blame(f"J4 {name} is stuck: {found.get(name)}")
        self.log.expect_none()

    def _waits(self, document: Mapping[str, Any]) -> bool:
        is_ahead: bool = document["available_at"] > self.clock()
        return document["state"] == "pending" and document["token"] is None and is_ahead


class JobStage:
    """Worlds of jobs in memory. What is done in them can be observed.

    Args:
        is_recent: the server has the commands that not every server has.
        is_kept: jobs that are done, or have failed, are not deleted.
    """

    def __init__(
        self, *, is_recent: bool = True, is_kept: bool = True, partitions: int = 1
    ) -> None:
        self.clock = ManualClock(START)
        self.is_kept = is_kept
        self._is_recent = is_recent
        self._options: dict[str, Any] = {"partitions": partitions}
        if not is_kept:
            self._options |= {"keep_done": 0, "keep_failed": 0}
        self._database = MemoryDatabase()
        self._database.watcher = self._watch
        self._queues: list[tuple[AsyncJobQueue, Wire]] = []
        self._world: JobWorld | None = None

    async def fresh(self) -> JobWorld:
        self.clock.jump(START)
        self._database.clear()
        for queue, _ in self._queues:
            let_walk(queue)
        self._world = JobWorld(self)
        return self._world

    async def queue(self, number: int) -> tuple[AsyncJobQueue, Wire]:
        while len(self._queues) <= number:
            queue = self._database.queue(clock=self.clock, **self._options)
            await queue._store.ready()
            queue._store.driver.has_cross_collection_bulk = self._is_recent
            let_walk(queue)
            self._queues.append((queue, Wire(queue, parts=("jobs", "counters"))))
        return self._queues[number]

    def observe(self) -> Footprint:
        """Return what was read and written since the last call."""
        footprint, self._database.footprint = self._database.footprint, Footprint()
        return footprint

    def contents(self) -> object:
        return self._database.contents()

    def stored(self) -> list[Document]:
        return self._database.every("jobs")

    def live(self) -> list[Document]:
        """Return the jobs that have not ended, but for recurring ones."""
        jobs = [each for each in self.stored() if each["kind"] == "event"]
        return [each for each in jobs if "available_at" in each]

    def _watch(self, name: str, before: Document | None, after: Document) -> None:
        """Tell the log of each lease in the store, and of those that somebody else has ended."""
        if self._world is None or name != "fairlane_jobs" or before is None:
            return
        if after["state"] == "failed" and after["attempts"] >= after["max_attempts"]:
            self._world.log.used_up(name_in_store(after))
        if "available_at" in after and "available_at" not in before:
            self._world.log.begun_anew(name_in_store(after))
        token: str | None = before.get("token")
        is_taken = token is not None and token != after.get("token")
        if token is not None and is_taken and before["available_at"] <= self.clock():
            self._world.log.overtaken(name_in_store(before), token)
        if after.get("epoch") != before.get("epoch"):
            self._world.log.leased(name_in_store(after), after["token"])
