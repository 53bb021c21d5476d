"""Every write of a lock document, as a pure function from state to filter or update.

Nothing is checked first and done after: each transition is one conditional write, and each filter
says in one line which race it closes.
"""

from collections.abc import Sequence
from typing import Literal

from bson.int64 import Int64

from fairlane.checks import PRIORITIES
from fairlane.driver import Document
from fairlane.schema import EPOCH_STEP

__all__ = (
    "Order",
    "abandoned",
    "claimed",
    "corrections",
    "drained",
    "due",
    "extended",
    "given_back",
    "held",
    "order_by",
    "parked",
    "readied",
    "settled",
)

Order = Literal["fair", "priority"]

ORDERS: dict[str, tuple[tuple[str, int], ...]] = {
    "fair": (("available_at", 1),),
    "priority": (("priority", -1), ("available_at", 1)),
}


def due(*, partition: int, min_priority: int, now: float) -> Document:
    """Match groups that may be leased: eligibility is written here and nowhere else.

    Race: two claimers pick one group: the winner's update moves `available_at` past `now`, so the
    loser's filter, judged again by the server on the changed document, does not match.
    `$in` lets the server merge one index range per level; a range over priority would walk them.
    """
    return {
        "partition": partition,
        "priority": {"$in": list(PRIORITIES[min_priority:])},
        "available_at": {"$lte": now},
    }


def claimed(*, token: str, until: float) -> Document:
    """Lease the group. The claim itself counts the attempt, so a worker that dies has counted."""
    return {
        "$set": {"token": token, "available_at": until},
        "$inc": {"attempts": 1, "epoch": Int64(1)},
    }


def order_by(order: Order) -> tuple[tuple[str, int], ...]:
    """Return the sort of a claim: longest waiting first, or highest priority first."""
    return ORDERS[order]


def held(group_id: str, token: str) -> Document:
    """Match the group while this lease holds it.

    Race: a late or repeated settlement: a token is never reused, and every way out of a lease
    clears or replaces it, so whoever lost the group matches nothing and changes nothing.
    """
    return {"_id": group_id, "token": token}


def settled(*, now: float, done: Sequence[int], dead: Document | None = None) -> Document:
    """Settle the leased messages: this write alone decides, deletion is clean-up.

    `done` keeps them from being delivered again until their documents are gone; `dead` carries
    what a dead letter needs, so a crash after this write loses nothing.
    """
    values: Document = {
        "token": None,
        "available_at": now,
        "attempts": 0,
        "done": [Int64(seq) for seq in done],
    }
    if dead is not None:
        values["dead"] = dead
    return {"$set": values, "$unset": {"last_error": "", "is_new": "", "head": ""}}


def parked(*, at: float, seq: int, attempt: int, error: str | None) -> Document:
    """Give the group back until `at`; the head stays the head and its attempts stay counted.

    `head` says whose attempts they are: a late publish with a smaller number may become the head.
    """
    values: Document = {
        "token": None,
        "available_at": at,
        "head": Int64(seq),
        "attempts": attempt,
    }
    if error is not None:
        values["last_error"] = error
    return {"$set": values, "$unset": {"is_new": ""}}


def given_back(*, now: float) -> Document:
    """Give the group back as if it had not been claimed: the attempt is not counted."""
    return {"$set": {"token": None, "available_at": now}, "$inc": {"attempts": -1}}


def extended(*, until: float) -> Document:
    """Keep the lease longer. The token stays: a lost reply must not lock the holder out.

    Race: an earlier extension that arrives late must not shorten a later one.
    """
    return {"$max": {"available_at": until}}


def corrections(group: Document, *, seq: int, floor: int | None) -> Document:
    """Return what is wrong in a leased lock, now that its head and its floor are known.

    `epoch`: a new life goes on above the lives before it. Race: the life before ends while this one
    begins: its floor was raised before its lock was removed, so before this lock was made, so
    before the floor was read.
    `head`, `attempts`: they may belong to another message, which a late publish has pushed back.
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
    return {"_id": group_id, "token": token, "version": version}


def readied(
    *, seq: int, messages: int, priority: int, partition: int, available_at: float
) -> Document:
    """Make the group claimable if it is new; a leased or parked group stays where it is.

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
            "epoch": Int64(seq * EPOCH_STEP),
            "is_new": True,
            "done": [],
        },
    }
