"""The tree of all schedules of a scene, walked depth first, without what has been played already.

A schedule is a sequence of moves. A move lets one participant go on from a driver call to its next
one, or strikes it there with a fault, or lets the clock jump. Two things are not played again:

*   Two moves of different participants that touch nothing in common may change places, so only one
    of the two orders is played. These are sleep sets: when all schedules that go on with move A
    have been played and B is tried in its stead, A sleeps until something that it meets has moved.
*   A state that has been reached before, by other moves, is left again with those moves only that
    slept each time before.

Both, and why they may be used together: P. Godefroid, Partial-Order Methods for the Verification of
Concurrent Systems, 1996, chapters 5 and 6.
"""

from dataclasses import dataclass, field

from property.footprint import Footprint

__all__ = ("GO", "Move", "Node", "Redundant", "Tree")

GO = "go"
NEED_A_WRITE = {"crash_after", "cancel_after", "lose_reply"}
"""Faults that do what another one does, where nothing was written."""


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


class Redundant(Exception):
    """Every way to go on from here has been played already."""


@dataclass(slots=True)
class Node:
    """A state on the way: the moves that are possible, and those that are dealt with."""

    options: list[Move]
    asleep: dict[Move, Footprint]
    is_pruned: bool = True
    made: dict[Move, Footprint] = field(default_factory=dict)
    move: Move | None = None

    def choose(self) -> bool:
        """Choose the next move to make; return whether there is one."""
        self.move = next((each for each in self.options if self._is_new(each)), None)
        return self.move is not None

    def asleep_after(self, footprint: Footprint) -> dict[Move, Footprint]:
        """Return the moves that need not be made after the present one: those it does not meet."""
        assert self.move is not None
        others = {
            move: seen
            for move, seen in (self.asleep | self.made).items()
            if move.actor != self.move.actor
        }
        return {move: seen for move, seen in others.items() if not seen.meets(footprint)}

    def _is_new(self, move: Move) -> bool:
        is_pointless = self.is_pruned and self._is_pointless(move)
        return not (move in self.made or move in self.asleep or is_pointless)

    def _is_pointless(self, move: Move) -> bool:
        undisturbed = Move(move.actor)
        known = self.made.get(undisturbed) or self.asleep.get(undisturbed)
        return move.fate in NEED_A_WRITE and known is not None and not known.is_write


class Tree:
    """Where the walk is, and what it knows.

    Args:
        is_pruned: leave out what has been played already. Without it every order is played.
    """

    def __init__(self, *, is_pruned: bool = True) -> None:
        self.path: list[Node] = []
        self._is_pruned = is_pruned
        self._slept: dict[int, set[Move]] = {}

    def arrive(self, state: int, options: list[Move], asleep: dict[Move, Footprint]) -> None:
        """Add a node for a new state at the end of the path; raise `Redundant` if it is old."""
        node = Node(options, asleep if self._is_pruned else {}, is_pruned=self._is_pruned)
        if self._is_pruned:
            self._leave_out_known(state, node)
        if not node.choose():
            raise Redundant
        self.path.append(node)

    def go_on(self) -> bool:
        """Turn to the next schedule; return whether there is one."""
        while self.path and not self.path[-1].choose():
            self.path.pop()
        return bool(self.path)

    def _leave_out_known(self, state: int, node: Node) -> None:
        slept = self._slept.get(state)
        if slept is not None:
            node.options = [move for move in node.options if move in slept]
            node.asleep = {move: seen for move, seen in node.asleep.items() if move in slept}
        self._slept[state] = set(node.asleep)
