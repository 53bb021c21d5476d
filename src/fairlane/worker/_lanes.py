"""How many slots of a pool work of which priority may have. Nothing here waits, reads or writes."""

from collections.abc import Mapping
from itertools import accumulate

from fairlane.checks import PRIORITIES

__all__ = ("Lanes",)


class Lanes:
    """Slots by floor, and how many are free. A slot of a floor is for work of at least that.

    Work has no slot of its own. What counts is, for each lane, how much is at work there and below:
    never more than these slots are, which holds if and only if each piece can have a slot that
    admits it. So urgent work leaves the slots that are open to all to the others as soon as one
    of its own is free, whichever it began in.

    `_room[i]` is what may still begin in the lanes up to the i-th, the lowest coming first.
    """

    def __init__(self, slots: Mapping[int, int]) -> None:
        self._floors = sorted(slots)
        self._room = list(accumulate(slots[floor] for floor in self._floors))
        self.total = self._room[-1]

    @property
    def lowest(self) -> int:
        return self._floors[0]

    @property
    def reserved(self) -> tuple[int, ...]:
        """The floors above the lowest one."""
        return tuple(self._floors[1:])

    @property
    def open_floor(self) -> int | None:
        """The lowest floor with a free slot: whoever claims with it sees all that may begin."""
        return next((floor for floor in self._floors if self.free(floor) > 0), None)

    def free(self, floor: int) -> int:
        """Return how many can be claimed with this floor: all may be no more urgent than that."""
        return min(self._room[self._floors.index(floor) :])

    def take(self, floor: int, most: int) -> int:
        """Take up to `most` slots for a claim with this floor; return how many."""
        number = min(self.free(floor), most)
        self.give_back(floor, -number)
        return number

    def place(self, floor: int, priority: object) -> int:
        """Let a piece of work have one of the slots of its claim; return its lane.

        That is the highest lane that admits it; the slot is to be given back there. Work of odd
        priority, which strangers may have stored, is as urgent as its claim has asked for.
        """
        urgency = max(floor, PRIORITIES.index(priority)) if priority in PRIORITIES else floor
        lane = max(each for each in self._floors if each <= urgency)
        self.give_back(floor)
        self.give_back(lane, -1)
        return lane

    def give_back(self, floor: int, number: int = 1) -> None:
        for index in range(self._floors.index(floor), len(self._room)):
            self._room[index] += number
