"""What the participants of a run saw, and the invariants that it must satisfy.

I1  a message that was confirmed as settled was delivered, and is never delivered again
I2  first deliveries in a group are in publish order: A returned before B was called, A is first
I3  there are never two unexpired leases on one group, and a lease settles at most once
I4  nothing is stranded: after a drain every published message is settled or a dead letter
I5  no message and no lock is left behind (`World.check`)

A message is known by its event, a number that is unique in the run.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

from fairlane import DeadLetter, Lease, LeaseLost
from property.footprint import Footprint
from property.story import Holding, Story

__all__ = ("Log",)

FINAL = ("ack", "dead_letter")


class Log:
    """Args:
    clock: by which leases run out. Without it no refusal of a settlement is judged.
    """

    def __init__(self, clock: Callable[[], float] = lambda: math.inf) -> None:
        self._clock = clock
        self.lines: list[str] = []
        self.violations: list[str] = []
        self.stories: dict[int, Story] = {}
        self.footprint = Footprint()
        """What notes were made of since it was last replaced."""
        self._holdings: dict[str, Holding] = {}
        self._epochs: dict[str, int] = {}
        self.is_stopped_by_deaths = False
        """In each group all that were published before are acknowledged before a delivery."""
        self._redrives_at_work = 0
        self._tick = 0

    def publishing(self, group_id: str, publisher: str = "") -> int:
        """Note the call of a publish; return an event for it."""
        self._touch(reads=("publish returned",), writes=("publish called",))
        event = len(self.stories)
        called = self._note(f"publish {event} to {group_id}")
        self.stories[event] = Story(event, group_id, called, publisher=publisher)
        return event

    def publishing_many(self, group_ids: Iterable[str], publisher: str = "") -> list[int]:
        """Note the call of a publish of several messages; those of a group keep their order."""
        latest: dict[str, int] = {}
        events = []
        for group_id in group_ids:
            event = self.publishing(group_id, publisher)
            self.stories[event].after = latest.get(group_id)
            latest[group_id] = event
            events.append(event)
        return events

    def published(self, event: int, seq: int) -> None:
        self._touch(reads=("publish called",), writes=("publish returned",))
        self.stories[event].returned = self._note(f"published {event} as {seq}")
        self.stories[event].seqs.add(seq)

    def delivered(self, lease: Lease[Any], visibility: float) -> None:
        self._touch(reads=("delivery", "settlement"), writes=("delivery",))
        tick = self._note(
            f"delivered {lease.event}: seq {lease.seq} of {lease.group_id}, "
            f"attempt {lease.attempt}, epoch {lease.epoch}"
        )
        story = self.stories[lease.event]
        is_renumbered = lease.seq not in story.seqs
        if self._redrives_at_work and is_renumbered and "dead_letter" in story.tried:
            story.redrives += 1
            story.settled_by = None if story.settled_by == "dead_letter" else story.settled_by
        holding = Holding(lease, lease.expires_at - visibility, lease.expires_at)
        self._judge_delivery(story, holding)
        story.delivered.append(tick)
        story.seqs.add(lease.seq)
        self._holdings[lease.token] = holding
        self._epochs[lease.group_id] = max(lease.epoch, self._epochs.get(lease.group_id, 0))

    def settling(self, verb: str, lease: Lease[Any]) -> None:
        self._touch(reads=("delivery",), writes=("settlement",))
        self._note(f"{verb} {lease.event}")
        holding, story = self._holdings[lease.token], self.stories[lease.event]
        holding.is_live, holding.redrives = False, story.redrives
        if not holding.open:
            holding.is_late = lease.epoch < self._epochs[lease.group_id]
        holding.open += 1
        story.tried.append(verb)

    def settled(self, verb: str, lease: Lease[Any], is_accepted: bool) -> None:
        self._touch(reads=("delivery",), writes=("settlement",))
        self._note(f"{verb} {lease.event}: {is_accepted}")
        holding, story = self._holdings[lease.token], self.stories[lease.event]
        holding.open -= 1
        if not is_accepted:
            story.tried.remove(verb)
            self._judge_refusal(verb, holding)
            return
        if holding.settled_by:
            self.blame(f"I3 {lease.event} settled by {holding.settled_by}, then by {verb}")
        if holding.is_late:
            self.blame(f"I3 {lease.event} settled by {verb}, though its group had a new owner")
        holding.settled_by = verb
        is_redriven_since = story.redrives > holding.redrives
        if verb in FINAL and not is_redriven_since:
            if story.settled_by:
                self.blame(f"I1 {lease.event} settled by {story.settled_by}, then by {verb}")
            story.settled_by = verb

    def not_settled(self, verb: str, lease: Lease[Any]) -> None:
        """Note an error that says that nothing happened: the lease is held as before."""
        self._touch(reads=("delivery",), writes=("settlement",))
        self._note(f"{verb} {lease.event}: not applied")
        holding = self._holdings[lease.token]
        holding.open -= 1
        holding.is_live = not (holding.open or holding.settled_by)
        self.stories[lease.event].tried.remove(verb)

    def extended(self, lease: Lease[Any]) -> None:
        self._touch(reads=("delivery",), writes=("settlement",))
        self._note(f"extended {lease.event}")
        holding = self._holdings[lease.token]
        holding.expires_at = lease.expires_at
        if holding.settled_by:
            self.blame(f"I3 {lease.event} extended after {holding.settled_by}")

    def redriving(self) -> None:
        """Note the call of a redrive: what is a dead letter may be delivered again."""
        self._touch(reads=("delivery", "settlement"), writes=("settlement",))
        self._note("redrive")
        self._redrives_at_work += 1
        self._may_be_redriven()

    def redriven(self, number: int) -> None:
        """Note the return of a redrive. One that does not return may be completed by others."""
        self._touch(reads=("delivery", "settlement"), writes=("settlement",))
        self._note(f"redriven {number}")
        self._redrives_at_work -= 1
        self._may_be_redriven()

    def lost(self, error: LeaseLost) -> None:
        self._note(f"lease lost: {error}")

    def check(self, letters: Iterable[DeadLetter[Any]]) -> None:
        """Judge the run after its drain; raise with the whole log if anything is wrong."""
        dead = [letter.event for letter in letters]
        for event in {event for event in dead if dead.count(event) > 1}:
            self.blame(f"{event} is among the dead letters more than once")
        for story in self.stories.values():
            self._judge_end(story, is_dead=story.event in dead)
        self._judge_order()
        self.expect_none()

    def expect_published_are_settled(self) -> None:
        """Judge a drain without repair: what a publish returned for needs none."""
        for story in self.stories.values():
            if story.is_published and not (story.settled_by or {*story.tried} & {*FINAL}):
                self.blame(f"I4 {story.event} is stranded until repair")
        self.expect_none()

    def expect_none(self) -> None:
        if self.violations:
            raise AssertionError("\n".join((*self.violations, "log:", *self.lines)))

    def _may_be_redriven(self) -> None:
        for story in self.stories.values():
            if "dead_letter" in story.tried:
                story.redrives += 1
                story.settled_by = None if story.settled_by == "dead_letter" else story.settled_by

    def _judge_refusal(self, verb: str, holding: Holding) -> None:
        """A lease that nobody can have ended must not be refused."""
        if not (holding.settled_by or holding.open) and self._clock() < holding.expires_at:
            self.blame(f"{verb} of {holding.lease.event} refused while its lease was held")

    def _judge_delivery(self, story: Story, holding: Holding) -> None:
        lease = holding.lease
        self._judge_place(story, lease)
        if story.settled_by:
            self.blame(f"I1 {story.event} delivered after {story.settled_by} was confirmed")
        if len(story.seqs | {lease.seq}) > 1 + story.redrives:
            self.blame(f"{story.event} has the numbers {story.seqs | {lease.seq}}")
        if self.is_stopped_by_deaths:
            self._judge_stop(story)
        if lease.attempt < 1:
            self.blame(f"{story.event} delivered with attempt {lease.attempt}")
        if lease.epoch <= self._epochs.get(lease.group_id, 0):
            self.blame(f"epoch {lease.epoch} after {self._epochs[lease.group_id]}")
        for other in self._holdings.values():
            is_same_group = other.lease.group_id == lease.group_id
            if is_same_group and other.is_live and other.expires_at > holding.claimed_at:
                self.blame(f"I3 {story.event} delivered while {other.lease.event} is leased")

    def _judge_stop(self, story: Story) -> None:
        for other in self.stories.values():
            is_before = other.group_id == story.group_id and other.returned < story.called
            if is_before and other.delivered and "ack" not in other.tried:
                self.blame(f"I2 {story.event} delivered, though {other.event} stops its group")

    def _judge_place(self, story: Story, lease: Lease[Any]) -> None:
        if story.after is not None and not self.stories[story.after].delivered:
            self.blame(f"I2 {story.event} delivered before {story.after}, published by one call")
        if lease.group_id != story.group_id:
            self.blame(f"{story.event} of {story.group_id} delivered in {lease.group_id}")

    def _judge_end(self, story: Story, *, is_dead: bool) -> None:
        is_acked = story.settled_by == "ack"
        if is_acked and is_dead:
            self.blame(f"{story.event} was acked and is a dead letter")
        if story.settled_by == "dead_letter" and not is_dead:
            self.blame(f"I4 {story.event} was dead-lettered and is no dead letter")
        is_known = story.is_published or bool(story.delivered)
        if is_known and not (is_acked or is_dead or "ack" in story.tried):
            self.blame(f"I4 {story.event} is lost")

    def _judge_order(self) -> None:
        latest_call: dict[str, Story] = {}
        stories = [story for story in self.stories.values() if story.delivered]
        for story in sorted(stories, key=lambda story: story.delivered[0]):
            earlier = latest_call.setdefault(story.group_id, story)
            if story.returned < earlier.called:
                self.blame(f"I2 {earlier.event} delivered before {story.event}")
            if story.called > earlier.called:
                latest_call[story.group_id] = story

    def state(self) -> object:
        """Return what the judgement of all that may follow depends on.

        Of times only the order of publishes counts, and that of first deliveries.
        """
        stories = self.stories.values()
        first = sorted((each.delivered[0], each.event) for each in stories if each.delivered)
        return (
            tuple(self.violations),
            tuple(event for _, event in first),
            frozenset(
                (one.event, other.event)
                for one in stories
                for other in stories
                if one.returned < other.called
            ),
            tuple(each.state() for each in stories),
            tuple(sorted((token, each.state()) for token, each in self._holdings.items())),
            tuple(sorted(self._epochs.items())),
        )

    def _touch(self, *, reads: tuple[str, ...], writes: tuple[str, ...]) -> None:
        self.footprint.reads.update(("log", "*", topic) for topic in reads)
        self.footprint.writes.update(("log", "*", topic) for topic in writes)

    def blame(self, violation: str) -> None:
        self.violations.append(violation)
        self._note(f"!! {violation}")

    def _note(self, line: str) -> int:
        self._tick += 1
        self.lines.append(f"{self._tick:4} {line}")
        return self._tick
