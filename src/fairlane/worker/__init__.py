"""The worker pool: many concurrent claimers in one process."""

from fairlane.worker._calling import Handler
from fairlane.worker._current import current_job, current_lease
from fairlane.worker._health import Health, State
from fairlane.worker._middleware import CallNext, Middleware
from fairlane.worker.events import EventKind, Listener, WorkerEvent
from fairlane.worker.pool import WorkerPool
from fairlane.worker.source import (
    Announcing,
    Foreseeing,
    Mendable,
    Order,
    Reconcilable,
    Repairable,
    Separable,
    SeparateSource,
    Sleeper,
    Source,
    Watchable,
)

__all__ = (
    "Announcing",
    "CallNext",
    "EventKind",
    "Foreseeing",
    "Handler",
    "Health",
    "Listener",
    "Mendable",
    "Middleware",
    "Order",
    "Reconcilable",
    "Repairable",
    "Separable",
    "SeparateSource",
    "Sleeper",
    "Source",
    "State",
    "Watchable",
    "WorkerEvent",
    "WorkerPool",
    "current_job",
    "current_lease",
)
