"""What the transport promises, in lists and numbers: a model that a reader can believe.

It knows one step after the other, so nothing of documents, versions or races; those belong to the
interleavings. A message is known by its event, a number that is unique in the run.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from fairlane import Duplicate, Lease, TransportStats

__all__ = ("NEW_GROUP_CREDIT", "Group", "Letter", "Message", "Model")

NEW_GROUP_CREDIT = 60.0
GRACE = 5.0
"""Seconds that repair leaves to a publisher."""

Due = tuple[int, float]
"""What groups are sorted by: their priority, if that counts, and when they were due."""

LAST: Due = (1, math.inf)


@dataclass(frozen=True, slots=True)
class Message:
    event: int
    published_at: float
    priority: int
    message_id: str | None = None


@dataclass(slots=True)
class Group:
    """A group that is claimable from `free_at` on: its lease ends then, or its delay, or it waits.

    `is_repeated`: a publish was repeated since the last claim. The settlement of the last message
    cannot know that the repeat brought nothing new, so it lets the group stand, empty, until a
    claim comes by.
    """

    priority: int
    free_at: float
    messages: list[Message]
    holder: str | None = None
    attempts: int = 0
    interrupted: int = 0
    is_repeated: bool = False


@dataclass(frozen=True, slots=True)
class Letter:
    seq: int
    group_id: str
    event: int
    priority: int
    attempts: int
    interrupted: int
    reason: str


@dataclass(slots=True)
class Model:
    """`strays` are messages whose publisher died before it made their group claimable."""

    clock: Callable[[], float]
    partition_of: Callable[[str], int] = lambda _: 0
    groups: dict[str, Group] = field(default_factory=dict)
    strays: dict[str, list[Message]] = field(default_factory=dict)
    letters: dict[int, Letter] = field(default_factory=dict)
    _epochs: dict[str, int] = field(default_factory=dict)
    _maybe_gone: set[str] = field(default_factory=set)

    def messages(self, group_id: str) -> list[Message]:
        group = self.groups.get(group_id)
        return group.messages if group else self.strays.get(group_id, [])

    def message_ids(self) -> dict[str, tuple[str, Message]]:
        """Return group and message for each `message_id` in use."""
        return {
            message.message_id: (group_id, message)
            for group_id, message in self._all_messages()
            if message.message_id is not None
        }

    def publish(
        self, group_id: str, event: int, priority: int = 0, message_id: str | None = None
    ) -> int:
        """Return the event that the publish stands for: that of the earlier one if it repeats it.

        Raises Duplicate: another group uses the `message_id`.
        """
        earlier = self.message_ids().get(message_id or "")
        if earlier and earlier[0] != group_id:
            raise Duplicate(message_id)
        group = self._ready(group_id, priority, free_at=self.clock() - NEW_GROUP_CREDIT)
        if earlier:
            group.is_repeated = True
            return earlier[1].event
        group.messages.append(Message(event, self.clock(), priority, message_id))
        return event

    def half_publish(
        self, group_id: str, event: int, priority: int, message_id: str | None
    ) -> None:
        """Store a message of a group that has none, and die."""
        message = Message(event, self.clock(), priority, message_id)
        self.strays.setdefault(group_id, []).append(message)

    def claim(self, min_priority: int = 0, order: str = "fair") -> set[str]:
        """Return the groups of which a claim returns one; the choice among them is free.

        Round robin is exact within a partition: the design serves the group first that has been
        claimable for longest, new groups as if they had been for `NEW_GROUP_CREDIT` seconds. It
        promises nothing between groups with equal times, nor between partitions.
        `order="priority"` looks at the priority before that.
        """
        line = self._line(min_priority, order)
        first: dict[int, Due] = {}
        for name, due in line.items():
            if self.groups[name].messages:
                place = self.partition_of(name)
                first[place] = min(due, first.get(place, LAST))
        self._pass_by(line, first)
        return {
            name
            for name in line.keys() & self.groups.keys()
            if self.groups[name].messages and line[name] == first[self.partition_of(name)]
        }

    def _pass_by(self, line: Mapping[str, Due], first: Mapping[int, Due]) -> None:
        """Remove the empty groups that a claim meets on its way to the first one of a partition.

        It meets all if it finds nothing. If it has a choice nobody can say which it met, nor ever
        whether it met one that was due at the same time.
        """
        for name in [name for name in line if not self.groups[name].messages]:
            place = self.partition_of(name)
            is_met = line[name] < first.get(place, LAST)
            if not first or (is_met and first.keys() == {place}):
                del self.groups[name]
            elif line[name] <= first.get(place, LAST):
                self._maybe_gone.add(name)

    def has_empty(self, min_priority: int = 0) -> bool:
        """Whether a claim may meet a group that has nothing to deliver."""
        return any(not self.groups[name].messages for name in self._line(min_priority, "fair"))

    def _line(self, min_priority: int, order: str) -> dict[str, Due]:
        """Return the groups that are due, and what they are sorted by."""
        return {
            name: (-group.priority if order == "priority" else 0, group.free_at)
            for name, group in self.groups.items()
            if group.priority >= min_priority and group.free_at <= self.clock()
        }

    def lease(self, group_id: str, token: str, visibility: float) -> Group:
        group = self.groups[group_id]
        group.holder, group.free_at = token, self.clock() + visibility
        group.attempts += 1
        group.is_repeated = False
        return group

    def forget_empty(self, group_ids: Set[str]) -> None:
        """Learn which of the groups that a claim may have met it did meet."""
        for name in self._maybe_gone & group_ids:
            del self.groups[name]
        self._maybe_gone.clear()

    def is_new_epoch(self, group_id: str, epoch: int) -> bool:
        """Return whether the epoch is above all that were handed out, in all lives of the group."""
        last, self._epochs[group_id] = self._epochs.get(group_id, 0), epoch
        return epoch > last

    def ack(self, lease: Lease[int]) -> bool:
        """Settlements return whether the lease was held: until another one, however late."""
        if group := self._held(lease):
            self._drop_head(lease.group_id, group)
        return group is not None

    def nack(self, lease: Lease[int], delay: float = 0.0) -> bool:
        if group := self._held(lease):
            group.holder, group.free_at = None, self.clock() + delay
        return group is not None

    def release(self, lease: Lease[int]) -> bool:
        if group := self._held(lease):
            group.holder, group.free_at = None, self.clock()
            group.attempts -= 1
        return group is not None

    def interrupt(self, lease: Lease[int]) -> bool:
        """Release it, as a worker does that stops its handler."""
        if group := self._held(lease):
            group.interrupted += 1
        return self.release(lease)

    def extend(self, lease: Lease[int], visibility: float) -> bool:
        if group := self._held(lease):
            group.free_at = max(group.free_at, self.clock() + visibility)
        return group is not None

    def dead_letter(self, lease: Lease[int], reason: str) -> bool:
        if group := self._held(lease):
            self.letters[lease.seq] = Letter(
                lease.seq,
                lease.group_id,
                group.messages[0].event,
                group.priority,
                group.attempts,
                group.interrupted,
                reason,
            )
            self._drop_head(lease.group_id, group)
        return group is not None

    def redrive(self, group_id: str | None = None, seq: int | None = None) -> list[Letter]:
        """Move dead letters to the ends of their groups, oldest first."""
        chosen = [
            letter
            for _, letter in sorted(self.letters.items())
            if group_id in (None, letter.group_id) and seq in (None, letter.seq)
        ]
        for letter in chosen:
            del self.letters[letter.seq]
            group = self._ready(letter.group_id, letter.priority, free_at=self.clock())
            group.messages.append(Message(letter.event, self.clock(), letter.priority))
        return chosen

    def repair(self) -> int:
        """Make groups claimable whose publisher died a while ago; return how many."""
        due = [name for name, (first, *_) in self.strays.items() if self._age(first) >= GRACE]
        for name in due:
            self._ready(name, self.strays[name][0].priority, free_at=0.0)
        return len(due)

    def clear(self) -> None:
        """Forget all but the epochs, which go on growing."""
        self.groups.clear()
        self.strays.clear()
        self.letters.clear()

    def stats(self) -> TransportStats:
        states = Counter(self._state(group) for group in self.groups.values())
        ready = [group for group in self.groups.values() if self._state(group) == "ready"]
        ages = [self._age(message) for _, message in self._all_messages()]
        return TransportStats(
            groups=len(self.groups),
            ready=states["ready"],
            leased=states["leased"],
            parked=states["parked"],
            stopped=0,
            messages=len(ages),
            dead=len(self.letters),
            oldest_age=max(ages, default=None),
            ready_by_priority=Counter(group.priority for group in ready),
        )

    def _ready(self, group_id: str, priority: int, *, free_at: float) -> Group:
        """Return the group as it is, or a new one: only the first publish fixes anything."""
        if group_id not in self.groups:
            self.groups[group_id] = Group(priority, free_at, self.strays.pop(group_id, []))
        return self.groups[group_id]

    def _held(self, lease: Lease[int]) -> Group | None:
        group = self.groups.get(lease.group_id)
        return group if group and group.holder == lease.token else None

    def _drop_head(self, group_id: str, group: Group) -> None:
        del group.messages[0]
        group.holder, group.free_at = None, self.clock()
        group.attempts = group.interrupted = 0
        if not group.messages and not group.is_repeated:
            del self.groups[group_id]

    def _state(self, group: Group) -> str:
        if group.free_at <= self.clock():
            return "ready"
        return "parked" if group.holder is None else "leased"

    def _age(self, message: Message) -> float:
        return self.clock() - message.published_at

    def _all_messages(self) -> Iterator[tuple[str, Message]]:
        for name in (*self.groups, *self.strays):
            for message in self.messages(name):
                yield name, message
