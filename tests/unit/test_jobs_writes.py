"""What is written about a job: pure functions, and how they fit each other."""

from datetime import UTC, datetime
from typing import Any

import pytest
from bson.int64 import Int64

from fairlane.jobs import _job_commands
from fairlane.lease import commands
from fairlane.schema import BY_PRIORITY, BY_TYPE

Document = dict[str, Any]

AT = datetime(2030, 1, 1, tzinfo=UTC)
OPTIONS = {"priority": 0, "partition": 3, "available_at": 5.0, "max_attempts": 4}
NEW = _job_commands.created(
    key="id", type="t", payload={"n": 1}, kind="event", now=2.0, options=OPTIONS
)


def ended(key: str | None = "k", expires_at: datetime | None = AT) -> Document:
    return _job_commands.ended(
        state="failed", now=9.0, expires_at=expires_at, key=key, values={"last_error": "why"}
    )


def redriven(job: Document) -> Document:
    return _job_commands.redriven(job, now=7.0, partition=2)


UPDATES: dict[str, Document] = {
    "claimed": commands.claimed(
        token="w:1", until=9.0, marks=_job_commands.marks(worker_id="w", now=1.0)
    ),
    "ended": ended(),
    "unstarted": _job_commands.unstarted(ended()),
    "retried": _job_commands.retried(at=9.0, error="why", answered=2),
    "reranked": _job_commands.reranked(3),
    "rescheduled": _job_commands.rescheduled(at=9.0, priority=3, error=None),
    "returned": _job_commands.returned(now=9.0),
    "interrupted": _job_commands.returned(now=9.0, interrupted=True),
    "redriven": redriven({"_id": "id", "settled_key": "k"}),
    "replaced": _job_commands.replaced({**NEW, "unique_key": "k"}),
}
every_update = pytest.mark.parametrize("update", UPDATES.values(), ids=UPDATES)


def fields(update: Document) -> list[str]:
    return [name for changes in update.values() for name in changes]


@every_update
def test_update_changes_no_field_twice(update: Document) -> None:
    """The server would refuse it."""
    assert len(set(fields(update))) == len(fields(update))


@every_update
def test_update_is_made_of_plain_operators(update: Document) -> None:
    """A payload or a worker that looks like a field path is stored as it is."""
    assert set(update) <= {"$set", "$unset", "$inc"}


@every_update
def test_update_leaves_alone_what_a_job_is(update: Document) -> None:
    assert {"_id", "type", "kind", "created_at"}.isdisjoint(fields(update))


def test_new_job_has_every_field_that_a_claim_looks_at() -> None:
    """A12.18 in a queue whose attempts are never missing."""
    for index in (BY_TYPE, BY_PRIORITY):
        assert {name for name, _ in index} <= NEW.keys()
    assert (NEW["token"], NEW["attempts"], NEW["state"]) == (None, 0, "pending")
    assert isinstance(NEW["epoch"], Int64)


def test_new_job_has_neither_an_end_nor_an_expiry() -> None:
    assert {"done_at", "expires_at", "settled_key", "unique_key"}.isdisjoint(NEW)


def test_ended_job_is_in_no_index_of_claims_and_its_key_is_free() -> None:
    gone = ended()["$unset"]
    assert {"partition", "available_at", "token", "unique_key"} == set(gone)
    assert set(commands.due(partitions=[0], now=1.0, among={})) <= set(gone)


@pytest.mark.parametrize("key", ["k", None])
@pytest.mark.parametrize("expires_at", [AT, None])
def test_ended_job_says_when_it_expires_and_what_its_key_was(
    key: str | None, expires_at: datetime | None
) -> None:
    told = ended(key, expires_at)["$set"]
    assert (told.get("expires_at"), told.get("settled_key")) == (expires_at, key)
    assert (told["state"], told["done_at"], told["last_error"]) == ("failed", 9.0, "why")
    assert None not in told.values()


def test_redriven_job_has_nothing_left_of_its_end() -> None:
    """What an end sets is unset or set anew, but for the error: it is why."""
    update = redriven({"_id": "id", "settled_key": "k"})
    assert set(ended()["$set"]) - {"last_error"} <= set(fields(update))
    assert set(ended()["$unset"]) <= set(update["$set"])
    assert update["$set"]["unique_key"] == "k"
    assert (update["$set"]["attempts"], update["$set"]["available_at"]) == (0, 7.0)


def test_redriven_job_without_a_key_gets_none() -> None:
    assert "unique_key" not in redriven({"_id": "id"})["$set"]


@pytest.mark.parametrize("name", ["redriven", "replaced", "rescheduled"])
def test_job_that_begins_anew_owes_no_answer(name: str) -> None:
    """Where its attempts are 0 none of them was left without an end."""
    assert UPDATES[name]["$set"].items() >= _job_commands.FRESH.items()
    assert NEW.items() >= _job_commands.FRESH.items()


def test_retried_job_keeps_its_attempts_and_its_last_error() -> None:
    update = _job_commands.retried(at=9.0, error=None)
    assert {"attempts", "last_error"}.isdisjoint(fields(update))
    assert update["$set"] == {"token": None, "available_at": 9.0, "state": "pending"}


@pytest.mark.parametrize("name", ["returned", "unstarted"])
def test_start_that_was_none_is_taken_back(name: str) -> None:
    assert UPDATES[name]["$inc"] == {"attempts": -1}


def test_start_that_was_interrupted_is_taken_back_and_counted_as_that() -> None:
    assert UPDATES["interrupted"]["$inc"] == {"attempts": -1, "interrupted": 1}


def test_replaced_job_keeps_its_place_and_its_key() -> None:
    """Only the payload and what an enqueue may say; all attempts are there again."""
    changed = _job_commands.replaced({**NEW, "unique_key": "k"})["$set"]
    said = {name: value for name, value in OPTIONS.items() if name != "partition"}
    fresh = {"state": "pending", "token": None, **_job_commands.FRESH}
    assert changed == {**said, "payload": {"n": 1}, **fresh}


def test_claim_of_no_type_takes_any() -> None:
    assert _job_commands.among(()) == {}
    assert _job_commands.among(("a", "b")) == {"type": ("a", "b")}


@pytest.mark.parametrize("locked_before", [None, 3.0])
@pytest.mark.parametrize("type", [None, "t"])
def test_stale_job_has_no_live_lease(locked_before: float | None, type: str | None) -> None:
    match = _job_commands.stale(now=9.0, locked_before=locked_before, type=type)
    assert match["available_at"] == {"$lte": 9.0}
    assert match["state"] == "processing"
    assert match.get("type") == type
    assert match.get("locked_at") == (None if locked_before is None else {"$lt": 3.0})


@pytest.mark.parametrize("found", [{"_id": "id", "token": "w:1"}, {"_id": "id"}], ids=str)
def test_stale_job_is_changed_only_as_it_was_found(found: Document) -> None:
    """A claim changes the token, an extension the time, another reclaimer the state."""
    assert _job_commands.reclaimed(found, now=9.0) == {
        "_id": "id",
        "token": found.get("token"),
        "available_at": {"$lte": 9.0},
        "state": "processing",
    }


def test_job_that_may_be_cancelled_is_nobodys() -> None:
    match = _job_commands.cancellable("id", now=9.0)
    assert match["$or"] == [{"token": None}, {"available_at": {"$lte": 9.0}}]
    assert set(match["state"]["$in"]) == {"pending", "processing"}
