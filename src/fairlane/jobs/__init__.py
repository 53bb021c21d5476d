"""The job queue: typed jobs with priorities, delays, attempts and unique keys, each done once."""

from fairlane.jobs._context import JobContext
from fairlane.jobs._definition import Definition, EventJob, RecurringJob
from fairlane.jobs._drafts import NewJob, OnDuplicate
from fairlane.jobs._listen import Handler
from fairlane.jobs._queue import AsyncJobQueue
from fairlane.jobs._registry import Jobs
from fairlane.jobs._schedule import Misfire
from fairlane.jobs._store import Hint
from fairlane.jobs.model import (
    Enqueued,
    EnqueuedMany,
    Execution,
    Job,
    JobStats,
    Outcome,
    Reclaimed,
)

__all__ = (
    "AsyncJobQueue",
    "Definition",
    "Enqueued",
    "EnqueuedMany",
    "EventJob",
    "Execution",
    "Handler",
    "Hint",
    "Job",
    "JobContext",
    "JobStats",
    "Jobs",
    "Misfire",
    "NewJob",
    "OnDuplicate",
    "Outcome",
    "Reclaimed",
    "RecurringJob",
)
