"""What the tests of batches share: what happens between two commands, and who is in a batch."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

from pymongo.errors import AutoReconnect

from fairlane import AsyncMongoTransport, Lease
from fairlane.driver._cancelling import guarded
from fairlane.driver._kinds import Kind
from fairlane.testing import ManualClock

__all__ = (
    "Commands",
    "Open",
    "after",
    "cancel",
    "groups_of",
    "lose_reply",
    "once",
    "publish_in_turn",
    "taken",
)

Transport = AsyncMongoTransport[Any]
Open = Callable[..., Awaitable[Transport]]
Strike = Callable[[asyncio.Future[Any]], Awaitable[object]]
Happening = Callable[[Any], Awaitable[object]]


class Commands:
    """Counts the commands that an operation sends; at one point among them something happens."""

    def __init__(self) -> None:
        self.has_struck = False
        self._sent = 0
        self._point = 0
        self._strike: Strike | None = None
        self._operation: asyncio.Future[Any] | None = None

    async def disturb(
        self, operation: Coroutine[Any, Any, Any], point: int, strike: Strike
    ) -> asyncio.Future[Any]:
        """Run it to its end, struck before (even points) or after (odd ones) one of its commands.

        Whether the point was reached is in `has_struck`.
        """
        self._sent, self._point, self.has_struck = 0, point, False
        self._operation, self._strike = asyncio.ensure_future(operation), strike
        await asyncio.wait((self._operation,))
        self._strike = None
        return self._operation

    async def send(self, kind: Kind, call: Awaitable[Any]) -> Any:
        number, self._sent = self._sent, self._sent + 1
        await self._reach(2 * number)
        result = await guarded(kind, call)
        await self._reach(2 * number + 1)
        return result

    async def _reach(self, point: int) -> None:
        if self._strike is None or point != self._point:
            return
        assert self._operation is not None
        self.has_struck = True
        await self._strike(self._operation)


async def cancel(operation: asyncio.Future[Any]) -> None:
    operation.cancel()
    await asyncio.sleep(0)


async def lose_reply(_: asyncio.Future[Any]) -> None:
    raise AutoReconnect("connection closed")


def after(owner: Any, verb: str, happening: Happening) -> None:
    """Let something happen after each driver call of this verb; it gets what the call returned."""
    inner = getattr(owner, verb)

    async def call(*args: Any, **options: Any) -> Any:
        result = await inner(*args, **options)
        await happening(result)
        return result

    setattr(owner, verb, call)


def once(happening: Happening) -> Happening:
    """Return what lets it happen the first time only."""
    has_happened = False

    async def happen(result: Any) -> None:
        nonlocal has_happened
        if not has_happened:
            has_happened = True
            await happening(result)

    return happen


async def taken(database: Any, groups: Iterable[str], *, until: float) -> None:
    """Lease these groups, as another claimer does."""
    for group in groups:
        await database["fairlane_locks"].update_one(
            {"_id": group},
            {"$set": {"token": f"rival:{group}", "available_at": until}, "$inc": {"attempts": 1}},
        )


async def publish_in_turn(
    transport: Transport, clock: ManualClock, *groups: str, priority: int = 0
) -> None:
    """Publish one message to each group, a second apart."""
    for number, group in enumerate(groups):
        await transport.publish(group, number, priority)
        clock.advance(1)


def groups_of(leases: Sequence[Lease[Any]]) -> list[str]:
    return [lease.group_id for lease in leases]
