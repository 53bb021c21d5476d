"""All that is known of the jobs of a run."""

from collections.abc import Iterable, Iterator

from property.job_story import JobStory

__all__ = ("Stories",)


class Stories:
    def __init__(self) -> None:
        self._stories: dict[object, JobStory] = {}

    def __iter__(self) -> Iterator[JobStory]:
        return iter(self._stories.values())

    def __getitem__(self, name: object) -> JobStory:
        """Return the story of a job; that of a tick begins when somebody comes to know of it."""
        return self._stories.setdefault(name, JobStory(name, fate="stored"))

    def begin(self, by: str, key: str | None) -> JobStory:
        """Return the story of what somebody asks to be enqueued, with a name of its own."""
        name = f"{by}.{sum(str(name).startswith(f'{by}.') for name in self._stories)}"
        stored = frozenset(each.name for each in self if each.fate == "stored")
        story = self._stories[name] = JobStory(name, key, before=stored)
        return story

    def of(self, job_id: str | None) -> list[JobStory]:
        """Return those that have, or had, the place of this job."""
        return [story for story in self if story.job_id == job_id]

    def rivals(self, story: JobStory) -> list[JobStory]:
        """Return the others that have the same unique key."""
        if story.key is None:
            return []
        return [each for each in self if each.key == story.key and each is not story]

    def meet(self, story: JobStory, *, is_replacing: bool) -> None:
        """Note what a new story and those of the same key may do to each other."""
        rivals = self.rivals(story)
        story.tried["replace"] += sum(each.may_replace for each in rivals)
        story.may_meet = any(not each.is_over for each in rivals)
        story.may_replace = is_replacing
        for each in rivals:
            each.may_meet = True
            each.tried["replace"] += is_replacing

    def may_be_redriven(self) -> None:
        """Note that what has failed may be given all its attempts again."""
        for story in self:
            may_have_failed = story.ended_by in (None, "failed") and story.may_have_ended
            story.may_restart = story.may_restart or may_have_failed
            story.may_meet = story.may_meet or story.fate == "called"

    def state(self) -> object:
        return tuple(sorted((str(name), each.state()) for name, each in self._stories.items()))

    @staticmethod
    def note_try(stories: Iterable[JobStory], what: str) -> None:
        """Note that they may be ended, from now on."""
        for story in stories:
            story.tried[what] += 1

    @staticmethod
    def forget_try(stories: Iterable[JobStory], what: str) -> None:
        """Note that a try is over, of which it is known what it has done."""
        for story in stories:
            story.tried[what] -= story.tried[what] > 0
