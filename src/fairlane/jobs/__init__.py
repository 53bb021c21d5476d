"""The job queue: typed jobs with priorities, delays, attempts and unique keys, each done once."""

from fairlane.jobs._enqueue import NewJob
from fairlane.jobs._queue import AsyncJobQueue
from fairlane.jobs.model import Enqueued, EnqueuedMany, Job, JobStats, Outcome, Reclaimed

__all__ = (
    "AsyncJobQueue",
    "Enqueued",
    "EnqueuedMany",
    "Job",
    "JobStats",
    "NewJob",
    "Outcome",
    "Reclaimed",
)
