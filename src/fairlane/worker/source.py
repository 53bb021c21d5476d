"""What a worker pool needs of the thing it takes leases from."""

import inspect
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from fairlane.announcing import Sleeper
from fairlane.checks import is_async
from fairlane.errors import ConfigurationError
from fairlane.model import E, Lease

__all__ = (
    "Announcing",
    "Foreseeing",
    "ManyClaiming",
    "Mendable",
    "Order",
    "Reconcilable",
    "Repairable",
    "Separable",
    "SeparateSource",
    "Sleeper",
    "Source",
    "Watchable",
    "checked_source",
    "counts_interruptions",
    "keeps_tracebacks",
    "oddity_of",
    "problem_of",
    "takes_batches",
)

DRIVERS = {"motor", "pymongo"}
VERBS = ("claim", "ack", "nack", "extend", "release", "dead_letter")

Order = Literal["fair", "priority"]
"""Which of the claimable groups comes first: the one that waits longest, or the most urgent one."""


class Source(Protocol[E]):
    """Leases groups of messages; `AsyncMongoTransport` is one.

    A claim that raises, or is cancelled, leaves nothing leased that it knows of: where the reply of
    the lease itself is lost, it runs out by itself. A lease that a claim returns has at
    least half of its visibility left. Durations are seconds. Settlements return whether the
    lease was still held; they may be repeated, since a lease settles once. A `release` that has a
    parameter `interrupted` is told whether the handler had begun.
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
class ManyClaiming(Protocol[E]):
    """A source that leases several groups at once; a pool with several free slots asks it to.

    What is said of `Source.claim` holds for each of the leases.
    """

    async def claim_many(
        self,
        worker_id: str,
        n: int,
        visibility: float = 30.0,
        min_priority: int = 0,
        *,
        order: Order = "fair",
    ) -> list[Lease[E]]: ...


@runtime_checkable
class Repairable(Protocol):
    """A source that finishes what a dying publisher left half done; a pool calls it regularly."""

    async def repair(self) -> object: ...


@runtime_checkable
class Mendable(Protocol):
    """A source that can do the urgent part of its `repair` for less; a pool asks it to in between.

    What is asked about once a minute is all of `repair`.
    """

    @property
    def mend(self) -> Callable[[], Coroutine[Any, Any, object]]: ...


@runtime_checkable
class Reconcilable(Protocol):
    """A source that puts groups where claims find them; a pool calls it now and then."""

    async def reconcile(self) -> object: ...


class SeparateSource(Protocol[E]):
    """The same leases, seen through connections of its own. Entering it opens these."""

    async def __aenter__(self) -> object: ...

    async def extend_many(
        self, leases: Sequence[Lease[E]], visibility: float = 30.0
    ) -> Sequence[Lease[E] | None]:
        """Extend each lease; None for one that is held no longer."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Separable(Protocol[E]):
    """A source that can be seen through connections of its own, in another event loop.

    A pool renews leases through those, in a thread, where neither a handler that blocks the event
    loop nor one that uses up the connections can hinder it.
    """

    @property
    def separate(self) -> Callable[[], SeparateSource[E]] | None:
        """What opens one in the running event loop; None where there is nothing to connect to."""
        ...


@runtime_checkable
class Watchable(Protocol):
    """A source that can tell of all that becomes claimable, whoever made it so."""

    @property
    def watch(self) -> Callable[[Sleeper], Coroutine[Any, Any, None]] | None:
        """What tells a sleeper, until it is cancelled; None where that is switched off.

        It returns if it never can, and bears all else. The pool polls in any case, less often while
        it is told that everything is `watched`.
        """
        ...


@runtime_checkable
class Foreseeing(Protocol):
    """A source that knows when the next group is due; an idle pool asks it instead of claiming."""

    async def next_due(self, min_priority: int = 0) -> float | None:
        """Return in how many seconds, 0 for now; None if there is nothing at all."""
        ...


@runtime_checkable
class Announcing(Protocol):
    """A source that tells of each publish made through it, so that an idle pool need not poll."""

    def subscribe(self, callback: Callable[[], None], /) -> Callable[[], None]:
        """Call `callback` after each publish until the returned function is called."""
        ...


def checked_source(source: Source[E]) -> Source[E]:
    """Refuse what has not got the verbs, or would block the event loop with them."""
    problem = problem_of(source)
    if problem is not None:
        raise ConfigurationError(
            "source must be an AsyncMongoTransport, another Source, or an AsyncJobQueue with a "
            f"Jobs registry: {problem}"
        )
    return source


def problem_of(source: object) -> str | None:
    """Return why this can be no source of messages; None if it can."""
    missing = [verb for verb in VERBS if not callable(getattr(source, verb, None))]
    lacks = f"{type(source).__name__} has no {', '.join(missing)}" if missing else None
    return oddity_of(source) or lacks


def oddity_of(given: object) -> str | None:
    """Return why this serves no pool, if it is one of the things that are taken for a source."""
    if isinstance(given, type):
        return f"{given.__name__} is a class; open one and give that"
    name = type(given).__name__
    if inspect.isawaitable(given):
        return f"open this {name} first, with `async with` or `await`"
    if type(given).__module__.partition(".")[0] in DRIVERS:  # whose objects have any attribute
        return f"{name} is of the MongoDB driver; open a transport or a queue with it"
    claim = getattr(given, "claim", None)
    if callable(claim) and not is_async(inspect.unwrap(claim)):
        return (
            f"{name} blocks, its claim is no coroutine function "
            "(MongoTransport and JobQueue are for threads)"
        )
    return None


def takes_batches(source: Source[E]) -> bool:
    """Tell whether a claim can lease several messages of a group, and part of them be settled."""
    verbs = {"claim": "batch", "nack": "done", "release": "done", "dead_letter": "done"}
    if isinstance(source, ManyClaiming):
        verbs["claim_many"] = "batch"
    return all(
        option in inspect.signature(getattr(source, verb)).parameters
        for verb, option in verbs.items()
    )


def counts_interruptions(source: Source[E]) -> bool:
    """Tell whether a release can say that a handler was stopped."""
    return "interrupted" in inspect.signature(source.release).parameters


def keeps_tracebacks(source: Source[E]) -> bool:
    """Tell whether a dead letter can say where its error was raised."""
    return "traceback" in inspect.signature(source.dead_letter).parameters
