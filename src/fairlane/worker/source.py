"""What a worker pool needs of the thing it takes leases from."""

from collections.abc import Callable
from typing import Literal, Protocol, runtime_checkable

from fairlane.model import E, Lease

__all__ = ("Announcing", "Order", "Repairable", "Source")

Order = Literal["fair", "priority"]
"""Which of the claimable groups comes first: the one that waits longest, or the most urgent one."""


class Source(Protocol[E]):
    """Leases groups of messages; `AsyncMongoTransport` is one.

    A claim that raises, or is cancelled, leaves nothing leased. A lease that a claim returns has at
    least half of its visibility left. Durations are seconds. Settlements return whether the
    lease was still held; they may be repeated, since a lease settles once.
    """

    async def claim(
        self,
        worker_id: str,
        visibility: float = 30.0,
        min_priority: int = 0,
        *,
        order: Order = "fair",
    ) -> Lease[E] | None: ...

    async def ack(self, lease: Lease[E]) -> bool: ...

    async def nack(
        self, lease: Lease[E], delay: float = 0.0, *, error: str | None = None
    ) -> bool: ...

    async def extend(self, lease: Lease[E], visibility: float = 30.0) -> Lease[E]: ...

    async def release(self, lease: Lease[E]) -> bool: ...

    async def dead_letter(self, lease: Lease[E], reason: str) -> bool: ...


@runtime_checkable
class Repairable(Protocol):
    """A source that finishes what a dying publisher left half done; a pool calls it regularly."""

    async def repair(self) -> object: ...


@runtime_checkable
class Announcing(Protocol):
    """A source that tells of each publish made through it, so that an idle pool need not poll."""

    def subscribe(self, callback: Callable[[], None], /) -> Callable[[], None]:
        """Call `callback` after each publish until the returned function is called."""
        ...
