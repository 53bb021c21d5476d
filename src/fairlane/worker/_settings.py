"""The settings of a pool, checked."""

import os
import socket
import uuid
from dataclasses import dataclass

from fairlane import checks
from fairlane.checks import MOST_AT_ONCE
from fairlane.errors import ConfigurationError
from fairlane.retry import RetryPolicy, checked_policy
from fairlane.worker.source import Order

__all__ = ("Settings",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Durations are seconds."""

    concurrency: int
    claimers: int
    worker_id: str
    visibility: float
    min_priority: int
    order: Order
    batch: int
    max_attempts: int
    backoff: RetryPolicy
    poll_interval: float
    drain_timeout: float
    signals: bool

    def says_more_than(self, **defaults: object) -> bool:
        """Tell whether one of these settings is not left at its default."""
        return any(getattr(self, name) != value for name, value in defaults.items())

    @classmethod
    def checked(
        cls,
        *,
        concurrency: int,
        claimers: int,
        worker_id: str | None,
        visibility: checks.Seconds,
        min_priority: int,
        order: Order,
        batch: int,
        max_attempts: int,
        backoff: RetryPolicy,
        poll_interval: checks.Seconds,
        drain_timeout: checks.Seconds,
        signals: bool,
    ) -> "Settings":
        """Return settings; raises `ConfigurationError` naming the first bad one."""
        return cls(
            concurrency=checks.count("concurrency", concurrency),
            claimers=checks.count("claimers", claimers),
            worker_id=_worker_id(worker_id),
            visibility=checks.positive_seconds("visibility", visibility),
            min_priority=checks.priority("min_priority", min_priority),
            order=_order(order),
            batch=checks.count("batch", batch, most=MOST_AT_ONCE),
            max_attempts=checks.count("max_attempts", max_attempts),
            backoff=checked_policy("backoff", backoff),
            poll_interval=checks.positive_seconds("poll_interval", poll_interval),
            drain_timeout=checks.seconds("drain_timeout", drain_timeout),
            signals=checks.flag("signals", signals),
        )


def _worker_id(value: str | None) -> str:
    if value is None:
        return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    if not checks.text("worker_id", value):
        raise ConfigurationError("worker_id must not be empty")
    return value


def _order(value: Order) -> Order:
    if value not in ("fair", "priority"):
        raise ConfigurationError(f'order must be "fair" or "priority", not {value!r}')
    return value
