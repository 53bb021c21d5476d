"""What the tests of batches share: what happens between two commands, and who is in a batch."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

from fairlane import AsyncMongoTransport, Lease
from fairlane.driver._cancelling import guarded
from fairlane.driver._kinds import Kind
from fairlane.testing import ManualClock

__all__ = (
    "Commands",
    "Open",
    "after",
    "cancelled_at",
    "groups_of",
    "once",
    "publish_in_turn",
    "taken",
)

Transport = AsyncMongoTransport[Any]
Open = Callable[..., Awaitable[Transport]]
Strike = Callable[[], Awaitable[object]]
Happening = Callable[[Any], Awaitable[object]]


class Commands:
    """Counts the commands that are sent; at one point among them something happens, once."""

    def __init__(self) -> None:
        self.has_struck = False
        self._sent = 0
        self._point: tuple[int, bool] | None = None
        self._strike: Strike | None = None

    def arm(self, point: int, strike: Strike) -> None:
        """Let it happen before (even points) or after (odd ones) a command from now on."""
        self._sent, self.has_struck = 0, False
        self._point, self._strike = (point // 2, bool(point % 2)), strike

    async def send(self, kind: Kind, call: Awaitable[Any]) -> Any:
        number, self._sent = self._sent, self._sent + 1
        await self._reach((number, False))
        result = await guarded(kind, call)
        await self._reach((number, True))
        return result

    async def _reach(self, point: tuple[int, bool]) -> None:
        if self._strike is not None and point == self._point and not self.has_struck:
            self.has_struck = True
            await self._strike()


async def cancelled_at(
    commands: Commands, point: int, operation: Coroutine[Any, Any, Any]
) -> asyncio.Future[Any]:
    """Run an operation to its end, cancelling it at a point, and return it."""
    task = asyncio.ensure_future(operation)

    async def cancel() -> None:
        task.cancel()
        await asyncio.sleep(0)

    commands.arm(point, cancel)
    await asyncio.wait((task,))
    return task


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
