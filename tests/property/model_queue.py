"""The job queue in plain Python: what it promises, one step after the other."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from fairlane.jobs import JobStats, Reclaimed
from property.model_job import ENDED, ENDLESS, Entry, Order

__all__ = ("ModelQueue",)

EXHAUSTED = "no attempt is left: each of its workers died, or lost its lease"
LAST: Order = (2**31, 0.0)


@dataclass(slots=True)
class ModelQueue:
    clock: Callable[[], float]
    partition_of: Callable[[str], int]
    jobs: dict[str, Entry] = field(default_factory=dict)

    def numbered(self) -> list[Entry]:
        return sorted(self.jobs.values(), key=lambda job: job.number)

    def rival(self, type: str, key: str | None) -> Entry | None:
        """Return the job that has this key, if it is one."""
        if key is None:
            return None
        return next((job for job in self._alive() if (job.type, job.key) == (type, key)), None)

    def enqueue(self, new: Entry, on_duplicate: str) -> tuple[Entry, bool, bool]:
        """Return the job that has the key now, and whether it is new, or was replaced."""
        there = self.rival(new.type, new.key)
        if there is None:
            self.jobs[new.id] = new
            return new, True, False
        is_replaced = on_duplicate == "replace" and there.is_free(self.clock())
        if is_replaced:
            there.become(new)
        return there, False, is_replaced

    def due(self, types: Sequence[str]) -> list[Entry]:
        wanted = [job for job in self.jobs.values() if not types or job.type in types]
        return [job for job in wanted if job.is_due(self.clock())]

    def first(self, types: Sequence[str]) -> list[Entry]:
        """Return the jobs of which a claim returns one; the choice among them is free.

        The order is exact within a partition, and free between jobs that are alike in it.
        """
        ready = [job for job in self.due(types) if not job.is_exhausted]
        first: dict[int, Order] = {}
        for job in ready:
            place = self.partition_of(job.id)
            first[place] = min(job.order, first.get(place, LAST))
        return [job for job in ready if job.order == first[self.partition_of(job.id)]]

    def exhaust(self, job: Entry) -> None:
        """Let a claim, or a reclaimer, end a job that it found without an attempt left."""
        job.end("failed", EXHAUSTED)

    def ack(self, job: Entry) -> None:
        job.end("done")

    def fail(self, job: Entry) -> None:
        job.end("failed", "why")

    def nack(self, job: Entry, delay: float = 0.0) -> None:
        job.last_error = "why"
        if job.is_exhausted:
            job.end("failed")
        else:
            job.wait(self.clock() + delay)

    def release(self, job: Entry, interrupted: bool = False) -> None:
        job.attempts -= 1
        job.interrupted += interrupted
        job.wait(self.clock())

    def extend(self, job: Entry, lease: float) -> None:
        job.due = max(job.due, self.clock() + lease)

    def fire(self, job: Entry) -> None:
        job.last_error = None
        job.run_next(self.clock())

    def held(self, id: str, token: str | None) -> Entry | None:
        job = self.jobs.get(id)
        return job if job is not None and job.is_alive and job.holder == token else None

    def reclaim(self, type: str | None) -> Reclaimed:
        stale = [job for job in self.due((type,) if type else ()) if job.state == "processing"]
        last = [job for job in stale if job.is_exhausted]
        for job in stale:
            job.state = "pending"
        for job in last:
            self.exhaust(job)
        return Reclaimed(requeued=len(stale) - len(last), failed=len(last))

    def cancel(self, id: str) -> bool:
        job = self.jobs.get(id)
        is_free = job is not None and job.is_free(self.clock())
        if is_free:
            del self.jobs[id]
        return is_free

    def redrive(self, id: str | None, type: str | None) -> int:
        """Of failed jobs with one key the first by its id has it again."""
        failed = [job for _, job in sorted(self.jobs.items()) if job.state == "failed"]
        chosen = [job for job in failed if id in (None, job.id) and type in (None, job.type)]
        redriven = 0
        for job in chosen:
            if self.rival(job.type, job.key) is not None:
                continue
            job.attempts = job.interrupted = 0
            job.wait(self.clock())
            redriven += 1
        return redriven

    def purge(self, type: str | None) -> int:
        ended = [job.id for job in self.jobs.values() if not job.is_alive]
        chosen = [id for id in ended if type in (None, self.jobs[id].type)]
        for id in chosen:
            del self.jobs[id]
        return len(chosen)

    def force(self, id: str, state: str) -> bool:
        job = self.jobs.get(id)
        if job is None or not job.is_alive:
            return False
        if state == "pending":
            job.wait(self.clock())
        else:
            job.end(state)
        return True

    def define(self, name: str, period: float, number: int) -> None:
        """Create the record of a recurring job, or let its next run be as it is defined by now."""
        id, now = f"recurring:{name}", self.clock()
        job, tick = self.jobs.get(id), now + period
        if job is None:
            new = Entry(number, id, name, None, 0, tick, now, ENDLESS, tick=tick, period=period)
            self.jobs[id] = new
        elif job.period != period:
            job.period = period
            if job.holder is None:
                job.tick = tick
                job.attempts = job.interrupted = 0
                job.wait(tick)

    def stats(self) -> JobStats:
        kinds = sorted({job.type for job in self.jobs.values()})
        return self._stats(None, {kind: self._stats(kind) for kind in kinds})

    def _stats(self, type: str | None, by_type: dict[str, JobStats] | None = None) -> JobStats:
        jobs = [job for job in self.jobs.values() if type in (None, job.type)]
        states = [self._shown(job) for job in jobs]
        ready = [job.created_at for job in jobs if self._shown(job) == "ready"]
        return JobStats(
            ready=states.count("ready"),
            delayed=states.count("delayed"),
            processing=states.count("processing"),
            done=states.count("done"),
            failed=states.count("failed"),
            total=len(jobs),
            oldest_age=self.clock() - min(ready) if ready else None,
            by_type=by_type or {},
        )

    def _shown(self, job: Entry) -> str:
        if job.state in ENDED:
            return job.state
        if job.due <= self.clock():
            return "ready"
        return "delayed" if job.holder is None else "processing"

    def _alive(self) -> Iterator[Entry]:
        return (job for job in self.jobs.values() if job.is_alive)
