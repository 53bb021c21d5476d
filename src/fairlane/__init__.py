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
    Execution,
    Job,
    JobContext,
    Jobs,
    JobStats,
    NewJob,
    Outcome,
    Reclaimed,
)
from fairlane.model import DeadLetter, Lease, Message, RepairReport, TransportStats
from fairlane.retry import Backoff, Discard, Fail, Reject, Retry, RetryPolicy, Snooze
from fairlane.sync import JobQueue, MongoTransport
from fairlane.transport import AsyncMongoTransport
from fairlane.worker import CallNext, Middleware, WorkerPool, current_job, current_lease

__all__ = (
    "AsyncJobQueue",
    "AsyncMongoTransport",
    "Backoff",
    "CallNext",
    "ConfigurationError",
    "DeadLetter",
    "Discard",
    "Duplicate",
    "Enqueued",
    "EnqueuedMany",
    "Execution",
    "Fail",
    "FairlaneError",
    "Job",
    "JobContext",
    "JobLost",
    "JobQueue",
    "JobStats",
    "Jobs",
    "Lease",
    "LeaseLost",
    "Message",
    "Middleware",
    "MongoTransport",
    "NewJob",
    "NotFound",
    "Outcome",
    "PayloadError",
    "Reclaimed",
    "Reject",
    "RepairReport",
    "Retry",
    "RetryPolicy",
    "ServerUnreachable",
    "Snooze",
    "TransportStats",
    "WorkerPool",
    "current_job",
    "current_lease",
)

__version__ = "0.1.0"
