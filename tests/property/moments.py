"""Moments of a schedule: where everybody stands, what a move does to that, and what follows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from property.footprint import Footprint

__all__ = ("GO", "JUMP", "Moment", "Move", "Outcome", "Stand")

GO = "go"


@dataclass(frozen=True, slots=True)
class Move:
    """Who moves, and what becomes of the call."""

    actor: str
    fate: str = GO

    @classmethod
    def parsed(cls, text: str) -> "Move":
        """Return the move that prints as `text`."""
        actor, _, fate = text.partition("!")
        return cls(actor, fate or GO)

    @property
    def is_fault(self) -> bool:
        return self.fate != GO

    def __str__(self) -> str:
        return f"{self.actor}!{self.fate}" if self.is_fault else self.actor


JUMP = Move("clock", "jump")
"""The clock jumps past every lease: a fault like the others."""


@dataclass(frozen=True, slots=True)
class Stand:
    """Where somebody stands.

    Attributes:
        state: what its program goes on from.
        moves: what it can do next, the undisturbed move first; nothing when it has ended.
    """

    state: object
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a move leads to.

    Attributes:
        stand: where the one who moved stands now; None if it was the clock.
        ending: what tells the world now from others.
        footprint: what the move touched.
    """

    stand: Stand | None
    ending: int
    footprint: Footprint


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment of a schedule.

    Attributes:
        faults: how many may strike from now on.
        stands: where everybody stands, by name.
        ending: what tells the world now from others.
    """

    faults: int
    stands: Mapping[str, Stand]
    ending: int

    def state(self) -> int:
        """Return what all that can still happen depends on, and what the judge will say of it."""
        states = tuple(stand.state for stand in self.stands.values())
        return hash((self.faults, states, self.ending))

    def options(self) -> list[Move]:
        """Return the moves that are possible; none when everybody has ended."""
        waiting = [stand.moves for stand in self.stands.values() if stand.moves]
        if not self.faults:
            return [moves[0] for moves in waiting]
        return [move for moves in waiting for move in moves] + [JUMP] * bool(waiting)

    def cause(self, move: Move) -> object:
        """Return what the outcome of this move depends on: not on what others have met."""
        stand = self.stands.get(move.actor)
        return move, stand and stand.state, self.ending

    def after(self, move: Move, outcome: Outcome) -> "Moment":
        stands = dict(self.stands)
        if outcome.stand is not None:
            stands[move.actor] = outcome.stand
        faults = self.faults - move.is_fault
        return replace(self, faults=faults, stands=stands, ending=outcome.ending)
