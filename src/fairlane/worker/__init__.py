"""The worker pool: many concurrent claimers in one process."""

from fairlane.worker._calling import Handler
from fairlane.worker._health import Health, State
from fairlane.worker.events import EventKind, Listener, WorkerEvent
from fairlane.worker.pool import WorkerPool
from fairlane.worker.source import (
    Announcing,
    Order,
    Reconcilable,
    Repairable,
    Separable,
    SeparateSource,
    Source,
)

__all__ = (
    "Announcing",
    "EventKind",
    "Handler",
    "Health",
    "Listener",
    "Order",
    "Reconcilable",
    "Repairable",
    "Separable",
    "SeparateSource",
    "Source",
    "State",
    "WorkerEvent",
    "WorkerPool",
)
