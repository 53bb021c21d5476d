"""A client like another one, with connections of its own, for another event loop."""

from collections.abc import Callable
from typing import Any

import pymongo

from fairlane.driver._kinds import Kind

__all__ = ("copying",)

SMALL = {"maxPoolSize": 4, "minPoolSize": 0}
"""It is for renewals, or for a stream: a few calls at a time, whatever the original may open."""

NOT_COPIED = frozenset(
    {
        "connect",
        "document_class",  # of a class that updates cannot be told about: see `server_time`
        "type_registry",
        # They may belong to the event loop of the original.
        "event_listeners",
        "auto_encryption_opts",
        *map(str.lower, SMALL),
    }
)


def copying(client: Any, kind: Kind, **changes: Any) -> Callable[[], Any] | None:
    """Return what opens a copy in the loop that calls it; None if this client cannot be copied.

    `changes` are options of the copy that differ from those of the client, also from its URL's.

    PyMongo keeps what a client was made from, and copies clients by it itself, but says so nowhere
    in public: a version without it has its leases renewed through the original.
    """
    if kind == "mongomock":
        return None
    made_from = getattr(client.delegate if kind == "motor" else client, "_init_kwargs", None)
    if not isinstance(made_from, dict):
        return None
    changed = {key.lower() for key in changes}
    copied = {
        key: value
        for key, value in made_from.items()
        if _is_copied(key) and key.lower() not in changed
    }
    options = copied | SMALL | changes
    return lambda: pymongo.AsyncMongoClient(**options)


def _is_copied(option: str) -> bool:
    return not option.startswith("_") and option.lower() not in NOT_COPIED
