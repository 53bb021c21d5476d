"""What the participants of a run saw of jobs, and the rules that it must satisfy.

J1  there are never two holders of a job whose leases last, and a lease settles at most once
J2  a job ends once: as done or failed, cancelled, or replaced; then it is not started again, unless
    it is redriven; what an enqueue has skipped or refused never starts
J3  the attempts of a job are its starts (`JobStory.attempts`), and never more than it may have
J4  nothing is stuck: an hour after all workers have gone one claimer ends every job that is left
J5  two jobs of one type with one unique key are never both alive
J6  a tick of a recurring job fires once

A job is known by its payload, which is unique in the run; a tick by its job and moment.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fairlane import Enqueued, Job
from property.job_record import Record
from property.job_stories import Stories
from property.job_story import JobHolding, JobStory, name_in_store, name_of
from property.job_verdicts import at_the_end, on_start

__all__ = ("JobLog",)

FINAL = {"ack": "done", "fail": "failed", "nack": "failed", "fire": "fired"}
"""What may end a job, and as what. A nack does so where no attempt is left."""


class JobLog(Record):
    def __init__(self, clock: Callable[[], float], *, is_kept: bool) -> None:
        super().__init__()
        self._is_kept = is_kept
        self.stories = Stories()
        self.removed: set[str] = set()
        """Recurring jobs whose removal was called: their leases may be lost at any time."""
        self.created: set[str] = set()
        """Recurring jobs of which it is known that they are stored."""
        self.defined: dict[str, list[object]] = {}
        """Of recurring jobs the schedules of which one must be stored."""
        self._clock = clock
        self._holdings: dict[str, JobHolding] = {}
        self._epochs: dict[str, int] = {}
        self._redrives_at_work = 0
        self._cancels: Counter[str] = Counter()
        """Cancellations of which it is not known what they have done, by the job's id."""

    def enqueueing(self, by: str, key: str | None, on_duplicate: str) -> str:
        """Note the call of an enqueue; return an event for it, which is to be the payload."""
        self.touch(reads=("stored",), writes=("called",))
        story = self.stories.begin(by, key)
        self.stories.meet(story, is_replacing=on_duplicate == "replace")
        self.note(f"enqueue {story.name} as {key}")
        return str(story.name)

    def enqueued(self, event: object, told: Enqueued) -> None:
        """Note what became of it: it is new, or in the place of another one, or was skipped."""
        self.touch(reads=("called", "delivery", "settlement"), writes=("stored", "settlement"))
        self.note(f"enqueued {event}: {told}")
        story = self.stories[event]
        story.fate = "stored" if told.created or told.replaced else "refused"
        if story.fate == "stored":
            story.job_id = told.id
            story.tried["cancel"] += self._cancels[told.id]
        if told.created:
            self._judge_key(story)
        elif told.replaced:
            self._replaced(story)
        elif not story.may_meet:
            self.blame(f"J5 {event} was skipped, though no job had its key")

    def not_enqueued(self, event: object, fate: str) -> None:
        """Note an error: "refused" if nothing was stored for certain, or "unknown"."""
        self.touch(reads=("called",), writes=("stored",))
        self.note(f"enqueue {event}: {fate}")
        self.stories[event].fate = fate

    def replace_is_over(self, event: object) -> None:
        """Note that an enqueue is over of which it is known what it has replaced."""
        self.touch(reads=(), writes=("settlement",))
        story = self.stories[event]
        if story.may_replace:
            story.may_replace = False
            self.stories.forget_try(self.stories.rivals(story), "replace")

    def leased(self, name: object, token: str) -> None:
        """Note that the store has a new lease; nobody need know of it yet."""
        self.stories[name].unseen.add(token)

    def unseen(self, by: str) -> frozenset[str]:
        """Return the leases of this claimer that were not handed out."""
        tokens = {token for story in self.stories for token in story.unseen}
        return frozenset(token for token in tokens if token.startswith(f"{by}:"))

    def begun_anew(self, name: object) -> None:
        """Note that a job that had ended is alive in the store."""
        story = self.stories[name]
        if not story.may_restart:
            self.blame(f"J2 {name} lives again after it was {story.ended_by}")
        story.restart()

    def used_up(self, name: object) -> None:
        """Note that a job has failed in the store, and had no attempt left."""
        self.stories[name].is_used_up = True
        self.stories[name].may_restart |= self._redrives_at_work > 0

    def overtaken(self, name: object, token: str) -> None:
        """Note that somebody else went on with a job whose lease had run out.

        If its claimer does not know of it yet it comes too late to give it back.
        """
        story = self.stories[name]
        story.overtaken += token in story.unseen
        story.unseen.discard(token)

    def nothing_kept(self, tokens: frozenset[str]) -> None:
        """Note the return of a claim that was not disturbed: none of these may count as a start."""
        for story in self.stories:
            story.unseen -= tokens

    def delivered(self, job: Job, lease: float) -> None:
        self.touch(reads=("delivery", "settlement", "stored"), writes=("delivery",))
        self.note(f"started {name_of(job)}: attempt {job.attempts}, epoch {job.epoch}")
        until = job.available_at or 0.0
        story = self.stories[name_of(job)]
        story.unseen.discard(job.token or "")
        if story.may_restart and story.ended_by:  # its end was told after it had been redriven
            story.ended_by, story.may_restart = None, False
        rivals = [each for each in self._holdings.values() if each.job.id == job.id]
        epoch = self._epochs.get(job.id, 0)
        self.blame_all(on_start(story, job, rivals, epoch=epoch, claimed_at=until - lease))
        story.starts += 1
        story.job_id = job.id
        self._holdings[job.token or ""] = JobHolding(job, story, until)
        self._epochs[job.id] = max(job.epoch, self._epochs.get(job.id, 0))

    def settling(self, verb: str, job: Job) -> None:
        self.touch(reads=("delivery", "settlement"), writes=("settlement",))
        self.note(f"{verb} {name_of(job)}")
        holding = self._holdings[job.token or ""]
        holding.is_live = False
        if not holding.open:
            is_ended = holding.story.ended_by is not None
            holding.is_late = is_ended or job.epoch < self._epochs[job.id]
        holding.open += 1
        holding.story.unsure += verb == "release"
        if verb in FINAL:
            holding.story.tried[verb] += 1
            holding.story.may_restart |= self._redrives_at_work > 0

    def settled(self, verb: str, job: Job, *, is_accepted: bool, is_final: bool) -> None:
        self.touch(reads=("delivery",), writes=("settlement",))
        self.note(f"{verb} {name_of(job)}: {is_accepted}")
        holding = self._closed(verb, job)
        if not is_accepted:
            is_over = holding.until <= self._clock() or job.id in self.removed
            if not (is_over or holding.open or holding.settled_by):
                self.blame(f"J1 {verb} of {name_of(job)} refused while its lease was held")
            return
        if holding.settled_by:
            self.blame(f"J1 {name_of(job)} settled by {holding.settled_by}, then by {verb}")
        if holding.is_late:
            self.blame(f"J1 {name_of(job)} settled by {verb}, though it was another's, or over")
        holding.settled_by = verb
        holding.story.starts -= verb == "release"
        if is_final:
            self._end(holding.story, FINAL[verb])

    def not_settled(self, verb: str, job: Job) -> None:
        """Note an error that says that nothing happened: the job is held as before."""
        self.touch(reads=("delivery",), writes=("settlement",))
        self.note(f"{verb} {name_of(job)}: not applied")
        holding = self._closed(verb, job)
        holding.is_live = not (holding.open or holding.settled_by)

    def extended(self, job: Job) -> None:
        self.touch(reads=("delivery",), writes=("settlement",))
        self.note(f"extended {name_of(job)}")
        holding = self._holdings[job.token or ""]
        holding.until = job.available_at or 0.0
        if holding.settled_by:
            self.blame(f"J1 {name_of(job)} extended after {holding.settled_by}")

    def cancelling(self, key: str) -> None:
        self.touch(reads=(), writes=("settlement",))
        self._cancels[key] += 1
        self.stories.note_try(self.stories.of(key), "cancel")

    def cancelled(self, key: str, *, is_cancelled: bool) -> None:
        """Note the return of a cancellation, or an error that says that nothing happened."""
        self.touch(reads=("delivery", "settlement"), writes=("settlement",))
        self.note(f"cancel {key}: {is_cancelled}")
        self._cancels[key] -= 1
        self.stories.forget_try(self.stories.of(key), "cancel")
        if is_cancelled:
            self._expect_free(key, "cancelled")
            for story in self.stories.of(key):
                if story.ended_by != "replaced":
                    self._end(story, "cancelled")

    def removing(self, key: str) -> None:
        self.touch(reads=(), writes=("settlement",))
        self.removed.add(key)

    def defining(self, name: str, schedule: object) -> None:
        self.touch(reads=(), writes=("definition",))
        self.defined[name] = [*self.defined.get(name, ()), schedule]

    def has_defined(self, name: str, schedule: object) -> None:
        """Note the return of a definition: those that had returned before are over."""
        self.touch(reads=(), writes=("definition",))
        self.defined[name] = [schedule]
        self.created.add(f"recurring:{name}")

    def redriving(self) -> None:
        self.touch(reads=("delivery", "settlement"), writes=("settlement",))
        self._redrives_at_work += 1
        self.stories.may_be_redriven()

    def redriven(self) -> None:
        self.touch(reads=("delivery", "settlement"), writes=("settlement",))
        self._redrives_at_work -= 1
        self.stories.may_be_redriven()

    def check(self, documents: Iterable[Mapping[str, Any]]) -> None:
        """Judge the run after its drain; raise with the whole log if anything is wrong."""
        stored = {name_in_store(each): each for each in documents}
        for story in self.stories:
            if isinstance(story.name, str):
                self.blame_all(at_the_end(story, stored.get(story.name), is_kept=self._is_kept))
        self.expect_none()

    def state(self) -> object:
        """Return what the judgement of all that may follow depends on."""
        return (
            tuple(self.violations),
            self.stories.state(),
            tuple(sorted((token, each.state()) for token, each in self._holdings.items())),
            tuple(sorted(self._epochs.items())),
            frozenset(self.removed),
            frozenset(self.created),
            tuple(sorted((name, str(each)) for name, each in self.defined.items())),
            self._redrives_at_work,
            tuple(sorted((+self._cancels).items())),
        )

    def _closed(self, verb: str, job: Job) -> JobHolding:
        holding = self._holdings[job.token or ""]
        holding.open -= 1
        holding.story.unsure -= verb == "release"
        holding.story.tried[verb] -= verb in FINAL
        return holding

    def _end(self, story: JobStory, how: str) -> None:
        if story.ended_by:
            self.blame(f"J2 {story.name} {story.ended_by}, then {how}")
        story.ended_by = how
        story.may_restart = story.may_restart or self._redrives_at_work > 0

    def _replaced(self, story: JobStory) -> None:
        """Let those be over in whose place it is. Of two such calls at once either may be last."""
        self._expect_free(story.job_id, "replaced", but=story)
        for other in self.stories.of(story.job_id):
            if other is story or other.ended_by == "replaced":
                continue
            if other.name in story.before:
                self._end(other, "replaced")
            else:
                other.tried["replaced"] += 1
                story.tried["replaced"] += 1

    def _expect_free(self, job_id: str | None, what: str, but: JobStory | None = None) -> None:
        for holding in self._holdings.values():
            is_held = holding.is_live and holding.until > self._clock()
            if holding.job.id == job_id and is_held and holding.story is not but:
                self.blame(f"J1 {holding.story.name} {what} while somebody holds it")

    def _judge_key(self, story: JobStory) -> None:
        if story.key is None:
            return
        for other in self.stories.rivals(story):
            is_alive = other.fate == "stored" and not other.may_have_ended
            if is_alive and other.name in story.before:
                self.blame(f"J5 {story.name} was created beside {other.name}: both are {story.key}")
