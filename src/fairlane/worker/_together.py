"""Several sources of work in one pool: each claim asks them in turn, beginning with another one."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import anyio

from fairlane.errors import describe
from fairlane.worker._outcome import Outcome
from fairlane.worker._work import Chore, Hold, Separate, Work, WorkSource
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

    async def claim(self, n: int) -> Sequence[PartsWork]:
        """Lease up to `n` pieces from the first part that has some.

        What one part has leased does not wait for another one, whose server may be away: its lease
        would run out meanwhile. The pool asks again at once. Raises the error of a part only if no
        other one had anything.
        """
        failure: Exception | None = None
        for part in self._in_turn():
            try:
                claimed = await part.claim(n if part.takes_many else 1)
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
        renewed = await separate.extend_many([each.work for each in works], seconds)
        return [
            None if work is None else replace(each, work=work)
            for each, work in zip(works, renewed, strict=True)
        ]

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
