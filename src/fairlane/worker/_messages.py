"""A transport, or another `Source`, as a source of work: a piece of it is the head of a group."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic

from fairlane.checks import is_async
from fairlane.model import E, Lease, LeaseSignal, Progress
from fairlane.retry import Reject, Retry, Snooze
from fairlane.worker._calling import Handler
from fairlane.worker._current import at_work_on
from fairlane.worker._given import readable, with_event_of
from fairlane.worker._middleware import Middleware, passed
from fairlane.worker._outcome import (
    ACK,
    RELEASE,
    Outcome,
    after_failure,
    before_delivery,
    reason_of,
)
from fairlane.worker._payloads import payload_converter
from fairlane.worker._settings import Settings
from fairlane.worker._work import Chore, Foresee, Hold, Separate, TellSleeper, renewed
from fairlane.worker.events import EventKind
from fairlane.worker.source import (
    Announcing,
    Foreseeing,
    ManyClaiming,
    Mendable,
    Reconcilable,
    Repairable,
    Separable,
    SeparateSource,
    Source,
    Watchable,
    counts_interruptions,
    keeps_tracebacks,
)

__all__ = ("Messages",)

MENDS = 8
"""So many times only the urgent part of a repair is done, before all of it is done again.

An idle pool would otherwise send five reads for each repair. What waits for a minute then keeps
nobody from claiming: a letter that somebody has to look at, or what was published long ago.
"""


@dataclass(frozen=True, slots=True)
class LeasedMessage(Generic[E]):
    """The leased messages of a group; see `Work`."""

    lease: Lease[E]
    visibility: float
    progress: Progress = field(default_factory=Progress)

    @property
    def done(self) -> int:
        """How many messages the handler has finished, if it has not finished all."""
        return self.progress.done if self.progress.done < len(self.lease.messages) else 0

    @property
    def is_done(self) -> bool:
        """Whether the handler has said of all messages that they are done."""
        return 0 < len(self.lease.messages) <= self.progress.done

    @property
    def has_done_its_part(self) -> bool:
        """Whether it has said so of all that it got, where that was not all."""
        given = self.progress.given
        return given is not None and given <= self.progress.done

    def returned(self) -> Outcome:
        """Return how it ends when the handler has returned: what it got is done."""
        if self.progress.given is None:
            return ACK
        self.progress.done = self.progress.given
        return RELEASE

    @property
    def token(self) -> str:
        return self.lease.token

    @property
    def attempt(self) -> int:
        """Number of this delivery of the message at work; those behind the first are new."""
        return 1 if self.done else self.lease.attempt

    @property
    def epoch(self) -> int:
        return self.lease.epoch

    @property
    def priority(self) -> object:
        return getattr(self.lease, "priority", None)  # what is no lease fails when it is handled

    @property
    def origin(self) -> object:
        return None

    @property
    def name(self) -> str:
        seq = self.lease.messages[self.done].seq if self.done else self.lease.seq
        return f"group {self.lease.group_id!r}, seq {seq}"

    @property
    def grave(self) -> str:
        return "moved to the dead letters"

    @property
    def identity(self) -> Mapping[str, Any]:
        lease = self.lease
        return {"group_id": lease.group_id, "seq": lease.seq, "messages": len(lease.messages) or 1}


class Messages(Generic[E]):
    has_parts = False

    def __init__(
        self,
        source: Source[E],
        handler: Handler[Any],
        settings: Settings,
        middleware: Sequence[Middleware],
    ) -> None:
        self._source = source
        self._handler = handler
        self._is_async = is_async(handler)
        self._convert = payload_converter(handler)
        self._middleware = middleware
        self._settings = settings
        self._keeps_tracebacks = keeps_tracebacks(source)
        self._counts_interruptions = counts_interruptions(source)
        self._options: dict[str, Any] = {"order": settings.order}
        if settings.batch > 1:  # a source of an application's own may not know of batches
            self._options["batch"] = settings.batch

    @property
    def takes_many(self) -> bool:
        return isinstance(self._source, ManyClaiming)

    @property
    def repair(self) -> Chore | None:
        source = self._source
        return Repairing(source) if isinstance(source, Repairable) else None

    @property
    def reconcile(self) -> Chore | None:
        source = self._source
        return (lambda: source.reconcile()) if isinstance(source, Reconcilable) else None

    @property
    def separate(self) -> Callable[[], Separate[LeasedMessage[E]]] | None:
        opens = self._source.separate if isinstance(self._source, Separable) else None
        return None if opens is None else partial(_separate, opens)

    @property
    def watch(self) -> TellSleeper | None:
        return self._source.watch if isinstance(self._source, Watchable) else None

    @property
    def foresee(self) -> Foresee | None:
        if not isinstance(self._source, Foreseeing):
            return None
        return partial(self._source.next_due, self._settings.min_priority)

    async def claim(self, n: int, floor: int) -> Sequence[LeasedMessage[E]]:
        visibility = self._settings.visibility
        return [LeasedMessage(lease, visibility) for lease in await self._leases(n, floor)]

    async def _leases(self, n: int, floor: int) -> Sequence[Lease[E]]:
        source, settings = self._source, self._settings
        asked = settings.visibility, floor
        if n > 1 and isinstance(source, ManyClaiming):
            return await source.claim_many(settings.worker_id, n, *asked, **self._options)
        lease = await source.claim(settings.worker_id, *asked, **self._options)
        return [] if lease is None else [lease]

    def refusal(self, work: LeasedMessage[E]) -> Outcome | None:
        return before_delivery(work.attempt, self._settings.max_attempts)

    async def handle(self, work: LeasedMessage[E], hold: Hold) -> Outcome:
        lease = replace(work.lease, lost=LeaseSignal(hold), _progress=work.progress)
        if self._middleware:
            hold.begin()
        with at_work_on(lease):
            await passed(self._middleware, lease, partial(self._deliver, lease, hold))
        return work.returned()

    async def _deliver(self, own: Lease[E], hold: Hold, given: Any) -> Any:
        lease = readable(own if given is own else with_event_of(given, own), self._convert)
        if len(lease.messages) < len(own.messages):
            own._progress.given = len(lease.messages)
        with at_work_on(lease):
            if not self._is_async:
                return await hold.in_thread(partial(self._handler, lease))
            hold.begin()
            answer: Any = self._handler(lease)
            return await answer

    async def judge(self, work: LeasedMessage[E], error: BaseException) -> Outcome:
        if work.is_done:
            return Outcome(verb="ack", reason=reason_of(error))
        if work.has_done_its_part:
            return Outcome(verb="release", reason=reason_of(error))
        return after_failure(
            error,
            attempt=work.attempt,
            max_attempts=self._settings.max_attempts,
            policy=self._settings.backoff,
        )

    def is_expected(self, work: LeasedMessage[E], error: BaseException) -> bool:
        return isinstance(error, Retry | Snooze | Reject)

    async def settle(self, work: LeasedMessage[E], outcome: Outcome) -> bool:
        # A source of an application's own need not know what it is never told.
        lease, part = work.lease, _told(done=work.done)
        if outcome.verb == "ack" or work.is_done:
            return await self._source.ack(lease)
        if outcome.verb == "nack":
            return await self._source.nack(lease, outcome.delay, error=outcome.reason, **part)
        if outcome.verb == "dead_letter":
            if self._keeps_tracebacks:
                part |= _told(traceback=outcome.traceback)
            return await self._source.dead_letter(lease, outcome.reason or "", **part)
        if self._counts_interruptions:
            part |= _told(interrupted=outcome.is_interrupted)
        return await self._source.release(lease, **part, **_told(delay=outcome.delay))

    async def extend(self, work: LeasedMessage[E], seconds: float) -> LeasedMessage[E]:
        return replace(work, lease=await self._source.extend(work.lease, seconds))

    def ended(self, work: LeasedMessage[E], outcome: Outcome, ending: EventKind) -> None:
        """The listener of the pool is all that hears of it."""

    def let_go(self, work: LeasedMessage[E]) -> None:
        """Nothing is counted here."""

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        if isinstance(self._source, Announcing):
            return self._source.subscribe(callback)
        return lambda: None


class Repairing:
    """Repairs, thoroughly now and then, and what is urgent each time."""

    def __init__(self, source: Repairable) -> None:
        self._source = source
        self._until_thorough = 0

    async def __call__(self) -> None:
        if self._until_thorough and isinstance(self._source, Mendable):
            await self._source.mend()
            self._until_thorough -= 1
        else:  # one that fails is tried again
            await self._source.repair()
            self._until_thorough = MENDS


def _told(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value}


def _separate(opens: Callable[[], SeparateSource[E]]) -> Separate[LeasedMessage[E]]:
    source = opens()

    async def extend(
        works: Sequence[LeasedMessage[E]], seconds: float
    ) -> list[LeasedMessage[E] | None]:
        extended = await source.extend_many([work.lease for work in works], seconds)
        return renewed(works, extended, lambda work, lease: replace(work, lease=lease))

    return Separate(source.__aenter__, extend, source.close)
