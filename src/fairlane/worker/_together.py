"""Several sources of work in one pool, which share its slots."""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio

from fairlane.announcing import Sleeper
from fairlane.errors import describe
from fairlane.worker._lull import Lull
from fairlane.worker._outcome import Outcome
from fairlane.worker._settings import Settings
from fairlane.worker._shares import Shares
from fairlane.worker._work import (
    Chore,
    Foresee,
    Hold,
    Separate,
    TellSleeper,
    Work,
    WorkSource,
    renewed,
)
from fairlane.worker.events import EventKind

__all__ = ("Together",)

logger = logging.getLogger(__name__)

Part = WorkSource[Any]

PATIENCE = 3
"""For so many times as long as a claim took to fail a part lets the others go first."""


@dataclass(frozen=True, slots=True)
class PartsWork:
    """A piece of work, and the part that it comes from."""

    part: Part
    work: Work

    @property
    def token(self) -> str:
        return self.work.token

    @property
    def attempt(self) -> int:
        return self.work.attempt

    @property
    def epoch(self) -> int:
        return self.work.epoch

    @property
    def visibility(self) -> float:
        return self.work.visibility

    @property
    def priority(self) -> object:
        return self.work.priority

    @property
    def origin(self) -> object:
        return self.part

    @property
    def name(self) -> str:
        return self.work.name

    @property
    def grave(self) -> str:
        return self.work.grave

    @property
    def identity(self) -> Mapping[str, Any]:
        return self.work.identity


class Together:
    has_parts = True

    def __init__(self, parts: Sequence[Part], shares: Sequence[float], settings: Settings) -> None:
        self._parts = tuple(parts)
        self._shares = Shares(dict(zip(self._parts, shares, strict=True)), settings.concurrency)
        self._lulls = {part: Lull(settings.poll_interval) for part in self._parts}
        self._lowest = settings.min_priority

    @property
    def takes_many(self) -> bool:
        return any(part.takes_many for part in self._parts)

    @property
    def repair(self) -> Chore | None:
        return _all([part.repair for part in self._parts])

    @property
    def reconcile(self) -> Chore | None:
        return _all([part.reconcile for part in self._parts])

    @property
    def separate(self) -> Callable[[], Separate[PartsWork]] | None:
        """None unless all parts have it: one pool renews all leases in one place."""
        opens = {part: part.separate for part in self._parts}
        known = {part: open_it for part, open_it in opens.items() if open_it is not None}
        return partial(_separate, known) if len(known) == len(opens) else None

    @property
    def watch(self) -> TellSleeper | None:
        tells = [(part.watch, self._lulls[part]) for part in self._parts]
        known = [(tell, lull) for tell, lull in tells if tell is not None]
        return partial(_watch_all, known, len(self._parts)) if known else None

    @property
    def foresee(self) -> Foresee | None:
        foresees = [part.foresee for part in self._parts]
        known = [foresee for foresee in foresees if foresee is not None]
        return partial(_first_of, known) if len(known) == len(foresees) else None

    async def claim(self, n: int, floor: int) -> Sequence[PartsWork]:
        """Lease up to `n` pieces from the first part that has some, as the shares say.

        What one part has leased does not wait for another one, whose server may be away: its lease
        would run out meanwhile. The pool asks again at once. Raises the error of a part only if no
        other one had anything.
        """
        failure: Exception | None = None
        resting = [part for part, lull in self._lulls.items() if not lull.is_over]
        for part, most in self._shares.asks(n, resting):
            asked_at = anyio.current_time()
            try:
                claimed = await self._ask(part, most if part.takes_many else 1, floor)
            except Exception as error:
                self._lulls[part].last(PATIENCE * (anyio.current_time() - asked_at))
                failure = failure or error
            else:
                if claimed:
                    return [PartsWork(part, work) for work in claimed]
        if failure is not None:
            raise failure
        return []

    async def _ask(self, part: Part, n: int, floor: int) -> Sequence[Work]:
        """Claim from a part. What it may lease counts as held meanwhile, for other claimers."""
        claimed: Sequence[Work] = ()
        self._shares.take(part, n)
        if floor == self._lowest:  # what is found above others tells nothing of these
            self._lulls[part].claim_begins()
        try:
            claimed = await part.claim(n, floor)
        finally:
            self._shares.give_back(part, n - len(claimed))
        if claimed:
            self._lulls[part].end()
        return claimed

    def refusal(self, work: PartsWork) -> Outcome | None:
        return work.part.refusal(work.work)

    async def handle(self, work: PartsWork, hold: Hold) -> Outcome:
        return await work.part.handle(work.work, hold)

    async def judge(self, work: PartsWork, error: BaseException) -> Outcome:
        return await work.part.judge(work.work, error)

    def is_expected(self, work: PartsWork, error: BaseException) -> bool:
        return work.part.is_expected(work.work, error)

    async def settle(self, work: PartsWork, outcome: Outcome) -> bool:
        return await work.part.settle(work.work, outcome)

    async def extend(self, work: PartsWork, seconds: float) -> PartsWork:
        return replace(work, work=await work.part.extend(work.work, seconds))

    def ended(
        self, work: PartsWork, outcome: Outcome, ending: EventKind
    ) -> Coroutine[Any, Any, None] | None:
        if outcome.delay:
            self._lulls[work.part].told(outcome.delay)
        return work.part.ended(work.work, outcome, ending)

    def let_go(self, work: PartsWork) -> None:
        self._shares.give_back(work.part)
        self._lulls[work.part].end()
        work.part.let_go(work.work)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        ends = [part.subscribe(partial(self._announced, part, callback)) for part in self._parts]

        def unsubscribe() -> None:
            for end in ends:
                end()

        return unsubscribe

    def _announced(self, part: Part, callback: Callable[[], None]) -> None:
        """Hear of new work of a part; in any thread."""
        self._lulls[part].end()
        callback()


