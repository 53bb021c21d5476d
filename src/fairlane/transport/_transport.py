"""`AsyncMongoTransport`: what a user of the grouped transport calls."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, Generic, Self

from fairlane import checks
from fairlane.checks import MOST_AT_ONCE, Seconds
from fairlane.clock import Clock
from fairlane.driver import Driver
from fairlane.errors import LeaseLost
from fairlane.lease.commands import Order
from fairlane.lease.site import checked_setup
from fairlane.lease.strategy import Strategy
from fairlane.model import DeadLetter, E, Lease, Message, RepairReport, TransportStats
from fairlane.opening import Opening
from fairlane.payload import Codec, Payload
from fairlane.product import Product
from fairlane.transport import _arguments
from fairlane.transport._claim import Claimer
from fairlane.transport._dead import Burial, DeadLetters
from fairlane.transport._delivery import Delivery
from fairlane.transport._floors import Floors
from fairlane.transport._outlook import Outlook
from fairlane.transport._placing import Placer
from fairlane.transport._publish import Publisher
from fairlane.transport._reading import GroupReader
from fairlane.transport._repair import Repairer
from fairlane.transport._settle import Settler
from fairlane.transport._stopping import DEAD_HEADS, DeadHead, Stops
from fairlane.transport._store import Store
from fairlane.transport._view import View

__all__ = ("AsyncMongoTransport",)


class AsyncMongoTransport(Product, Generic[E]):
    """FIFO message groups on MongoDB: one lease per group at a time, across all machines.

    Messages of one group are delivered in the order in which their `publish` returned; different
    groups are served round robin. Delivery is at least once: a message whose worker dies is
    delivered again when its lease runs out. One transport serves any number of tasks of one event
    loop.

    Args:
        client: an `AsyncIOMotorClient` or a PyMongo `AsyncMongoClient`. It stays yours: `close()`
            leaves it open. Its write concern is raised to a majority, its read preference ignored.
        db_name: database to use.
        prefix: of the names of the collections.
        clock: returns epoch seconds; by default the server's time (`ServerClock`).
        partitions: over how many partitions groups are spread, 1 to 1,024, so that many claimers
            do not get into each other's way. All programs must agree: the number is stored, and
            None means the stored one, or 1 if this is the first program.
        strategy: how a group is claimed: by "find_one_and_update", or by a sorted "update_one" and
            a look at what it took, which contending claimers finish sooner. "auto" takes the latter
            where the server is known to do it right (MongoDB 8.0) and has the index for it.
        new_group_credit: seconds by which a new group may overtake groups that wait already;
            `math.inf` puts new groups always first.
        codec: maps events of your own type to BSON values and back.
        ensure_indexes: create missing indexes at first use; False for a user without that right.
        wakeups: let worker pools be woken by a change stream, where the server has those (a replica
            set); False leaves them to their polls.
        dead_head: what a group does when its head becomes a dead letter, in whichever way: "skip"
            delivers what is behind it; "stop" holds the group, messages that come later included,
            until that message is redriven, or `resume`. It holds for what dies through this
            transport; a group that is stopped is so for all.

    Raises:
        ConfigurationError: naming the argument and what is allowed.

    Example:
        >>> async with AsyncMongoTransport(client, "app") as transport:
        ...     await transport.publish("order-42", {"kind": "paid"})
    """

    _OPTIONS = frozenset(
        {
            *("prefix", "clock", "partitions", "strategy", "new_group_credit", "codec"),
            *("ensure_indexes", "wakeups", "dead_head"),
        }
    )

    def __init__(
        self,
        client: Any,
        db_name: str = "fairlane",
        prefix: str = "fairlane",
        clock: Clock | None = None,
        *,
        partitions: int | None = None,
        strategy: Strategy = "auto",
        new_group_credit: Seconds = 60.0,
        codec: Codec[E] | None = None,
        ensure_indexes: bool = True,
        wakeups: bool = True,
        dead_head: DeadHead = "skip",
    ) -> None:
        setup = checked_setup(
            db_name=db_name,
            prefix=prefix,
            clock=clock,
            partitions=partitions,
            strategy=strategy,
            ensure_indexes=ensure_indexes,
            wakeups=wakeups,
        )
        policy = checks.choice("dead_head", dead_head, DEAD_HEADS)
        credit = checks.credit("new_group_credit", new_group_credit)
        self._store = Store(Driver(client), setup)
        super().__init__(self._store)
        self._compose(Payload(codec), credit, policy)

    def _compose(self, payload: Payload[E], credit: float, dead_head: DeadHead) -> None:
        store = self._store
        burial = Burial(store)
        self._publisher = Publisher(store, payload, new_group_credit=credit)
        self._floors = floors = Floors(store)
        self._settler = Settler(store, burial, floors, dead_head)
        self._stops = Stops(store)
        self._dead = DeadLetters(store, payload, burial, self._stops)
        reader = GroupReader(store)
        delivery = Delivery(
            store,
            payload,
            reader=reader,
            floors=floors,
            settler=self._settler,
            burial=burial,
            dead=self._dead,
        )
        self._claimer = Claimer(store, reader, delivery)
        self._outlook = Outlook(store)
        self._placer = Placer(store)
        self._repairer = Repairer(store, self._dead, self._placer)
        self._view = View(store, payload, self._dead)

    @classmethod
    def from_url(
        cls,
        url: str,
        db_name: str = "fairlane",
        *,
        driver: str = "motor",
        connect_timeout: Seconds = 10.0,
        **options: Any,
    ) -> Opening[Self]:
        """Open a client of its own: `await` the result, or enter it with `async with`.

        Args:
            url: a MongoDB connection string.
            db_name: database to use; one in the URL only says where users are looked up.
            driver: "motor", or "pymongo" for PyMongo's `AsyncMongoClient`.
            connect_timeout: seconds within which a server must answer.
            options: keyword arguments of the constructor; all others go to the client.

        Raises (when awaited):
            ServerUnreachable: no server answered in time; the address is named, the password not.
            ConfigurationError: bad URL, option, driver or credentials.
        """
        return cls._by_url(
            "from_url",
            url,
            db_name,
            driver=driver,
            connect_timeout=connect_timeout,
            options=options,
        )

    async def next_due(self, min_priority: int = 0) -> float | None:
        """Return in how many seconds a group is due, 0 for now; None if there is no group.

        A leased group is due when its lease runs out; a stopped one is not. Cheap: it reads one
        entry of the index for each priority and partition.
        """
        floor = checks.priority("min_priority", min_priority)
        await self._store.ready()
        return await self._outlook.next_due(floor)

    async def publish(
        self, group_id: str, event: E, priority: int = 0, *, message_id: str | None = None
    ) -> int:
        """Add a message to the end of a group and return its sequence number.

        When this returns the message is stored on a majority and will be delivered, after every
        message of the group whose publish returned before. A call that raised may have happened;
        with a `message_id` it can be repeated without harm. Calls of tasks that run at the same
        time share their commands; alone, none waits for another. So a `pymongo.timeout()` around a
        call does not hold for it; `asyncio.timeout()` does.

        Args:
            group_id: any valid `str`.
            event: any BSON value, or what the codec takes; at most about 16 MB. BSON has no tuples
                (they become lists) and no microseconds (datetimes keep milliseconds); a datetime
                without a zone is refused.
            priority: 0 to 4; the first message of a group's life fixes it for that life.
            message_id: unique among the stored messages; a repeat returns the first one's number.

        Raises:
            ConfigurationError: a bad argument; nothing was written.
            PayloadError: the event cannot be stored; nothing was written.
            Duplicate: `message_id` is in use in another group.

        Cancelled, it has either stored the message and made it claimable, or done nothing (unless
        the database does not answer within 2 seconds of the cancellation).
        """
        draft = self._publisher.draft(group_id, event, priority, message_id)
        await self._store.ready()
        seq = await self._publisher.publish(draft)
        self._announcer.announce()
        return seq

    async def publish_many(self, items: Iterable[tuple[str, E] | tuple[str, E, int]]) -> list[int]:
        """Publish `(group_id, event)` or `(group_id, event, priority)` in order.

        All items are checked before anything is written. Returns and raises as `publish` does; a
        call that raised while writing may have stored a first part of the items.
        """
        drafts = self._publisher.drafts(items)
        await self._store.ready()
        seqs = await self._publisher.publish_many(drafts)
        self._announcer.announce()
        return seqs

    async def claim(
        self,
        worker_id: str,
        visibility: Seconds = 30.0,
        min_priority: int = 0,
        *,
        order: Order = "fair",
        batch: int = 1,
    ) -> Lease[E] | None:
        """Lease the group that has waited longest and return its oldest messages.

        Until it is settled or `visibility` seconds have passed no other claim returns the group.
        The claim counts as an attempt, also if the worker dies. At least half of the visibility is
        left on return. A message that cannot be decoded goes to the dead letters and the claim
        goes on with the next group.

        Args:
            worker_id: names the claimer, for people who look into the database.
            visibility: seconds, above 0.
            min_priority: leaves groups below this priority alone.
            order: "fair" serves groups round robin; "priority" prefers higher priorities.
            batch: messages of the group at most, 1 to 1,000, in order: `lease.messages`. Who was
                delivered before comes alone: no other message is charged for what it does.

        Returns None if no group is due, or if the database is so slow that every lease came too
        late. Cancelled, it gives back what it leased.
        """
        request = _arguments.request(worker_id, visibility, min_priority, order, batch)
        await self._store.ready()
        return await self._claimer.claim(request)

    async def claim_many(
        self,
        worker_id: str,
        n: int,
        visibility: Seconds = 30.0,
        min_priority: int = 0,
        *,
        order: Order = "fair",
        batch: int = 1,
    ) -> list[Lease[E]]:
        """Lease up to `n` distinct groups: those that have waited longest.

        Takes three commands, or four where one partition has not enough, whatever `n` is (servers
        before MongoDB 5.0: and one or two for each group). What a claim puts right on its way
        costs extra. It returns fewer than `n` if no more are due, if other claimers were quicker,
        where groups had to be put right, and for a while after leases came too late; none at all
        only if none is due, or if the database is so slow that all leases came too late. Each of
        the leases counts, is guarded and is given back as one of `claim` is; if the database fails,
        all are given back.

        Arguments are those of `claim`, and `n`, from 1 to 1,000.
        """
        checks.count("n", n, most=MOST_AT_ONCE)
        request = _arguments.request(worker_id, visibility, min_priority, order, batch)
        await self._store.ready()
        if n > 1:
            return await self._claimer.claim_many(request, n)
        lease = await self._claimer.claim(request)
        return [] if lease is None else [lease]

    async def ack(self, lease: Lease[E]) -> bool:
        """Settle the message, or all messages of a batch: done, and never delivered again.

        Returns False, and changes nothing, if the lease is no longer held. Succeeds after expiry
        as long as nobody else has claimed the group. Cancelled, it is finished all the same. One
        that raised may have happened. Acks of tasks that run at the same time share their commands.
        """
        _arguments.lease(lease)
        await self._store.ready()
        return await self._settler.ack(lease)

    async def ack_many(self, leases: Iterable[Lease[E]]) -> list[bool]:
        """Settle each lease as `ack` does, and return the results in order.

        Any number of leases takes as many commands as one: each is settled on its own, so those
        that are lost do not keep others from being settled.
        """
        held = _arguments.leases(leases)
        await self._store.ready()
        return await self._settler.ack_many(held)

    async def nack(
        self, lease: Lease[E], delay: Seconds = 0.0, *, error: str | None = None, done: int = 0
    ) -> bool:
        """Give the message back for another attempt, after `delay` seconds.

        The group waits with it, so order is kept; without a delay it queues up behind groups that
        wait already. `error` is kept in the lock for people who look there. Of a batch the first
        `done` messages are settled by the same write; the attempt counts for the next one, and for
        none behind it. Returns as `ack`.
        """
        _arguments.lease(lease)
        seconds = checks.seconds("delay", delay)
        text = checks.optional_text("error", error)
        number = _arguments.done(done, lease)
        await self._store.ready()
        if number:
            return await self._settler.nack_rest(lease, number, seconds, text)
        (is_held,) = await self._settler.nack([lease], seconds, text)
        return is_held

    async def nack_many(
        self, leases: Iterable[Lease[E]], delay: Seconds = 0.0, *, error: str | None = None
    ) -> list[bool]:
        """Give each message back as `nack` does, in one command; return the results in order."""
        held = _arguments.leases(leases)
        seconds = checks.seconds("delay", delay)
        text = checks.optional_text("error", error)
        await self._store.ready()
        return await self._settler.nack(held, seconds, text)

    async def extend(self, lease: Lease[E], visibility: Seconds = 30.0) -> Lease[E]:
        """Hold the lease for at least `visibility` seconds from now; return it with its new end.

        Never shortens it.

        Raises:
            LeaseLost: it is no longer held; nothing was changed.
        """
        _arguments.lease(lease)
        seconds = checks.positive_seconds("visibility", visibility)
        await self._store.ready()
        (extended,) = await self._settler.extend([lease], seconds)
        if extended is None:
            raise LeaseLost(lease.group_id, lease.seq, lease.epoch)
        return extended

    async def extend_many(
        self, leases: Iterable[Lease[E]], visibility: Seconds = 30.0
    ) -> list[Lease[E] | None]:
        """Hold each lease as `extend` does, in one command; None for one that is held no longer."""
        held = _arguments.leases(leases)
        seconds = checks.positive_seconds("visibility", visibility)
        await self._store.ready()
        return await self._settler.extend(held, seconds)

    async def release(
        self,
        lease: Lease[E],
        *,
        delay: Seconds = 0.0,
        done: int = 0,
        interrupted: bool = False,
    ) -> bool:
        """Give the group back after `delay` seconds, the attempt not counted. Returns as `ack`.

        Of a batch the first `done` messages are settled by the same write. `interrupted` counts the
        next one among those whose handler was stopped: `Lease.interrupted`.
        """
        _arguments.lease(lease)
        seconds = checks.seconds("delay", delay)
        number = _arguments.done(done, lease)
        was_begun = checks.flag("interrupted", interrupted)
        await self._store.ready()
        if number:
            return await self._settler.release_rest(lease, number, seconds, interrupted=was_begun)
        (is_held,) = await self._settler.release([lease], seconds, interrupted=was_begun)
        return is_held

    async def release_many(self, leases: Iterable[Lease[E]]) -> list[bool]:
        """Give groups back as `release` does, in one command; return the results in order."""
        held = _arguments.leases(leases)
        await self._store.ready()
        return await self._settler.release(held)

    async def dead_letter(
        self, lease: Lease[E], reason: str, *, traceback: str | None = None, done: int = 0
    ) -> bool:
        """Settle the message by moving it to the dead letters, with why. Returns as `ack`.

        A crash at any point leaves it either in its group or among the dead letters. Of a batch
        the first `done` messages are settled by the same write, the next one is moved, and those
        behind it are given back.
        """
        _arguments.lease(lease)
        text = checks.text("reason", reason)
        where = checks.optional_text("traceback", traceback)
        number = _arguments.done(done, lease)
        await self._store.ready()
        return await self._settler.dead_letter(lease, text, where, number)

    async def dead_letters(self, group_id: str | None = None) -> AsyncIterator[DeadLetter[E]]:
        """Iterate over the dead letters, oldest message first, of one group or of all.

        Before them come those that died again after they had come back to the front.
        """
        group = None if group_id is None else checks.group_id(group_id)
        await self._store.ready()
        after = None
        while page := await self._dead.page(group, after=after):
            for letter in page:
                yield letter
            after = page[-1].seq

    async def redrive(self, *, group_id: str | None = None, seq: int | None = None) -> int:
        """Publish dead letters again, at the end of their groups; return how many.

        One that stops its group comes back at the front instead, and the group goes on with it.
        With neither argument all of them. Interrupted, it is completed by the next `redrive` or
        `repair`. Two at once redrive each letter once.
        """
        group = None if group_id is None else checks.group_id(group_id)
        number = None if seq is None else _arguments.number(seq)
        await self._store.ready()
        redriven = await self._dead.redrive(group, number)
        self._announcer.announce()
        return redriven

    async def resume(self, group_id: str) -> bool:
        """Let a stopped group go on without the message that stops it; False if it is not stopped.

        That message stays among the dead letters; redriven later, it goes to the end of its group.
        """
        group = checks.group_id(group_id)
        await self._store.ready()
        is_resumed = await self._stops.resume(group)
        if is_resumed:
            self._announcer.announce()
        return is_resumed

    async def peek(self, group_id: str, limit: int = 10) -> list[Message[E]]:
        """Return the first unsettled messages of a group without leasing it."""
        group = checks.group_id(group_id)
        checks.count("limit", limit)
        await self._store.ready()
        return await self._view.peek(group, limit)

    async def stats(self) -> TransportStats:
        """Count groups, messages and dead letters; exact when nothing moves meanwhile."""
        await self._store.ready()
        return await self._view.stats()

    async def repair(self, *, full: bool = False) -> RepairReport:
        """Make messages claimable whose publisher died half-way, and finish other half-done work.

        Looks only at messages published since a minute before the last repair. Safe at any time
        and from many processes; a worker pool runs it in the background, about once a minute, and
        `mend` in between.

        Args:
            full: look at every group. Finds also what a publisher left that stood still for more
                than a minute before it died; costs as much as there are groups with messages.
        """
        await self._store.ready()
        return await self._repairer.repair(full=full)

    @property
    def mend(self) -> Callable[[], Coroutine[Any, Any, int]]:
        """What does the urgent part of `repair`, for one read where there is nothing to do.

        For pools, which call it every ten seconds or so, and `repair` itself about once a minute.
        It makes messages claimable whose publisher died half-way; half-done dead letters and
        redrives, and groups of another design, wait for `repair`.
        """
        return self._mend

    async def _mend(self) -> int:
        await self._store.ready()
        return await self._repairer.mend()

    async def reconcile(self) -> int:
        """Put groups into a partition that claimers look into; return how many.

        Whatever brought them where they are: a smaller number of partitions, another design, a
        hand. Groups under a lease are left for the next time. Safe at any time and from many
        processes; a worker pool runs it in the background, every minute or so.
        """
        await self._store.ready()
        return await self._placer.reconcile()

    async def close(self) -> None:
        """Wait for each `publish` and `ack` under way; close the client if it is its own.

        A server that does not answer is waited for five seconds at most. May be called again. Calls
        on a transport whose client is closed raise `FairlaneError`.
        """
        await self._publisher.drain()
        await self._settler.drain()
        await super().close()

    async def clear(self) -> None:
        """Delete all messages, groups and dead letters; numbers and epochs go on growing."""
        await self._store.ready()
        await self._floors.raise_all()
        await self._store.clear()

    async def drop(self) -> None:
        """Drop the collections. Sequence numbers and epochs begin anew afterwards.

        For when nothing else uses them: another program that is connected goes on without indexes.
        """
        await self._store.drop()
