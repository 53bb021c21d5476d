"""What is written about a job, as pure functions; each filter says which race it closes.

Eligibility is that of the lease core. A job that has ended has no partition, no `available_at` and
no token: no claim can match it, and no index of claims holds it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bson.int64 import Int64

from fairlane.driver import Document
from fairlane.lease import commands

__all__ = (
    "among",
    "cancellable",
    "created",
    "ended",
    "in_the_way",
    "marks",
    "reclaimed",
    "recurring",
    "redefined",
    "redriven",
    "replaced",
    "reranked",
    "rescheduled",
    "retried",
    "returned",
    "stale",
    "still_ended",
    "unstarted",
)

LIVE = ("pending", "processing")
ENDLESS = 2**31 - 1
FRESH: Mapping[str, int] = {"attempts": 0, "answered": 0, "interrupted": 0}
"""How often a job was started, and the last of these starts whose worker has said how it went.

Where a claim finds more starts than it makes itself, a worker before it has died or was too slow.
A start that its worker has stopped itself is taken back, and counted as interrupted.
"""


def among(types: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Return what a job may be so that a claim of these types takes it; none means any type."""
    return {"type": types} if types else {}


def marks(*, worker_id: str, now: float) -> Document:
    """Return what a claim notes for people who look into the database."""
    return {"state": "processing", "locked_by": worker_id, "locked_at": now}


def created(
    *, key: str, type: str, payload: Any, kind: str, now: float, options: Mapping[str, Any]
) -> Document:
    """Return a new job; `options` has its priority, partition, times, attempts and unique key."""
    return {
        "_id": key,
        "type": type,
        "kind": kind,
        "payload": payload,
        "state": "pending",
        "token": None,
        **FRESH,
        "epoch": Int64(0),
        "created_at": now,
        **options,
    }


def ended(
    *,
    state: str,
    now: float,
    expires_at: datetime | None,
    key: str | None,
    values: Mapping[str, Any],
) -> Document:
    """End the job: nothing finds it as work any more, and its unique key is free.

    `settled_key` keeps the key, for a redrive. The documents of jobs that are alive have no
    `expires_at`, so the server never deletes one.
    """
    kept = {"settled_key": key} if key is not None else {}
    expiry = {"expires_at": expires_at} if expires_at is not None else {}
    return {
        "$set": {"state": state, "done_at": now, **expiry, **kept, **values},
        "$unset": {"partition": "", "available_at": "", "token": "", "unique_key": ""},
    }


def recurring(
    *, name: str, terms: Mapping[str, Any], scheduled_at: float, partition: int, now: float
) -> Document:
    """Return what the record of a recurring job is created with; its `_id` comes by the filter.

    Nothing ever counts as its last attempt: how often a run is started is up to its definition.
    """
    document = created(
        key="",
        type=name,
        payload=None,
        kind="recurring",
        now=now,
        options={
            **terms,
            "priority": terms["base_priority"],
            "partition": partition,
            "scheduled_at": scheduled_at,
            "available_at": scheduled_at,
            "max_attempts": ENDLESS,
        },
    )
    del document["_id"]
    return document


def redefined(
    terms: Mapping[str, Any], *, scheduled_at: float | None, partition: int, is_leased: bool
) -> Document:
    """Let a recurring job be as it is defined by now; `scheduled_at` None leaves its time.

    While it is leased `available_at` is the end of the lease: only its next run is changed.
    """
    changed: Document = dict(terms)
    if not is_leased:
        changed |= {"state": "pending", "token": None, "partition": partition}
        changed |= {"priority": terms["base_priority"]}
        if scheduled_at is not None:
            times = {"scheduled_at": scheduled_at, "available_at": scheduled_at}
            changed |= {**times, **FRESH}
    return {"$set": changed, "$unset": {"done_at": "", "expires_at": ""}}


def rescheduled(*, at: float, priority: int, error: str | None) -> Document:
    """End a run of a recurring job: it waits for its next tick as if it had never run."""
    return {
        "$set": {
            "state": "pending",
            "token": None,
            "scheduled_at": at,
            "available_at": at,
            **FRESH,
            "priority": priority,
            "last_error": error,
        }
    }


