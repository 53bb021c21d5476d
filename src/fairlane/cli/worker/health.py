"""What a worker process tells about itself, and a supervisor about all of its processes."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairlane.worker import WorkerPool

__all__ = ("Ask", "Document", "document", "fleet_document", "is_ready")

Document = dict[str, Any]
Ask = Callable[[], Document]

BEST_TO_WORST = ("ok", "stopped", "draining", "starting", "degraded", "silent", "restarting")
OF_NO_POOL: Mapping[str, Any] = {"state": "starting", "running": 0, "leased": 0}


def document(pool: WorkerPool[Any] | None) -> Document:
    """Return the health of the pool; without one the application is about to make it."""
    about: Document = {**OF_NO_POOL, "last_poll_age": None, "worker_id": None, "pid": os.getpid()}
    if pool is not None:
        health = pool.health
        about |= {name: getattr(health, name) for name in (*OF_NO_POOL, "last_poll_age")}
        about["worker_id"] = pool.worker_id
    return about


def fleet_document(processes: Sequence[Document]) -> Document:
    """Return the health of all: the worst state, the oldest poll, and the sum of the rest."""
    ages = [each["last_poll_age"] for each in processes]
    return {
        "state": max((each["state"] for each in processes), key=BEST_TO_WORST.index),
        "running": sum(each["running"] for each in processes),
        "leased": sum(each["leased"] for each in processes),
        "last_poll_age": None if None in ages else max(ages),
        "processes": list(processes),
    }


def is_ready(document: Document) -> bool:
    """Say whether all is as it should be: the state `ok`, and no other."""
    return bool(document["state"] == "ok")
