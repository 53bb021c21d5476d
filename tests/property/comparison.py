"""The real transport beside its model: each step is done to both, and what comes of it compared."""

import asyncio
import itertools
import math
from collections.abc import Coroutine
from typing import Any, TypeVar

from fairlane import AsyncMongoTransport, Duplicate, Lease, LeaseLost, schema
from fairlane.lease.commands import Order
from fairlane.testing import ManualClock
from property.model_transport import Letter, Model
from property.walks import let_walk
from property.world import HOUR, START, VISIBILITY, documents

__all__ = ("Comparison", "Move", "Subject")

T = TypeVar("T")
Transport = AsyncMongoTransport[int]

Move = tuple[Any, ...]
"""A way to settle: the verb and what it is told beside the lease."""


class Subject:
    """A real transport, and the one loop in which its client lives."""

    def __init__(
        self,
        runner: asyncio.Runner,
        transport: Transport,
        clock: ManualClock,
        *,
        partitions: int = 1,
    ) -> None:
        self.transport = transport
        self.clock = clock
        self.partitions = partitions
        self._runner = runner

    def run(self, operation: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(operation)

    def stored(self, part: str) -> list[Any]:
        return self.run(documents(self.transport, part))

    def reset(self) -> None:
        """Begin anew: every run must be able to be replayed alone."""
        self.clock.jump(START)
        self.run(self._empty())
        let_walk(self.transport)

    async def half_publish(
        self, group_id: str, event: int, priority: int, message_id: str | None
    ) -> int:
        """Do what a publisher does that dies before it makes the group claimable."""
        store = self.transport._store
        seq = await store.reserve(1)
        message = schema.message(
            seq=seq,
            group_id=group_id,
            event=event,
            priority=priority,
            published_at=self.clock(),
            message_id=message_id,
        )
        await store.driver.write_in_order([store.insertion(message)])
        return seq

    async def dead_letters(self, group_id: str | None) -> list[Letter]:
        return [
            Letter(
                letter.seq,
                letter.group_id,
                letter.event,
                letter.priority,
                letter.attempts,
                letter.interrupted,
                letter.reason,
            )
            async for letter in self.transport.dead_letters(group_id)
            if letter.event is not None
        ]

    async def _empty(self) -> None:
        store = self.transport._store
        await store.ready()
        for collection in (store.messages, store.locks, store.counters, store.dead):
            await collection.delete_many({"_id": {"$ne": "settings"}})


class Comparison:
    """One run. Every method fails if the transport does anything that its model does not."""

    def __init__(self, subject: Subject) -> None:
        subject.reset()
        self.model = Model(
            subject.clock, lambda group_id: schema.partition_of(group_id, subject.partitions)
        )
        self.clock = subject.clock
        self._subject = subject
        self._transport = subject.transport
        self._run = subject.run
        self._events = itertools.count(1)
        self._seqs: dict[int, int] = {}
        self._highest_seq = 0
        self._tokens: set[str] = set()

    def publish(self, group_id: str, priority: int, message_id: str | None = None) -> None:
        event = next(self._events)
        publishing = self._transport.publish(group_id, event, priority, message_id=message_id)
        try:
            seq = self._run(publishing)
        except Duplicate:
            assert self._is_duplicate(group_id, message_id), f"{message_id} is free"
        else:
            assert not self._is_duplicate(group_id, message_id), f"{message_id} is in use"
            self._expect_seq(self.model.publish(group_id, event, priority, message_id), seq)

    def publish_many(self, messages: list[tuple[str, int]]) -> None:
        items = [(group_id, next(self._events), priority) for group_id, priority in messages]
        seqs = self._run(self._transport.publish_many(items))
        for item, seq in zip(items, seqs, strict=True):
            self._expect_seq(self.model.publish(*item), seq)

    def half_publish(self, group_id: str, priority: int, message_id: str | None) -> None:
        event = next(self._events)
        seq = self._run(self._subject.half_publish(group_id, event, priority, message_id))
        self.model.half_publish(group_id, event, priority, message_id)
        self._expect_seq(event, seq)

    def claim(
        self, visibility: float = VISIBILITY, min_priority: int = 0, order: Order = "fair"
    ) -> Lease[int] | None:
        lease = self._run(self._transport.claim("w", visibility, min_priority, order=order))
        self._expect_claimed(lease, visibility, min_priority, order)
        return lease

    def claim_many(
        self, n: int, visibility: float, min_priority: int, order: Order
    ) -> list[Lease[int]]:
        """Of groups that are found empty each may stand in the way of another one."""
        has_empty = self.model.has_empty(min_priority)
        claiming = self._transport.claim_many("w", n, visibility, min_priority, order=order)
        leases = self._run(claiming)
        assert len(leases) <= n, f"{len(leases)} leases instead of {n}"
        for lease in leases:
            self._expect_claimed(lease, visibility, min_priority, order)
        if not leases or (len(leases) < n and not has_empty):
            self._expect_claimed(None, visibility, min_priority, order)
        return leases

    def settle(self, lease: Lease[int], move: Move) -> bool:
        verb, *arguments = move
        if verb == "interrupt":
            settling = self._transport.release(lease, interrupted=True)
        else:
            settling = getattr(self._transport, verb)(lease, *arguments)
        is_accepted = self._run(settling)
        same(f"accepted {verb}", is_accepted, getattr(self.model, verb)(lease, *arguments))
        return is_accepted

    def settle_many(self, leases: list[Lease[int]], move: Move) -> None:
        verb, *arguments = move
        told = self._run(getattr(self._transport, f"{verb}_many")(leases, *arguments))
        expected = [getattr(self.model, verb)(lease, *arguments) for lease in leases]
        same(f"accepted by {verb}_many", told, expected)

    def extend(self, lease: Lease[int], visibility: float) -> Lease[int] | None:
        """Return the extended lease; None if it is lost."""
        extended: Lease[int] | None
        try:
            extended = self._run(self._transport.extend(lease, visibility))
        except LeaseLost:
            extended = None
        same("accepted extend", extended is not None, self.model.extend(lease, visibility))
        if extended is not None:
            same("end", extended.expires_at, self.model.groups[lease.group_id].free_at)
        return extended

    def redrive(self, *, group_id: str | None = None, seq: int | None = None) -> None:
        """Redrive, and learn the new numbers, which have the order of the old ones."""
        number = self._run(self._transport.redrive(group_id=group_id, seq=seq))
        redriven = self.model.redrive(group_id, seq)
        same("redriven", number, len(redriven))
        seqs: dict[int, int] = {}
        for name in sorted({letter.group_id for letter in redriven}):
            seqs |= {each.event: each.seq for each in self._run(self._transport.peek(name, 1_000))}
        for letter in redriven:
            del self._seqs[letter.event]
            self._expect_seq(letter.event, seqs[letter.event])

    def repair(self, *, full: bool) -> None:
        report = self._run(self._transport.repair(full=full))
        done = (report.repaired, report.adopted, report.finished)
        same("repaired, adopted, finished", done, (self.model.repair(), 0, 0))

    def clear(self) -> None:
        self._run(self._transport.clear())
        self.model.clear()

    def peek(self, group_id: str, limit: int) -> None:
        messages = self._run(self._transport.peek(group_id, limit))
        expected = [message.event for message in self.model.messages(group_id)[:limit]]
        same(f"peek at {group_id}", [message.event for message in messages], expected)
        for message in messages:
            self._expect_seq(message.event, message.seq)

    def dead_letters(self, group_id: str | None = None) -> None:
        found = self._run(self._subject.dead_letters(group_id))
        letters = [letter for _, letter in sorted(self.model.letters.items())]
        expected = [letter for letter in letters if group_id in (None, letter.group_id)]
        same("dead letters", found, expected)

    def stored(self) -> None:
        """I5: a lock for each group. Looked at before `stats`, which finishes half-done deaths."""
        locks = {lock["_id"]: lock for lock in self._subject.stored("locks")}
        self.model.forget_empty(self.model.groups.keys() - locks.keys())
        same("I5: locks", locks.keys(), self.model.groups.keys())
        same("half-done deaths", [lock for lock in locks.values() if "dead" in lock], [])
        same("stats", self._run(self._transport.stats()), self.model.stats())

    def drain(self) -> None:
        """I4: what the model holds comes, all of it, in order; then nothing is left (I5)."""
        self.clock.advance(HOUR)
        self.repair(full=False)
        while lease := self.claim():
            assert self.settle(lease, ("ack",))
        self.stored()
        self.dead_letters()
        same("I4: undelivered", self.model.groups, {})
        same("I5: messages left", self._subject.stored("messages"), [])
        same("visible letters", len(self.model.letters), len(self._subject.stored("dead")))

    def next_due(self) -> float:
        """Return when the next group becomes claimable that is not; infinity if there is none."""
        times = [group.free_at for group in self.model.groups.values()]
        return min((each for each in times if each > self.clock()), default=math.inf)

    def _is_duplicate(self, group_id: str, message_id: str | None) -> bool:
        user, _ = self.model.message_ids().get(message_id or "", (group_id, None))
        return user != group_id

    def _expect_claimed(
        self,
        lease: Lease[int] | None,
        visibility: float,
        min_priority: int,
        order: Order = "fair",
    ) -> None:
        first = self.model.claim(min_priority, order)
        if lease is None:
            assert not first, f"I4: nothing claimed, but {first} are due"
            return
        assert lease.group_id in first, f"claimed {lease.group_id}, first in line are {first}"
        assert lease.token not in self._tokens, "a token is used again"
        self._tokens.add(lease.token)
        group = self.model.lease(lease.group_id, lease.token, visibility)
        same("I1, I2: head", lease.event, group.messages[0].event)
        same("priority", lease.priority, group.priority)
        same("attempt", lease.attempt, group.attempts)
        same("interrupted", lease.interrupted, group.interrupted)
        same("end", lease.expires_at, group.free_at)
        assert self.model.is_new_epoch(lease.group_id, lease.epoch), f"epoch {lease.epoch} again"
        self._expect_seq(lease.event, lease.seq)

    def _expect_seq(self, event: int, seq: int) -> None:
        """A message keeps its number; that of a new one is higher than all before."""
        if event not in self._seqs:
            assert seq > self._highest_seq, f"number {seq} after {self._highest_seq}"
            self._seqs[event] = self._highest_seq = seq
        same(f"number of {event}", seq, self._seqs[event])


def same(what: str, found: object, expected: object) -> None:
    assert found == expected, f"{what}: {found!r} instead of {expected!r}"
