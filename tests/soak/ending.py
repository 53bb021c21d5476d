"""The end of a soak: the workers are gone, the clock is an hour on, one claimer drains it all."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairlane import AsyncMongoTransport, Lease
from fairlane.cli.demo.records import Execution, Journal, Recorder, now
from fairlane.worker import WorkerEvent
from soak.plan import VISIBILITY
from soak.verdict import Place
from soak.work import delivery

__all__ = ("Ending", "end")

CLAIMER = "the-end"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What was there at the end, and what one claimer made of it."""

    executions: list[Execution]
    events: list[WorkerEvent]
    dead: frozenset[Place]
    breaches: list[str]


async def end(database: Any, transport: AsyncMongoTransport[Any], folder: Path) -> Ending:
    """Judge I4: without any repair all is drained and gone."""
    events: list[WorkerEvent] = []
    path = folder / f"{CLAIMER}.jsonl"
    await _drain(transport, Recorder(path, CLAIMER), events.append)
    left = [name for name in ("messages", "locks") if await database[f"fairlane_{name}"].find_one()]
    return Ending(
        executions=Journal(path).executions(died_at=now()),
        events=events,
        dead=frozenset(
            [
                (letter.group_id, (letter.event or {})["index"])
                async for letter in transport.dead_letters()
            ]
        ),
        breaches=[f"I4 {name} are left after the drain" for name in left],
    )


async def _drain(
    transport: AsyncMongoTransport[Any], recorder: Recorder, tell: Callable[[WorkerEvent], None]
) -> None:
    while lease := await transport.claim(CLAIMER, VISIBILITY):
        tell(_event("claimed", lease))
        if lease.event["is_poison"]:
            assert await transport.dead_letter(lease, "poison")
            tell(_event("dead_lettered", lease))
            continue
        with recorder.execution(delivery(lease)):
            assert await transport.ack(lease)
        tell(_event("acked", lease))
    recorder.close()


def _event(kind: Any, lease: Lease[Any]) -> WorkerEvent:
    return WorkerEvent(
        kind=kind,
        worker_id=CLAIMER,
        group_id=lease.group_id,
        seq=lease.seq,
        attempt=lease.attempt,
        epoch=lease.epoch,
    )
