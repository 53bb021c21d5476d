"""Fairlane: FIFO message groups and job queues on the MongoDB you already run, for asyncio."""

from fairlane.errors import (
    ConfigurationError,
    Duplicate,
    FairlaneError,
    JobLost,
    LeaseLost,
    NotFound,
    PayloadError,
    ServerUnreachable,
)
from fairlane.jobs import (
    AsyncJobQueue,
    Enqueued,
    EnqueuedMany,
    Job,
    JobStats,
    NewJob,
    Outcome,
    Reclaimed,
)
from fairlane.model import DeadLetter, Lease, Message, RepairReport, TransportStats
from fairlane.retry import Backoff, Reject, Retry
from fairlane.sync import JobQueue, MongoTransport
from fairlane.transport import AsyncMongoTransport
from fairlane.worker import WorkerPool

__all__ = (
    "AsyncJobQueue",
    "AsyncMongoTransport",
    "Backoff",
    "ConfigurationError",
    "DeadLetter",
    "Duplicate",
    "Enqueued",
    "EnqueuedMany",
    "FairlaneError",
    "Job",
    "JobLost",
    "JobQueue",
    "JobStats",
    "Lease",
    "LeaseLost",
    "Message",
    "MongoTransport",
    "NewJob",
    "NotFound",
    "Outcome",
    "PayloadError",
    "Reclaimed",
    "Reject",
    "RepairReport",
    "Retry",
    "ServerUnreachable",
    "TransportStats",
    "WorkerPool",
)

__version__ = "0.1.0"
