"""The job queue: typed jobs with priorities, delays, attempts and unique keys, each done once."""

from fairlane.jobs._drafts import NewJob, OnDuplicate
from fairlane.jobs._listen import Handler
from fairlane.jobs._queue import AsyncJobQueue
from fairlane.jobs._store import Hint
from fairlane.jobs.model import Enqueued, EnqueuedMany, Job, JobStats, Outcome, Reclaimed

__all__ = (
    "AsyncJobQueue",
    "Enqueued",
    "EnqueuedMany",
    "Handler",
    "Hint",
    "Job",
    "JobStats",
    "NewJob",
    "OnDuplicate",
    "Outcome",
    "Reclaimed",
)
