"""Names of collections and fields, documents and indexes (design section 2)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from zlib import crc32

from bson.int64 import Int64
from bson.son import SON
from pymongo.operations import IndexModel

from fairlane.checks import text
from fairlane.clock import instant
from fairlane.driver import Document
from fairlane.errors import ConfigurationError

__all__ = (
    "BY_PRIORITY",
    "BY_TYPE",
    "DEAD_INDEXES",
    "EPOCH_STEP",
    "FRONT",
    "HISTORY_INDEXES",
    "JOB_INDEXES",
    "LOCK_INDEXES",
    "MESSAGE_INDEXES",
    "STRINGS",
    "TOKEN_INDEX",
    "TOKEN_KEYS",
    "db_name",
    "dead_letter",
    "definition",
    "first_epoch",
    "floor_id",
    "message",
    "partition_of",
    "prefix",
    "published_at",
    "published_instant",
    "same_keys",
)

EPOCH_STEP = 2**20
"""A life of a group may hand out this many leases before its epochs meet those of the next."""

FRONT = -(10**13)
"""Added to its reserved number, this puts a message before all that were published, which have
positive numbers: their epochs would not fit into 64 bits long before this were reached."""

FLOORS = 1_024
"""Groups share floors, so that these stay few; sharing makes epochs skip numbers, no more."""

STRINGS = {"$gte": ""}
"""Every string and nothing else. That `{"token": "abc"}` is one of `{"$type": "string"}` is more
than MongoDB's planner sees: it would not use the index."""

MESSAGE_INDEXES = (
    IndexModel([("group_id", 1), ("_id", 1)]),
    IndexModel(
        [("message_id", 1)],
        unique=True,
        partialFilterExpression={"message_id": STRINGS},
    ),
)
LOCK_INDEXES = (
    IndexModel([("partition", 1), ("priority", -1), ("available_at", 1)]),
    IndexModel([("dead.seq", 1)], partialFilterExpression={"dead.seq": {"$exists": True}}),
)
TOKEN_KEYS = (("token", 1),)
TOKEN_INDEX = IndexModel(list(TOKEN_KEYS), unique=True, partialFilterExpression={"token": STRINGS})
"""Of locks, where a lease is read back by its token; elsewhere it would only cost writes."""
DEAD_INDEXES = (
    IndexModel([("group_id", 1), ("_id", 1)]),
    IndexModel([("rising", 1)], partialFilterExpression={"rising": {"$exists": True}}),
)

BY_TYPE = (("partition", 1), ("type", 1), ("priority", -1), ("available_at", 1))
BY_PRIORITY = (("partition", 1), ("priority", -1), ("available_at", 1))
JOB_INDEXES = (
    # Jobs that have ended have no partition.
    IndexModel(list(BY_TYPE), partialFilterExpression={"partition": {"$exists": True}}),
    IndexModel(list(BY_PRIORITY), partialFilterExpression={"partition": {"$exists": True}}),
    IndexModel(
        [("type", 1), ("unique_key", 1)],
        unique=True,
        partialFilterExpression={"unique_key": STRINGS},
    ),
    IndexModel([("state", 1), ("type", 1)]),
    IndexModel([("expires_at", 1)], expireAfterSeconds=0),
)
HISTORY_INDEXES = (
    IndexModel([("type", 1), ("started_at", -1)]),
    IndexModel([("job_id", 1), ("started_at", -1)]),
    IndexModel([("expires_at", 1)], expireAfterSeconds=0),
)

MAX_NAMESPACE_BYTES = 255
REFUSED_IN_DB_NAMES = frozenset('/\\. "$*<>:|?\0')


def db_name(value: object) -> str:
    """Return a database name that MongoDB accepts on every platform."""
    name = text("db_name", value)
    refused = sorted(REFUSED_IN_DB_NAMES.intersection(name))
    if not name or len(name.encode()) > 63 or refused:
        raise ConfigurationError(
            'db_name must have 1 to 63 bytes and none of / \\ . space " $ * < > : | ? NUL, '
            f"not {name!r}"
        )
    return name


def prefix(value: object) -> str:
    """Return a prefix that makes valid collection names."""
    name = text("prefix", value)
    is_refused = not name or "$" in name or "\0" in name or name.startswith((".", "system."))
    if is_refused or len(name.encode()) > 120:
        raise ConfigurationError(
            "prefix must have 1 to 120 bytes, no $ or NUL, and not begin with a dot or 'system.', "
            f"not {name!r}"
        )
    return name


def partition_of(group_id: str, partitions: int) -> int:
    return crc32(group_id.encode()) % partitions


def first_epoch(seq: int) -> int:
    """Return where the epochs of a life begin that this message has made."""
    reserved = seq - FRONT if seq < 0 else seq
    return reserved * EPOCH_STEP


def floor_id(group_id: str) -> str:
    """Return which counter is the floor of this group's epochs."""
    return f"epoch:{crc32(group_id.encode()) % FLOORS}"


def message(
    *,
    seq: int,
    group_id: str,
    event: object,
    priority: int,
    published_at: float,
    message_id: str | None = None,
    redriven_from: int | None = None,
) -> Document:
    document: Document = {
        "_id": Int64(seq),
        "group_id": group_id,
        "event": event,
        "priority": priority,
        "published_at": published_at,
    }
    if message_id is not None:
        document["message_id"] = message_id
    if redriven_from is not None:
        document["redriven_from"] = redriven_from
    return document


def published_at(document: Mapping[str, Any]) -> float | None:
    """Return when a message was published; None if the original design, or a stranger, wrote it."""
    seconds = document.get("published_at")
    return seconds if isinstance(seconds, float | int) else None


def published_instant(document: Mapping[str, Any]) -> datetime | None:
    seconds = published_at(document)
    return None if seconds is None else instant(seconds)


NOTED = ("priority", "reason", "traceback", "attempts", "interrupted", "died_at", "stops")


def dead_letter(group_id: str, note: Document, message: Document) -> Document:
    """Return a letter that nobody sees yet, from what the settlement noted in the lock."""
    return {
        "_id": Int64(note["seq"]),
        "group_id": group_id,
        **{key: note[key] for key in NOTED if key in note},
        "message": message,
        "pending": True,
    }


def definition(index: Document) -> Document:
    """Return what defines an index, in plain dicts and without what the server adds to it."""
    added = ("v", "ns", "background")
    return {
        key: value.to_dict() if isinstance(value, SON) else value
        for key, value in index.items()
        if key not in added
    }


def same_keys(index: Document, keys: Sequence[tuple[str, int]]) -> bool:
    return list(index["key"].items()) == list(keys)
