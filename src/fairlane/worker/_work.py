"""What the pool needs of a leased piece of work, and of where such pieces come from.

A transport and a job queue are each seen through this and through nothing else.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from fairlane.announcing import Sleeper
from fairlane.worker._outcome import Outcome
from fairlane.worker.events import EventKind

__all__ = (
    "Chore",
    "ExtendMany",
    "Foresee",
    "Hold",
    "Separate",
    "TellSleeper",
    "W",
    "Work",
    "WorkSource",
    "renewed",
)

Chore = Callable[[], Coroutine[Any, Any, object]]

Foresee = Callable[[], Coroutine[Any, Any, float | None]]
"""Returns in how many seconds something is due, 0 for now; None if there is nothing."""

TellSleeper = Callable[[Sleeper], Coroutine[Any, Any, None]]
"""Tells of all that becomes claimable until cancelled; returns if it cannot."""


class Work(Protocol):
    """One leased piece of work.

    Attributes:
        token: of its lease.
        attempt: number of this start; 1 is the first.
        epoch: fencing number of the lease.
        priority: how urgent it is, as stored.
        visibility: seconds that the lease lasts from its claim, and from each renewal.
        origin: where it was leased; leases of one origin are renewed together.
        name: what it is called in the log.
        grave: what the log says when it ends as a dead letter.
        identity: the fields of a `WorkerEvent` that tell which one it is.
    """

    @property
    def token(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def priority(self) -> object: ...
    @property
    def visibility(self) -> float: ...
    @property
    def origin(self) -> object: ...
    @property
    def name(self) -> str: ...
    @property
    def grave(self) -> str: ...
    @property
    def identity(self) -> Mapping[str, Any]: ...


W = TypeVar("W", bound=Work)
T = TypeVar("T")

ExtendMany = Callable[[Sequence[W], float], Awaitable[Sequence[W | None]]]
"""Renews leases for so many seconds; None for one that is lost."""


@dataclass(frozen=True, slots=True)
class Separate(Generic[W]):
    """A source seen through connections of its own, of which a pool uses only this."""

    open: Callable[[], Awaitable[object]]
    extend_many: ExtendMany[W]
    close: Callable[[], Awaitable[None]]


def renewed(
    works: Sequence[W], told: Sequence[T | None], put: Callable[[W, T], W]
) -> list[W | None]:
    """Put what was told of each piece, in order, into it; None stays None: that lease is lost."""
    return [
        None if each is None else put(work, each) for work, each in zip(works, told, strict=True)
    ]


class Hold(Protocol):
    """The pool's hold on a piece of work, as lent to whoever handles it."""

    @property
    def is_lost(self) -> bool:
        """Whether the lease is over, or about to be; safe to ask from any thread."""
        ...

    def begin(self) -> None:
        """Hear that code of the application is called which does not run in a thread."""
        ...

    async def until_lost(self) -> None: ...

    async def extend(self, seconds: float) -> None:
        """Renew the lease for `seconds` at least. Raises `LeaseLost`."""
        ...

    async def in_thread(self, function: Callable[[], Any]) -> Any:
        """Run a plain function in a thread, at most one for each piece of work."""
        ...


class WorkSource(Protocol[W]):
    """Leases pieces of work, has each handled, and settles it. What `Source` promises holds."""

    @property
    def takes_many(self) -> bool:
        """Whether a claim for several free slots may lease several pieces."""
        ...

    @property
    def has_parts(self) -> bool:
        """Whether a part of it may have nothing to do while the pool is busy with another one."""
        ...

    @property
    def repair(self) -> Chore | None: ...

    @property
    def reconcile(self) -> Chore | None: ...

    @property
    def separate(self) -> Callable[[], Separate[W]] | None:
        """What opens connections of its own in the event loop that calls it; None without such."""
        ...

    @property
    def watch(self) -> TellSleeper | None: ...

    @property
    def foresee(self) -> Foresee | None:
        """What an idle pool asks instead of claiming, at the price of a read."""
        ...

    async def claim(self, n: int, floor: int) -> Sequence[W]:
        """Lease up to `n` pieces of at least this priority, where a pool may choose.

        Raising or cancelled, it leaves nothing leased.
        """
        ...

    def refusal(self, work: W) -> Outcome | None:
        """Return how a piece ends that must not be handled; None for all others."""
        ...

    async def handle(self, work: W, hold: Hold) -> Outcome:
        """Have it handled; return how it ends, or raise what the application raised."""
        ...

    async def judge(self, work: W, error: BaseException) -> Outcome:
        """Return how a piece ends whose handler raised."""
        ...

    def is_expected(self, work: W, error: BaseException) -> bool:
        """Tell whether an error is an answer of the handler, which needs no traceback."""
        ...

    async def settle(self, work: W, outcome: Outcome) -> bool:
        """End the lease; False if it was not held any more. May be repeated."""
        ...

    async def extend(self, work: W, seconds: float) -> W:
        """Raises `LeaseLost`."""
        ...

    def ended(
        self, work: W, outcome: Outcome, ending: EventKind
    ) -> Coroutine[Any, Any, None] | None:
        """Hear of the end of a lease; return what is to be done then, which must not raise."""
        ...

    def let_go(self, work: W) -> None:
        """Hear that nothing works on it any more; its slot is about to be free."""
        ...

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` whenever there may be work, until the returned function is called."""
        ...
