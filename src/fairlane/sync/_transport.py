"""`MongoTransport`: the grouped transport for programs without an event loop."""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, Self

from fairlane.checks import Seconds
from fairlane.lease.commands import Order
from fairlane.model import DeadLetter, E, Lease, Message, RepairReport, TransportStats
from fairlane.sync._product import BlockingProduct, read_here
from fairlane.transport import AsyncMongoTransport

__all__ = ("MongoTransport",)


class MongoTransport(BlockingProduct[AsyncMongoTransport[E]], Generic[E]):
    """`AsyncMongoTransport` with the same verbs, blocking; see there for what each guarantees.

    One instance serves any number of threads. It keeps an event loop in a thread of its own, with
    a client of its own, opened by the first call. A forked child opens its own. Interrupted by
    Ctrl-C, a call is cancelled: a claim gives back what it leased, and what had to be finished has
    been, or will be soon.

    Args:
        factory: called without arguments in that loop; returns an awaitable or an asynchronous
            context manager that opens an `AsyncMongoTransport`, as its `from_url` does. It is
            called again after a failed opening, and in a forked child.

    Raises:
        ConfigurationError: from any method called while an event loop runs in the thread.
        FairlaneError: from any method after `close()`.

    Example:
        >>> with MongoTransport.from_url("mongodb://localhost:27017", "app") as transport:
        ...     transport.publish("order-42", {"kind": "paid"})
    """

    _kind = AsyncMongoTransport

    @classmethod
    def from_url(
        cls,
        url: str,
        db_name: str = "fairlane",
        *,
        driver: str = "motor",
        connect_timeout: Seconds = 10.0,
        **options: Any,
    ) -> Self:
        """Open a client in a loop of its own. Arguments as `AsyncMongoTransport.from_url`.

        Raises:
            ServerUnreachable: no server answered in time; the address is named, the password not.
            ConfigurationError: bad URL, option, driver or credentials, or a running event loop.
        """
        return cls._by_url(
            url, db_name, driver=driver, connect_timeout=connect_timeout, options=options
        )

    def publish(
        self, group_id: str, event: E, priority: int = 0, *, message_id: str | None = None
    ) -> int:
        """Add a message to the end of a group and return its sequence number."""
        return self._call(lambda t: t.publish(group_id, event, priority, message_id=message_id))

    def publish_many(self, items: Iterable[tuple[str, E] | tuple[str, E, int]]) -> list[int]:
        """Publish `(group_id, event)` or `(group_id, event, priority)` in order."""
        held = list(items)  # here: the caller's iterator may belong to its thread
        return self._call(lambda t: t.publish_many(held))

    def claim(
        self,
        worker_id: str,
        visibility: Seconds = 30.0,
        min_priority: int = 0,
        *,
        order: Order = "fair",
        batch: int = 1,
    ) -> Lease[E] | None:
        """Lease the group that has waited longest and return its oldest messages, or None."""
        return self._call(
            lambda t: t.claim(worker_id, visibility, min_priority, order=order, batch=batch),
            undo=lambda t, lease: _give_back(t, [lease] if lease else []),
        )

    def claim_many(
        self,
        worker_id: str,
        n: int,
        visibility: Seconds = 30.0,
        min_priority: int = 0,
        *,
        order: Order = "fair",
        batch: int = 1,
    ) -> list[Lease[E]]:
        """Lease up to `n` distinct groups, in three or four commands."""
        return self._call(
            lambda t: t.claim_many(
                worker_id, n, visibility, min_priority, order=order, batch=batch
            ),
            undo=_give_back,
        )

    def ack(self, lease: Lease[E]) -> bool:
        """Settle the message: it is done. Returns False if the lease is no longer held."""
        return self._call(lambda t: t.ack(lease))

    def ack_many(self, leases: Iterable[Lease[E]]) -> list[bool]:
        """Settle each lease as `ack` does and return the results in order."""
        held = read_here(leases)
        return self._call(lambda t: t.ack_many(held))

    def nack(
        self, lease: Lease[E], delay: Seconds = 0.0, *, error: str | None = None, done: int = 0
    ) -> bool:
        """Give the message back for another attempt, after `delay` seconds. Returns as `ack`."""
        return self._call(lambda t: t.nack(lease, delay, error=error, done=done))

    def nack_many(
        self, leases: Iterable[Lease[E]], delay: Seconds = 0.0, *, error: str | None = None
    ) -> list[bool]:
        """Give each message back as `nack` does and return the results in order."""
        held = read_here(leases)
        return self._call(lambda t: t.nack_many(held, delay, error=error))

    def extend(self, lease: Lease[E], visibility: Seconds = 30.0) -> Lease[E]:
        """Hold the lease for `visibility` seconds from now; raises `LeaseLost` if it is lost."""
        return self._call(lambda t: t.extend(lease, visibility))

    def extend_many(
        self, leases: Iterable[Lease[E]], visibility: Seconds = 30.0
    ) -> list[Lease[E] | None]:
        """Hold each lease as `extend` does, in one command; None for one that is held no longer."""
        held = read_here(leases)
        return self._call(lambda t: t.extend_many(held, visibility))

    def release(
        self,
        lease: Lease[E],
        *,
        delay: Seconds = 0.0,
        done: int = 0,
        interrupted: bool = False,
    ) -> bool:
        """Give the group back without counting the attempt, after `delay` seconds."""
        return self._call(
            lambda t: t.release(lease, delay=delay, done=done, interrupted=interrupted)
        )

    def release_many(self, leases: Iterable[Lease[E]]) -> list[bool]:
        """Give groups back as `release` does, in one command; return the results in order."""
        held = read_here(leases)
        return self._call(lambda t: t.release_many(held))

    def dead_letter(
        self, lease: Lease[E], reason: str, *, traceback: str | None = None, done: int = 0
    ) -> bool:
        """Settle the message by moving it to the dead letters, with why. Returns as `ack`."""
        return self._call(lambda t: t.dead_letter(lease, reason, traceback=traceback, done=done))

    def dead_letters(self, group_id: str | None = None) -> Iterator[DeadLetter[E]]:
        """Iterate over the dead letters, oldest message first, of one group or of all.

        They are fetched as the iteration goes on. It may be left at any point.
        """
        return self._iterate(lambda t: t.dead_letters(group_id))

    def redrive(self, *, group_id: str | None = None, seq: int | None = None) -> int:
        """Publish dead letters again, at the end of their groups; return how many.

        One that stops its group comes back at the front instead, and the group goes on with it.
        """
        return self._call(lambda t: t.redrive(group_id=group_id, seq=seq))

    def resume(self, group_id: str) -> bool:
        """Let a stopped group go on without the message that stops it; False if it is not."""
        return self._call(lambda t: t.resume(group_id))

    def peek(self, group_id: str, limit: int = 10) -> list[Message[E]]:
        """Return the first unsettled messages of a group without leasing it."""
        return self._call(lambda t: t.peek(group_id, limit))

    def next_due(self, min_priority: int = 0) -> float | None:
        """Return in how many seconds a group is due, 0 for now; None if there is no group.

        A leased group is due when its lease runs out; a stopped one is not. Cheap: it reads one
        entry of the index for each priority and partition.
        """
        return self._call(lambda t: t.next_due(min_priority))

    def stats(self) -> TransportStats:
        """Count groups, messages and dead letters; exact when nothing moves meanwhile."""
        return self._call(lambda t: t.stats())

    def repair(self, *, full: bool = False) -> RepairReport:
        """Make messages claimable whose publisher died half-way, and finish half-done work."""
        return self._call(lambda t: t.repair(full=full))

    def reconcile(self) -> int:
        """Put groups into a partition that claimers look into; return how many."""
        return self._call(lambda t: t.reconcile())

    def clear(self) -> None:
        """Delete all messages, groups and dead letters. Sequence numbers go on growing."""
        self._call(lambda t: t.clear())

    def drop(self) -> None:
        """Drop the collections. Sequence numbers and epochs begin anew afterwards."""
        self._call(lambda t: t.drop())


async def _give_back(transport: AsyncMongoTransport[E], leases: list[Lease[E]]) -> None:
    await transport.release_many(leases)
