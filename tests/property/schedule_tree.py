"""The tree of all schedules of a scene, walked depth first, without what has been walked already.

A schedule is a sequence of moves. A move lets one participant go on from a driver call to its next
one, or strikes it there with a fault, or lets the clock jump. Two things are not walked again:

*   Two moves of different participants that touch nothing in common may change places, so only one
    of the two orders is walked. These are sleep sets: when all schedules that go on with move A
    have been walked and B is tried in its stead, A sleeps until something that it meets has moved.
*   A state that has been reached before, by other moves, is left again with those moves only that
    slept each time before.

Both, and why they may be used together: P. Godefroid, Partial-Order Methods for the Verification of
Concurrent Systems, 1996, chapters 5 and 6.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from property.footprint import Footprint
from property.moments import Moment, Move, Outcome

__all__ = ("Arrival", "Node", "Tree")

NEED_A_WRITE = {"crash_after", "cancel_after", "lose_reply"}
"""Faults that do what another one does, where nothing was written."""


class Arrival(Enum):
    """Where a move has led."""

    ON_THE_WAY = auto()
    AT_THE_END = auto()
    WHERE_ALL_IS_KNOWN = auto()
    """Every way to go on from there has been walked already."""


@dataclass(slots=True)
class Node:
    """A state on the way: the moves that are possible, and those that are dealt with."""

    moment: Moment
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
        root: the moment before the first move.
        is_pruned: leave out what has been walked already. Without it every order is played.
    """

    def __init__(self, root: Moment, *, is_pruned: bool = True) -> None:
        self._is_pruned = is_pruned
        self._path = [Node(root, root.options(), {}, is_pruned=is_pruned)]
        self._slept: dict[int, set[Move]] = {}
        self._known: dict[object, Outcome] = {}

    @property
    def moves(self) -> list[Move]:
        """The schedule as far as it has come, with the move that is next."""
        return [node.move for node in self._path if node.move is not None]

    def go_on(self) -> bool:
        """Turn to the next move to make; return whether there is one."""
        while self._path and not self._path[-1].choose():
            self._path.pop()
        return bool(self._path)

    def foreseen(self) -> Outcome | None:
        """Return what the next move leads to, if that is known."""
        return self._known.get(self._cause()) if self._is_pruned else None

    def arrive(self, outcome: Outcome) -> Arrival:
        """Note what the next move has led to, and go there if there is more to walk."""
        node = self._path[-1]
        assert node.move is not None
        self._learn(outcome)
        asleep = node.asleep_after(outcome.footprint)
        node.made[node.move] = outcome.footprint
        moment = node.moment.after(node.move, outcome)
        options = moment.options()
        if not options:
            return Arrival.AT_THE_END
        child = Node(moment, options, asleep if self._is_pruned else {}, is_pruned=self._is_pruned)
        if self._is_pruned:
            self._leave_out_known(child)
        if not child.choose():
            return Arrival.WHERE_ALL_IS_KNOWN
        self._path.append(child)
        return Arrival.ON_THE_WAY

    def _learn(self, outcome: Outcome) -> None:
        """Remember what the next move leads to from such a moment."""
        if self._is_pruned:
            self._known[self._cause()] = outcome

    def _cause(self) -> object:
        node = self._path[-1]
        assert node.move is not None
        return node.moment.cause(node.move)

    def _leave_out_known(self, node: Node) -> None:
        state = node.moment.state()
        slept = self._slept.get(state)
        if slept is not None:
            node.options = [move for move in node.options if move in slept]
            node.asleep = {move: seen for move, seen in node.asleep.items() if move in slept}
        self._slept[state] = set(node.asleep)
