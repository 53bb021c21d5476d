"""What claims overlook and what they keep: seen by a look at the locks beside every driver call.

*   A claim that returns nothing has overlooked a group that was due in one partition, by the time
    of the call, from its first driver call to its last. (A group that is moved to another partition
    meanwhile may be missed: it is found by the next claim.)
*   A claim that has ended keeps no lease that it did not hand out, unless one of its own driver
    calls failed, be it that which would have given the lease back.
*   A lease that was settled, or of which a settlement says that it was lost, is in no lock.

Nothing is seen where the locks cannot be seen at once (`Stage.locks`).
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fairlane import Job, Lease
from property.wire import Call, Conduct, Step

__all__ = ("Look", "Lookout")

Place = tuple[str, int]
"""A group and its partition."""


@dataclass(slots=True)
class Look:
    """One claim under way.

    Attributes:
        name: of the claimer.
        former: tokens of its earlier claims that are in a lock still.
        standing: where it would have found something from its first driver call on; None before.
        is_disturbed: one of its driver calls failed.
        returned: what it handed out.
    """

    name: str
    called_at: float
    former: frozenset[str]
    standing: frozenset[Place] | None = None
    is_disturbed: bool = False
    returned: Sequence[Lease[Any] | Job] = field(default_factory=list)

    def state(self) -> object:
        return self.name, self.called_at, self.former, self.standing, self.is_disturbed


class Lookout:
    def __init__(
        self,
        locks: Callable[[], Sequence[dict[str, Any]]],
        clock: Callable[[], float],
        blame: Callable[[str], None],
        *,
        part: str = "locks",
    ) -> None:
        self._part = part
        self._locks = locks
        self._clock = clock
        self._blame = blame
        self._looks: dict[str, Look] = {}

    @contextmanager
    def claim(self, name: str) -> Iterator[Look]:
        """Watch a claim of this participant to its end, which must set `returned`."""
        look = self._looks[name] = Look(name, self._clock(), frozenset(self._tokens(name)))
        try:
            yield look
            if look.standing and not look.returned:
                self._blame(f"nothing was claimed, but {sorted(look.standing)} were due")
            self._expect_nothing_kept(look)
        except asyncio.CancelledError:
            self._expect_nothing_kept(look)
            raise
        finally:
            del self._looks[name]

    def expect_over(self, lease: Lease[Any]) -> None:
        if any(lock["token"] == lease.token for lock in self._locks()):
            self._blame(f"{lease.group_id} is leased to {lease.token}, which was told otherwise")

    def watched(self, name: str, conduct: Conduct) -> Conduct:
        """Return the conduct that also looks at the locks, beside each of the driver calls."""

        async def conduct_and_look(step: Step, call: Call) -> Any:
            async def call_and_look() -> Any:
                self._begin(name)
                try:
                    return await call()
                finally:
                    self._go_on(step)

            try:
                return await conduct(step, call_and_look)
            except BaseException:
                if name in self._looks:
                    self._looks[name].is_disturbed = True
                raise

        return conduct_and_look

    def state(self) -> object:
        """Return what the judgement of the claims under way depends on."""
        return tuple(look.state() for _, look in sorted(self._looks.items()))

    def _begin(self, name: str) -> None:
        look = self._looks.get(name)
        if look is not None and look.standing is None:
            look.standing = self._due(look)

    def _go_on(self, step: Step) -> None:
        if step.collection == self._part:
            for look in self._looks.values():
                if look.standing:
                    look.standing &= self._due(look)

    def _due(self, look: Look) -> frozenset[Place]:
        return frozenset(
            (lock["_id"], lock["partition"])
            for lock in self._locks()
            if lock["available_at"] <= look.called_at
        )

    def _tokens(self, name: str) -> set[str]:
        tokens = {lock["token"] for lock in self._locks()}
        return {token for token in tokens if token is not None and token.startswith(f"{name}:")}

    def _expect_nothing_kept(self, look: Look) -> None:
        handed_out = {lease.token for lease in look.returned}
        kept = self._tokens(look.name) - look.former - handed_out
        if kept and not look.is_disturbed:
            self._blame(f"{sorted(kept)} were leased, and neither handed out nor given back")
