"""Defects that a job queue might have: the exploration of small scenes must find each of them."""

from collections.abc import Mapping
from typing import Any

import pytest

from fairlane.driver import Document
from fairlane.jobs import Job, _job_commands, _recurring
from fairlane.jobs._definition import Definition
from fairlane.jobs._recurring import Recurrer
from fairlane.lease import commands
from property.actors import own_key
from property.explorer import explore
from property.job_scenes import JOB_SCENES
from property.job_world import JobStage
from property.spoiling import Change, Command, spoil, without

pytestmark = pytest.mark.usefixtures("silence")


async def expect_found(scene: str, violation: str) -> None:
    with pytest.raises(AssertionError, match=violation):
        await explore(JOB_SCENES[scene], stage=JobStage())


def keeping_the_token(update: Any) -> Any:
    return {**update, "$set": without("token")(update["$set"])}


def without_counting(update: Any) -> Any:
    return {**update, "$inc": without("attempts")(update["$inc"])}


def keeping_its_key(update: Any) -> Any:
    return {**update, "$unset": without("unique_key")(update["$unset"])}


def never_given_back(update: Any) -> Any:
    return {name: update[name] for name in update.keys() - {"$inc"}}


def losing_its_key(update: Any) -> Any:
    return {**update, "$set": without("unique_key")(update["$set"])}


DEFECTS = [
    ("late_ack_and_new_worker", commands.held, without("token"), "J1 .* was another's"),
    ("ack_after_nack", _job_commands.retried, keeping_the_token, "J1 .* settled by nack, then"),
    ("ack_after_release", _job_commands.returned, keeping_the_token, "J1 .* settled by release"),
    ("slow_claim_and_new_worker", commands.due, without("available_at"), "J1 .* lease of it lasts"),
    ("claim_many_and_work", commands.still_due, without("available_at"), "J1 .* lease of it lasts"),
    ("last_attempt_and_extend_and_ack", _job_commands.reclaimed, without("available_at"), "J1"),
    ("cancel_and_nack", _job_commands.cancellable, without("$or"), "J1 .* cancelled while"),
    ("key_taken_replace", _job_commands.cancellable, without("$or"), "J1 .* replaced while"),
    ("replace_and_late_ack", _job_commands.replaced, keeping_the_token, "J1|J2|J4"),
    ("late_ack_and_new_worker", commands.claimed, without_counting, "J3"),
    ("work_after_release", _job_commands.returned, never_given_back, "J3"),
    ("two_reclaimers", _job_commands.unstarted, never_given_back, "J3"),
    ("redrive_and_key_taken", _job_commands.redriven, losing_its_key, "J5"),
    ("redrive_and_key_taken", _job_commands.ended, keeping_its_key, "J5"),
    ("two_fire_and_time", commands.held, without("token"), "J1|J2"),
    ("fire_and_redefine", _job_commands.rescheduled, keeping_the_token, "J4"),
]
"""Where it is found, a command, what is done to it, and as what it is found."""


@pytest.mark.parametrize(("scene", "command", "change", "violation"), DEFECTS)
async def test_spoiled_command_is_found(
    monkeypatch: pytest.MonkeyPatch, scene: str, command: Command, change: Change, violation: str
) -> None:
    spoil(monkeypatch, command, change)
    await expect_found(scene, violation)


async def test_run_that_ends_by_the_definition_it_began_with_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def reschedule(self: Recurrer, job: Job, own: Definition, error: str | None) -> bool:
        assert job.recurrence is not None
        at = await self._next(job, own, job.recurrence)
        update = _job_commands.rescheduled(at=at, priority=0, error=error)
        held = commands.held(job.id, job.token or "")
        return await self._store.jobs.update_one(held, update)

    monkeypatch.setattr(Recurrer, "_reschedule", reschedule)
    await expect_found("fire_and_redefine", "of its old definition")


async def test_definition_that_takes_a_run_from_its_worker_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = _job_commands.redefined

    def redefined(terms: Mapping[str, Any], **options: Any) -> Document:
        return right(terms, **{**options, "is_leased": False})

    monkeypatch.setattr(_job_commands, "redefined", redefined)
    await expect_found("fire_and_redefine", "J1 fire of .* refused while its lease was held")


async def test_two_records_of_one_recurring_job_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process that defines it creates one of its own."""
    monkeypatch.setattr(_recurring, "key_of", lambda name: f"recurring:{name}:{own_key()}")
    await expect_found("two_define", "J2 .* started again after it was fired")


async def test_reclaim_that_does_not_look_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It puts back what it found stale, whatever has become of it."""

    def as_found(job: Document, **_: Any) -> Document:
        return {"_id": job["_id"]}

    monkeypatch.setattr(_job_commands, "reclaimed", as_found)
    await expect_found("reclaim_and_late_ack_and_work", "J")