def still_ended(keys: Sequence[str], state: str) -> Document:
    """Match these jobs while they are as they ended.

    Race: a redrive since: it changes the state, so what runs again is not deleted.
    """
    return {"_id": {"$in": list(keys)}, "state": state}


def unstarted(end: Document) -> Document:
    """End a job that a claim has found, and nobody has started: `attempts` are its starts."""
    return {**end, "$inc": {"attempts": -1}}


def retried(*, at: float, error: str | None, answered: int | None = None) -> Document:
    """Let the job be started again, from `at` on; its attempts stay counted.

    `answered` is the start that ends here; None if its worker does not know that it does.
    """
    update = commands.freed(at=at)
    update["$set"]["state"] = "pending"
    if answered is not None:
        update["$set"]["answered"] = answered
    if error is not None:
        update["$set"]["last_error"] = error
    return update


def reranked(priority: int) -> Document:
    """Let a leased job have another priority from its next claim on."""
    return {"$set": {"priority": priority}}


def returned(*, now: float, interrupted: bool = False) -> Document:
    """Give the job back as if it had not been claimed; count it if its handler was stopped."""
    update = commands.given_back(now=now)
    update["$set"]["state"] = "pending"
    if interrupted:
        update["$inc"]["interrupted"] = 1
    return update


def stale(*, now: float, locked_before: float | None, type: str | None) -> Document:
    """Match jobs whose lease is over; a live one is never taken away."""
    match: Document = {"state": "processing", "available_at": {"$lte": now}}
    if locked_before is not None:
        match["locked_at"] = {"$lt": locked_before}
    if type is not None:
        match["type"] = type
    return match


def reclaimed(job: Document, *, now: float) -> Document:
    """Match the job as it was found stale.

    Race: a claim, a settlement or an extension since: each changes the token or `available_at`; and
    another reclaimer, which changes the state: where there was no token it would count the job too.
    """
    return {
        "_id": job["_id"],
        "token": job.get("token"),
        "state": "processing",
        "available_at": {"$lte": now},
    }


def cancellable(key: str, *, now: float) -> Document:
    """Match the job while nobody works on it: it waits, or its lease is over.

    Race: a claim meanwhile sets a token and moves `available_at`: what runs is not deleted under
    its worker. The state does not tell: a claim that failed midway gives back the lease, and leaves
    it "processing".
    """
    is_free = [{"token": None}, {"available_at": {"$lte": now}}]
    return {"_id": key, "state": {"$in": list(LIVE)}, "$or": is_free}


def redriven(job: Document, *, now: float, partition: int) -> Document:
    """Give a failed job all its attempts again, and its unique key back."""
    key = {} if job.get("settled_key") is None else {"unique_key": job["settled_key"]}
    return {
        "$set": {
            "state": "pending",
            "token": None,
            "available_at": now,
            "partition": partition,
            **FRESH,
            **key,
        },
        "$unset": {"done_at": "", "expires_at": "", "settled_key": ""},
    }


def in_the_way(jobs: Sequence[Document]) -> Document:
    """Match the jobs that have the ids of these, or keys of them and have not ended."""
    types = sorted({job["type"] for job in jobs})
    keys = sorted({job["unique_key"] for job in jobs})
    ids = [job["_id"] for job in jobs]
    with_key = {"type": {"$in": types}, "unique_key": {"$in": keys}}
    return {"$or": [{"_id": {"$in": ids}}, with_key]}


def replaced(document: Mapping[str, Any]) -> Document:
    """Let a waiting job be as one that was to be enqueued, but for its id and its place.

    Whoever held it before, and comes late, must not end the new one: the token goes.
    """
    fields = ("payload", "priority", "available_at", "max_attempts")
    fresh = {"state": "pending", "token": None, **FRESH}
    return {"$set": {name: document[name] for name in fields} | fresh}
