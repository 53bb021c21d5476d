"""Several sources of work in one pool: each claim asks them in turn, beginning with another one."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import anyio

from fairlane.errors import describe
from fairlane.shield import DEADLINE
from fairlane.worker._outcome import RELEASE, Outcome
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
        """Fill up to `n` slots. An error of one part does not lose what another one has leased."""
        claimed: list[PartsWork] = []
        for part in self._in_turn():
            if len(claimed) >= n:
                break
            try:
                wanted = n - len(claimed) if part.takes_many else 1
                claimed += [PartsWork(part, work) for work in await part.claim(wanted)]
            except Exception as error:
                if not claimed:
                    raise
                # It is asked first sooner or later, and then its error is that of the claim.
                logger.debug("a claim went on without one part: %s", describe(error, 300))
            except BaseException:
                await self._give_back(claimed)
                raise
        return claimed

    def _in_turn(self) -> Sequence[Part]:
        first = next(self._turns) % len(self._parts)
        return (*self._parts[first:], *self._parts[:first])

    async def _give_back(self, claimed: Sequence[PartsWork]) -> None:
        for each in claimed:
            self.let_go(each)
            with anyio.move_on_after(DEADLINE, shield=True):
                try:
                    await each.part.settle(each.work, RELEASE)
                except Exception as error:
                    logger.warning("%s runs out by itself: %s", each.name, describe(error, 300))

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

    async def extend_many(works: Sequence[PartsWork], seconds: float) -> Sequence[PartsWork | None]:
        extended: dict[str, Work | None] = {}
        for part, separate in opened.items():
            of_part = [each.work for each in works if each.part is part]
            if of_part:
                renewed = await separate.extend_many(of_part, seconds)
                extended |= zip((each.token for each in of_part), renewed, strict=True)
        return [_seen_again(each, extended[each.token]) for each in works]

    async def close() -> None:
        for each in opened.values():
            await each.close()

    return Separate(extend_many, close)


def _seen_again(work: PartsWork, renewed: Work | None) -> PartsWork | None:
    return None if renewed is None else replace(work, work=renewed)


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
