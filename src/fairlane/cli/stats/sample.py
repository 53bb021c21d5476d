"""One look at a deployment, and what two of them say about its pace."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from fairlane.cli.target import Deployment
from fairlane.clock import ServerClock, instant
from fairlane.jobs import JobStats
from fairlane.model import TransportStats

__all__ = ("Pace", "Sample", "Sampler", "document", "pace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was there at a moment.

    Attributes:
        at: server time.
        messages: None if no transport was ever opened there.
        jobs: None if no job queue was.
        numbers: so many sequence numbers were given out since the collections exist.
    """

    at: datetime
    messages: TransportStats | None
    jobs: JobStats | None
    numbers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Messages a second, between two samples.

    Attributes:
        incoming: published; a number that a failed publish has lost counts, a redrive too.
        outgoing: settled: acknowledged or dead.
    """

    incoming: float
    outgoing: float


def pace(before: Sample, after: Sample) -> Pace | None:
    """Return the pace; None where it cannot be told."""
    seconds = (after.at - before.at).total_seconds()
    if before.messages is None or after.messages is None or seconds <= 0:
        return None
    came = after.numbers - before.numbers
    went = came - (after.messages.messages - before.messages.messages)
    return Pace(incoming=max(0, came) / seconds, outgoing=max(0, went) / seconds)


class Sampler:
    """Looks at a deployment as often as it is told to."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._transport = deployment.transport() if deployment.has_messages else None
        self._queue = deployment.queue() if deployment.has_jobs else None
        target = deployment.target
        self._counters = deployment.driver.collection(target.db_name, f"{target.prefix}_counters")
        self._clock = ServerClock()

    async def take(self) -> Sample:
        if self._clock.is_due:
            await self._clock.refresh(self._deployment.driver.server_time)
        counter = await self._counters.find_one({"_id": "seq"})
        return Sample(
            at=instant(self._clock()),
            messages=None if self._transport is None else await self._transport.stats(),
            jobs=None if self._queue is None else await self._queue.stats(),
            numbers=0 if counter is None else int(counter["n"]),
        )


def document(sample: Sample, speed: Pace | None) -> dict[str, Any]:
    """Return what `--json` prints; keys are the attributes of the library's values."""
    messages = None if sample.messages is None else asdict(sample.messages)
    if messages is not None and speed is not None:
        messages["incoming_per_s"] = round(speed.incoming, 3)
        messages["outgoing_per_s"] = round(speed.outgoing, 3)
    jobs = None if sample.jobs is None else _of_jobs(sample.jobs)
    return {"at": sample.at, "messages": messages, "jobs": jobs}


def _of_jobs(stats: JobStats) -> dict[str, Any]:
    kinds = {name: asdict(each) for name, each in stats.by_type.items()}
    for each in kinds.values():
        del each["by_type"]
    return {**asdict(stats), "by_type": kinds}
