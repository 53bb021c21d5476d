"""The values that the transport hands out. All are immutable, but for what a lease notes of its
handler's progress."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Protocol

if TYPE_CHECKING:  # a default: nobody has to name the type of events that are just BSON
    from typing_extensions import TypeVar

    E = TypeVar("E", default=Any)
else:
    from typing import TypeVar

    E = TypeVar("E")

__all__ = (
    "DeadLetter",
    "Hold",
    "Lease",
    "LeaseSignal",
    "Message",
    "Progress",
    "RepairReport",
    "Seen",
    "TransportStats",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Generic[E]):
    """One stored message.

    Attributes:
        seq: its number; grows over all groups. Negative if the message had stopped its group and
            was redriven: it comes before all that were published.
        group_id: the group it belongs to.
        event: the payload.
        published_at: server time of the publish; None if the original design wrote it.
    """

    seq: int
    group_id: str
    event: E
    published_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the claim saw beside the message; the settlement needs it to clean up.

    Attributes:
        version: of the lock when it was claimed; None where the original design wrote the lock.
        undeleted: settled messages whose documents may still exist.
        is_last: no message stood behind the leased ones.
        at: when that was, in epoch seconds.
        redriven_from: the number of the dead letter that the message was, if it was one.
    """

    version: int | None = None
    undeleted: tuple[int, ...] = ()
    is_last: bool = False
    at: float = 0.0
    redriven_from: int | None = None


class Hold(Protocol):
    """The hold that a worker has on what is leased."""

    @property
    def is_lost(self) -> bool: ...

    async def until_lost(self) -> None: ...


class LeaseSignal:
    """Tells that a lease is lost, as an event does: `lease.lost`, and `ctx.lease_lost` of a job.

    `is_set` is safe in any thread; it is what a handler that runs in one looks at between its
    steps. `wait` is for coroutines.
    """

    __slots__ = ("_hold",)

    def __init__(self, hold: Hold | None = None) -> None:
        self._hold = hold

    def __reduce__(self) -> tuple[type["LeaseSignal"], tuple[()]]:
        """Copied, or sent to another process, nobody watches over it any more."""
        return LeaseSignal, ()

    def __bool__(self) -> bool:
        """Say what `is_set` says: `if lease.lost:` means what it reads like."""
        return self.is_set()

    def __repr__(self) -> str:
        return f"<{'lost' if self.is_set() else 'not lost'}>"

    def is_set(self) -> bool:
        """Whether the lease is over, or will be before it can be renewed."""
        return self._hold is not None and self._hold.is_lost

    async def wait(self) -> None:
        """Wait until it is lost; for ever, if nobody watches over the lease."""
        if self._hold is None:
            await asyncio.get_running_loop().create_future()
        else:
            await self._hold.until_lost()


class Progress:
    """How many messages of a lease its handler has finished.

    Attributes:
        given: how many it got, if it did not get all: the next one cannot be decoded.
    """

    __slots__ = ("done", "given")

    def __init__(self) -> None:
        self.done: int = 0
        self.given: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease(Generic[E]):
    """The right to handle the head of one group until `expires_at`.

    Attributes:
        seq, group_id, event: the message.
        token: names this lease; never reused.
        priority: of the group, 0 to 4.
        attempt: number of this delivery of the message; 1 is the first.
        interrupted: how often a handler of the message was stopped before, by the end of its
            worker: these deliveries are not among the attempts.
        epoch: fencing number; grows with every lease of the group.
        expires_at: epoch seconds on the server's clock.
        messages: the leased messages in order; `event` and `seq` are the first one's.
        lost: tells a handler of a `WorkerPool` that its lease is lost, which is why it is being
            cancelled: `lease.lost.is_set()`. Nobody sets that of a lease that was claimed by hand.
    """

    group_id: str
    seq: int
    event: E
    token: str
    priority: int
    attempt: int
    epoch: int
    expires_at: float
    interrupted: int = 0
    messages: tuple[Message[E], ...] = field(default=(), repr=False)
    lost: LeaseSignal = field(default=LeaseSignal(), repr=False, compare=False)
    _seen: Seen = field(default=Seen(), repr=False)
    _progress: Progress = field(default_factory=Progress, repr=False, compare=False)

    def done(self, message: Message[E]) -> None:
        """Note, in a handler of a `WorkerPool`, that this message and those before it are done.

        If the handler fails or is cancelled later, they are settled all the same; the next one has
        failed, and those behind it are given back uncounted. Without it all messages of the lease
        fail together, and are delivered again. Nothing is written before the handler has ended.

        Raises:
            ValueError: the lease has no such message.
        """
        if message not in self.messages:
            raise ValueError(f"message must be one of lease.messages, not {message!r:.100}")
        self._progress.done = max(self._progress.done, self.messages.index(message) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter(Generic[E]):
    """A message that will not be delivered any more, and why.

    Attributes:
        event: the payload, or None where it cannot be decoded (`decode_error` says why).
        reason: why it died.
        traceback: the last 4,000 characters of that of its handler's error, if it died of one.
        attempts: how often it was delivered.
        interrupted: how often a handler of it was stopped besides, by the end of its worker.
        died_at: server time of its death.
        is_stopping: its group is stopped until it is redriven (`dead_head="stop"`), or `resume`.
    """

    seq: int
    group_id: str
    event: E | None
    priority: int
    reason: str
    attempts: int
    died_at: datetime
    published_at: datetime | None = None
    decode_error: str | None = None
    traceback: str | None = None
    interrupted: int = 0
    is_stopping: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportStats:
    """A count of what the transport holds, taken without stopping it.

    Attributes:
        groups: groups with messages; ready + leased + parked + stopped. A group whose last message
            was published again, with its `message_id`, while it was leased counts until the next
            claim.
        ready: claimable now, those with an expired lease included.
        leased: under a live lease.
        parked: waiting for a retry delay to pass.
        stopped: waiting for a dead message to be redriven, those with nothing behind it included.
        messages: messages not yet settled.
        dead: dead letters.
        oldest_age: seconds since the oldest unsettled message was published; None if there is none.
        ready_by_priority: claimable groups for each priority that has any.
    """

    groups: int
    ready: int
    leased: int
    parked: int
    stopped: int
    messages: int
    dead: int
    oldest_age: float | None
    ready_by_priority: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    """What one `repair()` did.

    Attributes:
        examined: recent messages looked at.
        repaired: groups that got their missing lock back.
        adopted: lock documents of the original design taken over.
        finished: dead letters whose move was completed.
    """

    examined: int
    repaired: int
    adopted: int
    finished: int
