"""The settings of a pool, checked."""

import os
import socket
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairlane import checks
from fairlane.checks import MOST_AT_ONCE
from fairlane.errors import ConfigurationError
from fairlane.retry import RetryPolicy, checked_policy
from fairlane.worker.source import Order

__all__ = ("Settings", "checked_shares")

LEAST_SHARE, LARGEST_SHARE = 1e-6, 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Durations are seconds. Those of lanes say what `concurrency` and `min_priority` are."""

    concurrency: int
    lanes: Mapping[int, int] | None
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

    @property
    def slots(self) -> Mapping[int, int]:
        """How many there are, by the least priority of what they are for."""
        return self.lanes or {self.min_priority: self.concurrency}

    def says_more_than(self, **defaults: object) -> bool:
        """Tell whether one of these settings is not left at its default."""
        return any(getattr(self, name) != value for name, value in defaults.items())

    @classmethod
    def checked(
        cls,
        *,
        concurrency: int | None,
        lanes: Mapping[int, int] | None,
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
        if lanes is not None:
            lanes = _lanes(lanes)
            concurrency, min_priority = _of_lanes(lanes, concurrency, min_priority)
        return cls(
            concurrency=checks.count("concurrency", 10 if concurrency is None else concurrency),
            lanes=lanes,
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


def checked_shares(value: object, parts: int) -> tuple[float, ...]:
    """Return the shares of the parts of a pool, equal ones where nothing is said."""
    if value is None:
        return (1.0,) * parts
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != parts:
        raise ConfigurationError(
            f"shares must be as many numbers as there are parts, {parts}, not {value!r}"
        )
    for share in value:
        is_number = isinstance(share, int | float) and not isinstance(share, bool)
        if not is_number or not LEAST_SHARE <= share <= LARGEST_SHARE:
            raise ConfigurationError(
                f"shares must be numbers from {LEAST_SHARE:g} to {LARGEST_SHARE:g}, not {share!r}"
            )
    return tuple(value)


def _worker_id(value: str | None) -> str:
    if value is None:
        return f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    if not checks.text("worker_id", value):
        raise ConfigurationError("worker_id must not be empty")
    return value


def _lanes(value: object) -> Mapping[int, int]:
    if not isinstance(value, Mapping) or not value:
        raise ConfigurationError(
            f"lanes must be a dict of slots by floor, such as {{3: 8, 0: 24}}, not {value!r}"
        )
    return {
        checks.priority("a floor of lanes", floor): checks.count(f"lanes[{floor}]", slots)
        for floor, slots in value.items()
    }


def _of_lanes(
    lanes: Mapping[int, int], concurrency: int | None, min_priority: int
) -> tuple[int, int]:
    """Return what the lanes say; the arguments must not say anything else."""
    slots = sum(lanes.values())
    if concurrency not in (None, slots):
        raise ConfigurationError(f"concurrency is the sum of the lanes, {slots}: leave it out")
    if min_priority != 0:
        raise ConfigurationError("min_priority is the lowest floor of the lanes: leave it out")
    return slots, min(lanes)


def _order(value: Order) -> Order:
    if value not in ("fair", "priority"):
        raise ConfigurationError(f'order must be "fair" or "priority", not {value!r}')
    return value
