"""Random programs for the transport and its model.

After every step the groups, the statistics and the locks are those of the model (I3, I5). Each
delivery is the head that the model holds (I1, I2), so a settled message never comes again. At the
end everything is drained, which must bring exactly what the model still holds (I4, I5).
"""

import math
import sys

from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

from fairlane import Lease
from fairlane.lease.commands import Order
from property.comparison import Comparison, Move, Subject

__all__ = ("TransportMachine",)

Leases = MultipleResults[Lease[int]]

GROUPS = ("g", "h", "m", "i", "n")
"""Of three partitions each has some."""
NAMED = (("g", "m1"), ("g", "m1"), ("g", "m1"), ("h", "m2"), ("h", "m2"), ("m", "m1"))
"""Groups and message ids. Mostly a repeat goes to the same group, as it should."""
MOVES: tuple[Move, ...] = (
    ("ack",),
    ("nack",),
    ("nack", 20.0),
    ("nack", 60.0),
    ("release",),
    ("interrupt",),
    ("dead_letter", "because"),
    ("dead_letter", "poison"),
)
BACKLOG = 10
"""With so many messages no more come by the dozen: groups shall drain as well."""

groups = st.sampled_from(GROUPS)
priorities = st.sampled_from((0, 2, 4))
floors = st.sampled_from((0, 0, 0, 2, 4))
visibilities = st.sampled_from((10.0, 30.0))
moves = st.sampled_from(MOVES)
moves_of_many = st.sampled_from([move for move in MOVES if move[0] in ("ack", "nack")])
waits = st.sampled_from((0.25, 1.0, 5.0, 10.0, 30.0, 60.0, 90.0))
"""Small ones, to the end of a visibility or a delay, past it. Their sums are exact."""
orders: st.SearchStrategy[Order] = st.sampled_from(("fair", "fair", "priority"))


class TransportMachine(RuleBasedStateMachine):
    leases: Bundle[Lease[int]] = Bundle("leases")
    """Leases that were not settled yet: live, expired, or expired and claimed by another."""
    spent: Bundle[Lease[int]] = Bundle("spent")
    """Leases that were settled, or refused."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.both = Comparison(subject)
        self.model = self.both.model

    @rule(group_id=groups, priority=priorities)
    def publish(self, group_id: str, priority: int) -> None:
        self.both.publish(group_id, priority)

    @rule(named=st.sampled_from(NAMED), priority=priorities)
    def publish_with_id(self, named: tuple[str, str], priority: int) -> None:
        group_id, message_id = named
        self.both.publish(group_id, priority, message_id)

    @precondition(lambda self: self.model.stats().messages < BACKLOG)
    @rule(messages=st.lists(st.tuples(groups, priorities), min_size=1, max_size=4))
    def publish_many(self, messages: list[tuple[str, int]]) -> None:
        self.both.publish_many(messages)

    @precondition(lambda self: self.free_groups() and len(self.model.strays) < 2)
    @rule(data=st.data(), priority=priorities)
    def half_publish(self, data: st.DataObject, priority: int) -> None:
        group_id = data.draw(st.sampled_from(self.free_groups()), label="group_id")
        message_id = dict(NAMED).get(group_id)
        is_used = message_id in self.model.message_ids()
        self.both.half_publish(group_id, priority, None if is_used else message_id)

    @rule(target=leases, visibility=visibilities, min_priority=floors, order=orders)
    def claim(self, visibility: float, min_priority: int, order: Order) -> Leases:
        lease = self.both.claim(visibility, min_priority, order)
        return multiple() if lease is None else multiple(lease)

    @rule(
        target=leases,
        n=st.integers(1, 4),
        visibility=visibilities,
        min_priority=floors,
        order=orders,
    )
    def claim_many(self, n: int, visibility: float, min_priority: int, order: Order) -> Leases:
        return multiple(*self.both.claim_many(n, visibility, min_priority, order))

    @rule(
        target=spent,
        held=st.lists(consumes(leases), min_size=1, max_size=4),
        settled=st.lists(spent, max_size=1),
        move=moves_of_many,
    )
    def settle_many(self, held: list[Lease[int]], settled: list[Lease[int]], move: Move) -> Leases:
        self.both.settle_many([*settled, *held], move)
        return multiple(*held)

    @rule(target=spent)
    def claim_and_ack(self) -> Leases:
        return self._claim_and_settle(("ack",))

    @rule(target=spent, move=moves)
    def claim_and_settle(self, move: Move) -> Leases:
        return self._claim_and_settle(move)

    @rule(target=spent, lease=consumes(leases), move=moves)
    def settle(self, lease: Lease[int], move: Move) -> Lease[int]:
        self.both.settle(lease, move)
        return lease

    @rule(target=leases, lease=consumes(leases), visibility=visibilities)
    def extend(self, lease: Lease[int], visibility: float) -> Lease[int]:
        return self.both.extend(lease, visibility) or lease

    @rule(lease=spent, move=moves)
    def settle_again(self, lease: Lease[int], move: Move) -> None:
        assert not self.both.settle(lease, move)

    @rule(lease=spent, visibility=visibilities)
    def extend_settled(self, lease: Lease[int], visibility: float) -> None:
        assert self.both.extend(lease, visibility) is None

    @precondition(lambda self: self.model.letters)
    @rule(group_id=st.sampled_from((None, *GROUPS)))
    def redrive(self, group_id: str | None) -> None:
        self.both.redrive(group_id=group_id)

    @precondition(lambda self: self.model.letters)
    @rule(data=st.data())
    def redrive_one(self, data: st.DataObject) -> None:
        self.both.redrive(seq=data.draw(st.sampled_from(sorted(self.model.letters)), label="seq"))

    @rule(seconds=waits)
    def wait(self, seconds: float) -> None:
        self.both.clock.advance(seconds)

    @precondition(lambda self: self.both.next_due() < math.inf)
    @rule()
    def wait_until_next_group_is_due(self) -> None:
        self.both.clock.jump(self.both.next_due())

    @rule(full=st.booleans())
    def repair(self, full: bool) -> None:
        self.both.repair(full=full)

    @precondition(lambda self: self.model.letters and len(self.model.groups) >= 3)
    @rule()
    def clear(self) -> None:
        self.both.clear()

    @rule(group_id=groups, limit=st.sampled_from((1, 3, 100)))
    def look(self, group_id: str, limit: int) -> None:
        self.both.peek(group_id, limit)
        self.both.dead_letters(group_id)

    @invariant()
    def stored_is_what_the_model_holds(self) -> None:
        self.both.stored()

    def teardown(self) -> None:
        if sys.exception() is None:  # else the run has failed, and draining would hide how
            self.both.drain()

    def free_groups(self) -> list[str]:
        return [name for name in GROUPS if name not in self.model.groups]

    def _claim_and_settle(self, move: Move) -> Leases:
        lease = self.both.claim()
        if lease is None:
            return multiple()
        assert self.both.settle(lease, move)
        return multiple(lease)
