"""A job queue in memory, as a worker pool sees it; time is the event loop's."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio.lowlevel
from worker_fakes import now

from fairlane import AsyncJobQueue, Execution, Job
from fairlane.clock import instant
from fairlane.errors import JobLost
from fairlane.jobs import Definition
from fairlane.jobs.working import Demand

__all__ = ("FakeQueue", "FakeSide")

ENDLESS = 2**31 - 1


@dataclass(kw_only=True)
class Stored:
    """A job as the queue has it."""

    job: Job
    due_at: float

    @property
    def is_due(self) -> bool:
        return self.job.state in ("pending", "processing") and self.due_at <= now()


class FakeSide:
    """Leases, settles and notes; every call lets other tasks run first."""

    def __init__(self) -> None:
        self.lease = 30.0
        self.stored: dict[str, Stored] = {}
        self.demands: list[tuple[Demand | None, int]] = []
        self.opened: list[tuple[str, ...]] = []
        self.rows: list[Execution] = []
        self.calls: Counter[str] = Counter()
        self.opening_fails_with: list[Exception] = []
        self._tokens = 0

    def add(self, type: str = "work", payload: Any = None, **options: Any) -> str:
        key = str(options.pop("id", f"{type}-{len(self.stored)}"))
        due_at = options.pop("due_at", now())
        fields: dict[str, Any] = {"priority": 0, "attempts": 0, "max_attempts": 3, **options}
        job = Job(
            id=key, type=type, payload=payload, state="pending", created_at=instant(0), **fields
        )
        self.stored[key] = Stored(job=job, due_at=due_at)
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
        stored.job = replace(
            stored.job,
            token=f"{demand.worker_id}:{self._tokens}",
            attempts=stored.job.attempts + 1,
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

    async def release(self, job: Job, delay: float = 0.0) -> bool:
        attempts = job.attempts - 1
        return await self._settle("release", job, delay=delay, state="pending", attempts=attempts)

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
        stored.due_at = now() + delay
        return True

    async def extend(self, job: Job, lease: float) -> Job:
        await self._call("extend")
        stored = self.stored[job.id]
        if stored.job.token != job.token:
            raise JobLost(job.id, job.type, job.epoch)
        stored.due_at = max(stored.due_at, now() + lease)
        return stored.job

    async def record(self, execution: Execution, keep: float) -> None:
        await self._call("record")
        self.rows.append(execution)

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
