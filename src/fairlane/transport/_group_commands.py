"""What is written about a group: its messages, its lives, the removal of its lock.

Pure functions, as in `fairlane.lease.commands`; each filter says which race it closes.
"""

import math
from collections.abc import Mapping, Sequence

from bson.int64 import Int64

from fairlane.checks import PRIORITIES
from fairlane.driver import Document
from fairlane.lease import commands
from fairlane.schema import first_epoch, floor_id

__all__ = (
    "abandoned",
    "adopted",
    "among",
    "claimable",
    "corrections",
    "drained",
    "interrupted",
    "parked",
    "readied",
    "resumed",
    "settled",
    "stopped_by",
    "stops",
)


def claimable(*, partition: int, min_priority: int, now: float) -> Document:
    """Match groups of sufficient priority that may be leased."""
    return commands.due(partitions=[partition], now=now, among=among(min_priority))


def among(min_priority: int) -> Mapping[str, Sequence[int]]:
    """Return what a group may have so that it is of sufficient priority."""
    return {"priority": PRIORITIES[min_priority:]}


OF_ITS_HEAD = ("last_error", "is_new", "head", "interrupted")
"""What a settlement takes off a lock."""


def settled(
    *,
    now: float,
    partition: int,
    done: Sequence[int],
    dead: Document | None = None,
    interrupted: int | None = None,
) -> Document:
    """Settle the leased messages: this write alone decides, deletion is clean-up.

    `done` keeps them from being delivered again until their documents are gone; `dead` carries
    what a dead letter needs, so a crash after this write loses nothing. `partition` is written
    because the number of partitions may have changed since the group's life began. `interrupted`
    is the message behind them, if its handler was stopped: see `interrupted`.

    Race: a claim between a death and a stop after it would deliver what is behind the dead message:
    so one that `stops` its group does so here. What is never due is found by no claim.
    """
    values: Document = {
        "token": None,
        "available_at": now,
        "attempts": 0,
        "partition": partition,
        "done": [Int64(seq) for seq in done],
    }
    if dead is not None:
        values["dead"] = dead
        if "stops" in dead:
            values.update(available_at=math.inf, stopped=dead["seq"])
    if interrupted is not None:
        values.update(head=Int64(interrupted), interrupted=1)
    return {"$set": values, "$unset": {name: "" for name in OF_ITS_HEAD if name not in values}}


def parked(
    *, at: float, seq: int, attempt: int, error: str | None, done: Sequence[int] | None = None
) -> Document:
    """Give the group back until `at`; the head stays the head and its attempts stay counted.

    With `done` the messages before it are settled in the same write: see `settled`.
    `head` says whose attempts they are: a late publish with a smaller number may become the head.
    """
    update = commands.freed(at=at)
    update["$set"].update(head=Int64(seq), attempts=attempt)
    gone = {"is_new": ""}
    if done is not None:
        update["$set"]["done"] = [Int64(each) for each in done]
        gone["interrupted"] = ""  # that was the message before it
    if error is not None:
        update["$set"]["last_error"] = error
    return {**update, "$unset": gone}


def interrupted(*, at: float, seq: int) -> Document:
    """Give the group back as if it had not been claimed, and count that its handler was stopped.

    `head` says whose handler that was, as in `parked`.
    """
    update = commands.given_back(now=at)
    update["$set"]["head"] = Int64(seq)
    update["$inc"]["interrupted"] = 1
    return update


def corrections(group: Document, *, seq: int, floor: int | None) -> Document:
    """Return what is wrong in a leased lock, now that its head and its floor are known.

    `epoch`: a new life goes on above the lives before it. Race: the life before ends while this one
    begins: its floor was raised before its lock was removed, so before this lock was made, so
    before the floor was read.
    `head` and what is counted for it may be of another message, which a late publish has pushed
    back.
    The head of a first attempt is not noted: there is nothing to tell it from.
    """
    wrong: Document = {}
    if floor is not None and floor >= group["epoch"]:
        wrong["epoch"] = Int64(floor + 1)
    head = group.get("head")
    if head is None and group["attempts"] > 1:
        wrong["head"] = Int64(seq)
    elif head is not None and head != seq:
        wrong.update(head=Int64(seq), attempts=1)
        if group.get("interrupted"):
            wrong["interrupted"] = 0
    return wrong


def drained(group_id: str, *, version: int | None, epoch: int, done: Sequence[int]) -> Document:
    """Match the settled group if nothing was published and nobody claimed since.

    Race: a publish between the claim's head read and this removal: it bumps `version` after its
    insert, so the removal misses; if it bumps after the removal, it makes the lock anew.
    `done` tells this life's last settlement from any other.
    Race: a claim that was given back since: it had a higher `epoch` than the floor was raised to.
    """
    return {
        "_id": group_id,
        "token": None,
        "version": version,
        "epoch": epoch,
        "done": list(done),
    }


def abandoned(group_id: str, token: str, *, version: int | None) -> Document:
    """Match the leased group if nothing was published since the lease: it has no messages.

    Race: a publish between the empty head read and this removal: it bumps `version`, so the
    removal misses.
    """
    return {**commands.held(group_id, token), "version": version}


def readied(
    group_id: str, *, seq: int, messages: int, priority: int, partition: int, available_at: float
) -> Document:
    """Make the group claimable if it is new; a leased or parked group stays where it is.

    `is_new` names the floor that the first lease must look at.

    Race: `version` grows with every publish, which makes a concurrent removal miss (`drained`).
    """
    return {
        "$inc": {"version": Int64(messages)},
        "$setOnInsert": {
            "available_at": available_at,
            "token": None,
            "priority": priority,
            "partition": partition,
            "attempts": 0,
            "epoch": Int64(first_epoch(seq)),
            "is_new": floor_id(group_id),
            "done": [],
        },
    }


def stopped_by(group_id: str, seq: int) -> Document:
    """Match the group while this dead message stops it.

    Race: a redrive is completed twice, the second time when the group is leased, or stopped by
    another death: it stays so. No number dies twice.
    """
    return {"_id": group_id, "stopped": seq}


def stops(group_id: str) -> Document:
    """Match the group while any dead message stops it."""
    return {"_id": group_id, "stopped": {"$exists": True}}


def resumed(*, now: float) -> Document:
    """Let a group that was stopped go on."""
    return {"$set": {"available_at": now}, "$unset": {"stopped": ""}}


def adopted(lock: Document) -> Document:
    """Give a lock of the original design what a claim looks for; what is there stays.

    Race: a publish meanwhile counts `version` up from nothing: `$max` keeps its count.
    """
    defaults: Document = {"is_new": floor_id(str(lock["_id"]))}
    if lock.get("done") is None:
        defaults["done"] = []
    return {
        "$set": defaults,
        "$max": {"priority": 0, "version": Int64(0), "attempts": 0},
    }
