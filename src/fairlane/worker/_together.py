"""Several sources of work in one pool: each claim asks them in turn, beginning with another one."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import anyio

from fairlane.announcing import Sleeper
from fairlane.errors import describe
from fairlane.worker._outcome import Outcome
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
    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = tuple(parts)
        self._turns = count()

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
        known = [tell for tell in (part.watch for part in self._parts) if tell is not None]
        return partial(_watch_all, known, len(self._parts)) if known else None

    @property
    def foresee(self) -> Foresee | None:
        foresees = [part.foresee for part in self._parts]
        known = [foresee for foresee in foresees if foresee is not None]
        return partial(_first_of, known) if len(known) == len(foresees) else None

    async def claim(self, n: int, floor: int) -> Sequence[PartsWork]:
        """Lease up to `n` pieces from the first part that has some.

        What one part has leased does not wait for another one, whose server may be away: its lease
        would run out meanwhile. The pool asks again at once. Raises the error of a part only if no
        other one had anything.
        """
        failure: Exception | None = None
        for part in self._in_turn():
            try:
                claimed = await part.claim(n if part.takes_many else 1, floor)
            except Exception as error:
                failure = failure or error
            else:
                if claimed:
                    return [PartsWork(part, work) for work in claimed]
        if failure is not None:
            raise failure
        return []

    def _in_turn(self) -> Sequence[Part]:
        first = next(self._turns) % len(self._parts)
        return (*self._parts[first:], *self._parts[:first])

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

    async def ended(self, work: PartsWork, outcome: Outcome, ending: EventKind) -> None:
        await work.part.ended(work.work, outcome, ending)

    def let_go(self, work: PartsWork) -> None:
        work.part.let_go(work.work)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        ends = [part.subscribe(callback) for part in self._parts]

        def unsubscribe() -> None:
            for end in ends:
                end()

        return unsubscribe


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


async def _watch_all(tells: Sequence[TellSleeper], parts: int, sleeper: Sleeper) -> None:
    watched: set[Sleeper] = set()
    async with anyio.create_task_group() as group:
        for tell in tells:
            group.start_soon(tell, PartSleeper(sleeper, watched, parts))


class PartSleeper:
    """The sleeper of one of several parts: it is watched as long as all parts are."""

    def __init__(self, sleeper: Sleeper, watched: set[Sleeper], parts: int) -> None:
        self.wake = sleeper.wake
        self.look_soon = sleeper.look_soon
        self._sleeper = sleeper
        self._watched = watched
        self._parts = parts

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
