"""Fairlane: FIFO message groups on the MongoDB you already run, for asyncio."""

from fairlane.errors import (
    ConfigurationError,
    Duplicate,
    FairlaneError,
    LeaseLost,
    NotFound,
    PayloadError,
    ServerUnreachable,
)
from fairlane.model import DeadLetter, Lease, Message, RepairReport, TransportStats
from fairlane.retry import Backoff, Reject, Retry
from fairlane.sync import MongoTransport
from fairlane.transport import AsyncMongoTransport
from fairlane.worker import WorkerPool

__all__ = (
    "AsyncMongoTransport",
    "Backoff",
    "ConfigurationError",
    "DeadLetter",
    "Duplicate",
    "FairlaneError",
    "Lease",
    "LeaseLost",
    "Message",
    "MongoTransport",
    "NotFound",
    "PayloadError",
    "Reject",
    "RepairReport",
    "Retry",
    "ServerUnreachable",
    "TransportStats",
    "WorkerPool",
)

__version__ = "0.1.0"
