"""A job queue in memory, as a worker pool sees it; time is the event loop's."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio
import anyio.lowlevel
from worker_fakes import Record, now

from fairlane import AsyncJobQueue, Backoff, Execution, Job, JobContext, Jobs, WorkerPool
from fairlane.clock import instant
from fairlane.errors import JobLost
from fairlane.jobs import Definition
from fairlane.jobs.working import Demand

__all__ = ("FakeQueue", "FakeSide", "Scene", "endings")

ENDLESS = 2**31 - 1
EXACT = Backoff(base=10.0, jitter=0.0)


@dataclass(kw_only=True)
class Stored:
    """A job as the queue has it; `answered` is the last start whose end was written."""

    job: Job
    due_at: float
    answered: int = 0

    @property
    def is_due(self) -> bool:
        return self.job.state in ("pending", "processing") and self.due_at <= now()


class FakeSide:
    """Leases, settles and notes; every call lets other tasks run first."""

    separate = None
    watch: Any = None

    def __init__(self) -> None:
        self.lease = 30.0
        self.stored: dict[str, Stored] = {}
        self.demands: list[tuple[Demand | None, int]] = []
        self.opened: list[tuple[str, ...]] = []
        self.begun: list[Execution] = []
        self.rows: list[Execution] = []
        self.overtaken: list[str] = []
        self.calls: Counter[str] = Counter()
        self.opening_fails_with: list[Exception] = []
        self._tokens = 0

    def add(self, type: str = "work", payload: Any = None, **options: Any) -> str:
        key = str(options.pop("id", f"{type}-{len(self.stored)}"))
        due_at = options.pop("due_at", now())
        answered = options.pop("answered", options.get("attempts", 0))
        fields: dict[str, Any] = {"priority": 0, "attempts": 0, "max_attempts": 3, **options}
        job = Job(
            id=key, type=type, payload=payload, state="pending", created_at=instant(0), **fields
        )
        self.stored[key] = Stored(job=job, due_at=due_at, answered=answered)
        return key

    def add_recurring(self, name: str, scheduled_at: float, **options: Any) -> str:
        return self.add(
            name,
            kind="recurring",
            scheduled_at=instant(scheduled_at),
            max_attempts=ENDLESS,
            id=f"recurring:{name}",
            **options,
        )

    def job(self, key: str) -> Job:
        return self.stored[key].job

    def take_away(self, key: str) -> None:
        """Do what another worker does that finds the lease expired."""
        stored = self.stored[key]
        stored.job = replace(stored.job, token="other:1")
        stored.due_at = float("inf")

    def now(self) -> float:
        return now()

    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]:
        return lambda: None

    async def open(self, definitions: Sequence[Definition]) -> None:
        await self._call("open")
        if self.opening_fails_with:
            raise self.opening_fails_with.pop()
        self.opened.append(tuple(each.name for each in definitions))

    async def revive(self, recurring: Iterable[Definition]) -> None:
        self.opened += [names] if (names := tuple(each.name for each in recurring)) else []

    async def claim(self, demand: Demand, n: int) -> list[Job]:
        await self._call("claim")
        self.demands.append((demand, n))
        left = dict(demand.caps)
        claimed: list[Job] = []
        for stored in sorted(self.stored.values(), key=_urgency):
            kind = stored.job.type
            if len(claimed) < n and stored.is_due and kind in demand.leases:
                left.setdefault(kind, n)
                left[kind] -= 1
                claimed += [self._leased(stored, demand)] if left[kind] >= 0 else []
        return claimed

    def _leased(self, stored: Stored, demand: Demand) -> Job:
        self._tokens += 1
        stored.due_at = now() + demand.leases[stored.job.type]
        was_stale = stored.answered < stored.job.attempts
        lowered = demand.lowers.get(stored.job.type, stored.job.priority) if was_stale else None
        stored.job = replace(
            stored.job,
            token=f"{demand.worker_id}:{self._tokens}",
            attempts=stored.job.attempts + 1,
            was_stale=was_stale,
            priority=stored.job.priority if lowered is None else lowered,
            state="processing",
        )
        return stored.job

    async def ack(self, job: Job) -> bool:
        return await self._settle("ack", job, state="done")

    async def fail(self, job: Job, error: str | None, *, is_started: bool = True) -> bool:
        starts = job.attempts if is_started else job.attempts - 1
        return await self._settle("fail", job, state="failed", last_error=error, attempts=starts)

    async def retry(self, job: Job, delay: float, error: str | None) -> bool:
        return await self._settle("retry", job, delay=delay, state="pending", last_error=error)

    async def release(self, job: Job, delay: float = 0.0, *, interrupted: bool = False) -> bool:
        return await self._settle(
            "release",
            job,
            delay=delay,
            state="pending",
            attempts=job.attempts - 1,
            interrupted=job.interrupted + interrupted,
        )

    async def reschedule(self, job: Job, definition: Definition, error: str | None) -> bool:
        return await self._settle(
            "reschedule", job, delay=3_600.0, state="pending", attempts=0, last_error=error
        )

    async def _settle(self, verb: str, job: Job, *, delay: float = 0.0, **changes: Any) -> bool:
        await self._call(verb)
        stored = self.stored[job.id]
        if stored.job.token != job.token:
            return False
        stored.job = replace(stored.job, token=None, **changes)
        if verb != "release":  # that is as if it had not been claimed
            stored.answered = stored.job.attempts
        stored.due_at = now() + delay
        return True

    async def extend(self, job: Job, lease: float) -> Job:
        await self._call("extend")
        stored = self.stored[job.id]
        if stored.job.token != job.token:
            raise JobLost(job.id, job.type, job.epoch)
        stored.due_at = max(stored.due_at, now() + lease)
        return stored.job

    async def lower(self, job: Job, priority: int) -> bool:
        await self._call("lower")
        stored = self.stored[job.id]
        if stored.job.token != job.token:
            return False
        stored.job = replace(stored.job, priority=priority)
        return True

    async def begin(self, execution: Execution, job: Job, keep: float) -> None:
        await self._call("begin")
        self.begun.append(execution)

    async def record(self, execution: Execution, keep: float) -> None:
        await self._call("record")
        self.rows.append(execution)

    async def overtake(self, job: Job) -> None:
        await self._call("overtake")
        self.overtaken.append(job.id)

    async def reconcile(self) -> None:
        await self._call("reconcile")

    async def _call(self, verb: str) -> None:
        self.calls[verb] += 1
        await anyio.lowlevel.checkpoint()


class FakeQueue(AsyncJobQueue):
    """A queue of which only the side for workers is there."""

    def __init__(self) -> None:
        self.side = FakeSide()

    def working_side(self) -> Any:
        return self.side


def _urgency(stored: Stored) -> tuple[int, float]:
    return -stored.job.priority, stored.due_at


class Scene:
    """A queue, a registry, and a pool that tells what happens."""

    def __init__(self) -> None:
        self.queue = FakeQueue()
        self.side = self.queue.side
        self.jobs = Jobs()
        self.record = Record()

    def pool(self, **options: Any) -> WorkerPool[Any]:
        settings: dict[str, Any] = {"on_event": self.record, "backoff": EXACT, **options}
        return WorkerPool(self.queue, self.jobs, **settings)

    async def outcome(self, *errors: Any, times: int = 1, **options: Any) -> list[str]:
        """Let a handler of type "work" raise these in turn; return the endings of its job."""
        left = list(errors)

        async def handle(ctx: JobContext, params: Any) -> None:
            error = left.pop(0) if left else None
            if error is not None:
                raise error

        self.jobs.event("work", **options)(handle)
        self.side.add("work")
        async with self.pool():
            while len(endings(self.record)) < times:  # noqa: ASYNC110
                await anyio.sleep(0.1)
        return endings(self.record)


def endings(record: Record) -> list[str]:
    return [kind for kind in record.kinds if kind not in ("claimed", "handler_failed")]
