"""What is wrong with the start of a job, and with what is left of it: J1 to J4 of `JobLog`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fairlane import Job
from property.job_story import JobHolding, JobStory

__all__ = ("at_the_end", "on_start")

KEPT = ("done", "failed")


def on_start(
    story: JobStory, job: Job, rivals: Iterable[JobHolding], *, epoch: int, claimed_at: float
) -> Iterator[str]:
    """Yield what is wrong with a start that has just been handed out.

    Args:
        rivals: other leases of the job.
        epoch: the highest that was handed out.
    """
    if story.fate == "refused":
        yield f"J2 {story.name} started, which was never stored"
    if story.ended_by:
        yield f"J2 {story.name} started again after it was {story.ended_by}"
    if job.epoch <= epoch:
        yield f"J1 epoch {job.epoch} after {epoch}"
    if any(each.is_live and each.until > claimed_at for each in rivals):
        yield f"J1 {story.name} started while another's lease of it lasts"
    before = job.attempts - 1
    if before not in story.attempts() or job.attempts > job.max_attempts:
        yield (
            f"J3 {story.name} started with attempt {job.attempts} of {job.max_attempts}, "
            f"where the earlier ones are {story.attempts()}"
        )


def at_the_end(
    story: JobStory, document: Mapping[str, Any] | None, *, is_kept: bool
) -> Iterator[str]:
    """Yield what is wrong with what is stored of a job when all has been worked off.

    `is_kept`: jobs that are done, or have failed, are there still.
    """
    if document is None:
        is_over = story.ended_by is not None or story.tried.total() > 0
        is_gone = is_over and not (is_kept and story.ended_by in KEPT)
        if story.fate == "stored" and not is_gone:
            yield f"J4 {story.name} is lost, having ended as {story.ended_by}"
        return
    if document["state"] not in KEPT:
        yield f"J4 {story.name} is {document['state']} for ever"
    if story.ended_by in KEPT and document["state"] != story.ended_by:
        yield f"J2 {story.name} was {story.ended_by} and is {document['state']}"
    if document["attempts"] not in story.attempts() and not story.may_restart:
        yield f"J3 {story.name} ended with {document['attempts']} attempts counted"
    if not (story.may_have_ended or _is_exhausted(document)):
        yield f"J4 nobody has ended {story.name}, which is {document['state']}"


def _is_exhausted(document: Mapping[str, Any]) -> bool:
    is_used_up: bool = document["attempts"] >= document["max_attempts"]
    return document["state"] == "failed" and is_used_up
