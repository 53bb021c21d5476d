"""The writes of a lease, as pure functions from state to filter or update.

They suit any collection whose documents have `partition`, `available_at`, `token`, `attempts` and
`epoch`. Nothing is checked first and done after: each transition is one conditional write, and each
filter says in one line which race it closes. All updates are plain operators: a value is stored as
it is, whatever it looks like, and no field is read to compute another.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from bson.int64 import Int64

from fairlane.driver import Document

__all__ = (
    "Choices",
    "Order",
    "claimed",
    "due",
    "extended",
    "freed",
    "given_back",
    "held",
    "misplaced",
    "order_by",
    "still_due",
    "taken",
    "taken_among",
    "unplaced",
)

Order = Literal["fair", "priority"]

Choices = Mapping[str, Sequence[object]]
"""Fields, and the values that they may have."""

ORDERS: dict[str, tuple[tuple[str, int], ...]] = {
    "fair": (("available_at", 1),),
    "priority": (("priority", -1), ("available_at", 1)),
}


def due(
    *, partitions: Sequence[int], now: float, among: Mapping[str, Sequence[object]]
) -> Document:
    """Match documents that may be leased: eligibility is written here and nowhere else.

    `among` has the other fields of the index, in its order.

    Race: two claimers pick one document: the winner's update moves `available_at` past `now`, so
    the loser's filter, judged again by the server on the changed document, does not match.
    `$in` lets the server merge one index range per value; a range over a field would walk them.
    """
    where = partitions[0] if len(partitions) == 1 else {"$in": list(partitions)}
    return {"partition": where, **_choices(among), "available_at": {"$lte": now}}


def still_due(key: object, *, now: float, among: Choices) -> Document:
    """Match this document if it may be leased, as when it was read by `due`.

    Race: another claimer has leased it since then: as above. Or it was removed and made anew: the
    fields of `among` may be others; its partition does not matter, which only tells where to look.
    """
    return {"_id": key, **_choices(among), "available_at": {"$lte": now}}


def _choices(among: Choices) -> Document:
    return {field: {"$in": list(values)} for field, values in among.items()}


def order_by(order: Order) -> tuple[tuple[str, int], ...]:
    """Return the sort of a claim: longest waiting first, or highest priority first."""
    return ORDERS[order]


def claimed(*, token: str, until: float, marks: Mapping[str, object] | None = None) -> Document:
    """Lease the document. The claim counts the attempt, so that of a dead worker counts as well.

    `marks` are fields of the product's own, for people who look into the database.
    """
    return {
        "$set": {"token": token, "available_at": until, **(marks or {})},
        "$inc": {"attempts": 1, "epoch": Int64(1)},
    }


def taken(token: str) -> Document:
    """Match the document that a claim has leased under this token, whichever it is."""
    return {"token": token}


def taken_among(bids: Mapping[Any, str]) -> Document:
    """Match the documents that were leased under the tokens that were bid for them."""
    return {"_id": {"$in": list(bids)}, "token": {"$in": list(bids.values())}}


def held(key: object, token: str) -> Document:
    """Match the document while this lease holds it.

    Race: a late or repeated settlement: a token is never reused, and every way out of a lease
    clears or replaces it, so whoever lost the document matches nothing and changes nothing.
    """
    return {"_id": key, "token": token}


def freed(*, at: float) -> Document:
    """Give the document back until `at`; the attempt stays counted."""
    return {"$set": {"token": None, "available_at": at}}


def given_back(*, now: float) -> Document:
    """Give the document back as if it had not been claimed: the attempt is not counted."""
    return {"$set": {"token": None, "available_at": now}, "$inc": {"attempts": -1}}


def extended(*, until: float) -> Document:
    """Keep the lease longer. The token stays: a lost reply must not lock the holder out.

    Race: an earlier extension that arrives late must not shorten a later one.
    """
    return {"$max": {"available_at": until}}


def misplaced(partitions: int) -> Document:
    """Match what no claimer finds: the complement of `due`, for every partition there is.

    Missing, null, no number, a fraction, negative or too large: nothing is left out.
    """
    return {"partition": {"$nin": list(range(partitions))}}


def unplaced() -> Document:
    """Match what was never given a partition: a part of `misplaced` that is found in no time."""
    return {"partition": None}
