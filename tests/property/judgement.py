"""The judgement of a run of transports: what is left must come, and nothing may be left after."""

from typing import Any

from fairlane import AsyncMongoTransport
from property.log import Log
from property.participant import Participant

__all__ = ("documents", "drain", "judge")

Transport = AsyncMongoTransport[Any]


async def judge(log: Log, janitor: Participant, *, full_repair: bool = False) -> None:
    """Drain and judge a run whose leases have all run out by the clock of the janitor."""
    log.expect_none()
    await _let_go_on(log, janitor)
    await drain(janitor)
    log.expect_published_are_settled()
    letters = []
    if await _is_anything_left(janitor, "messages", "locks", "dead"):
        await janitor.repair(full=full_repair)
        await drain(janitor)
        letters = [letter async for letter in janitor.transport.dead_letters()]
        assert not await _is_anything_left(janitor, "messages", "locks"), "I5"
        assert len(await documents(janitor.transport, "dead")) == len(letters), "hidden letters"
    log.check(letters)


async def _let_go_on(log: Log, janitor: Participant) -> None:
    """Bring back what stops groups. Each must have a dead letter that can be redriven."""
    if await _stopped(janitor):
        await janitor.redrive()
        if still := await _stopped(janitor):
            log.blame(f"I4 {still} are stopped for ever")
            log.expect_none()


async def _stopped(janitor: Participant) -> list[str]:
    locks = await documents(janitor.transport, "locks")
    return [lock["_id"] for lock in locks if "stopped" in lock]


async def drain(worker: Participant) -> list[int]:
    events = []
    while lease := await worker.claim():
        assert await worker.ack(lease)
        events.append(lease.event)
    return events


async def documents(transport: Transport, part: str) -> list[Any]:
    """Read a collection past the wire, if there is one."""
    collection: Any = getattr(transport._store, part)
    collection = getattr(collection, "_inner", collection)
    found: list[Any] = await collection.find({}, sort=[("_id", 1)], limit=0)
    return found


async def _is_anything_left(janitor: Participant, *parts: str) -> bool:
    return any([await documents(janitor.transport, part) for part in parts])