def _separate(opens: Mapping[Part, Callable[[], Separate[Any]]]) -> Separate[PartsWork]:
    opened = {part: open_it() for part, open_it in opens.items()}

    async def open_all() -> None:
        async with anyio.create_task_group() as group:
            for each in opened.values():
                group.start_soon(_try_to, each.open)

    async def extend_many(works: Sequence[PartsWork], seconds: float) -> Sequence[PartsWork | None]:
        """Of works of one part: they have one origin."""
        separate = opened[works[0].part]
        extended = await separate.extend_many([each.work for each in works], seconds)
        return renewed(works, extended, lambda each, work: replace(each, work=work))

    async def close() -> None:
        for each in opened.values():
            await each.close()

    return Separate(open_all, extend_many, close)


async def _try_to(open_it: Callable[[], Awaitable[object]]) -> None:
    """Open what can be opened; an error comes again with the first renewal."""
    try:
        await open_it()
    except Exception as error:
        logger.debug("a part cannot be opened for its renewals: %s", describe(error, 300))


async def _first_of(foresees: Sequence[Foresee]) -> float | None:
    """Return in how many seconds the first of several has something due."""
    dues = [due for each in foresees if (due := await each()) is not None]
    return min(dues, default=None)


async def _watch_all(
    tells: Sequence[tuple[TellSleeper, Lull]], parts: int, sleeper: Sleeper
) -> None:
    watched: set[Sleeper] = set()
    async with anyio.create_task_group() as group:
        for tell, lull in tells:
            group.start_soon(tell, PartSleeper(sleeper, lull, watched, parts))


class PartSleeper:
    """The sleeper of one of several parts: it is watched as long as all parts are."""

    def __init__(self, sleeper: Sleeper, lull: Lull, watched: set[Sleeper], parts: int) -> None:
        self.look_soon = sleeper.look_soon
        self._sleeper = sleeper
        self._lull = lull
        self._watched = watched
        self._parts = parts

    def wake(self, delay: float) -> None:
        self._lull.told(delay)
        self._sleeper.wake(delay)

    def watched(self, is_watched: bool) -> None:
        (self._watched.add if is_watched else self._watched.discard)(self)
        self._sleeper.watched(len(self._watched) == self._parts)


def _all(chores: Sequence[Chore | None]) -> Chore | None:
    """Return a chore that does all of these, also if some fail, and then tells of the first."""
    known = [chore for chore in chores if chore is not None]
    if not known:
        return None

    async def chore() -> None:
        errors: list[Exception] = []
        for each in known:
            try:
                await each()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    return chore
