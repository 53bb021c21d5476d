"""Arguments of the verbs, checked before anything is written."""

from collections.abc import Iterable
from typing import TypeVar

from fairlane import checks
from fairlane.checks import MOST_AT_ONCE, Seconds
from fairlane.errors import ConfigurationError
from fairlane.lease.commands import ORDERS, Order
from fairlane.model import Lease
from fairlane.schema import FRONT
from fairlane.transport._claim import Request

__all__ = ("done", "lease", "leases", "number", "request")

E = TypeVar("E")


def request(
    worker_id: str, visibility: Seconds, min_priority: int, order: Order, batch: int
) -> Request:
    """Return what a claim asks for; raises `ConfigurationError` naming the first bad argument."""
    if order not in tuple(ORDERS):  # a list cannot be looked up in a dict
        raise ConfigurationError(f"order must be one of {tuple(ORDERS)}, not {order!r}")
    return Request(
        worker_id=checks.text("worker_id", worker_id),
        visibility=checks.positive_seconds("visibility", visibility),
        min_priority=checks.priority("min_priority", min_priority),
        order=order,
        batch=checks.count("batch", batch, most=MOST_AT_ONCE),
    )


def done(value: int, held: Lease[E]) -> int:
    """Return how many messages of a lease are done; not all: that is an `ack`."""
    return checks.count("done", value, least=0, most=max(0, len(held.messages) - 1))


def number(seq: int) -> int:
    """Return the number of a message; that of one that came back to the front is negative."""
    is_front = type(seq) is int and FRONT < seq < 0
    return seq if is_front else checks.count("seq", seq)


def leases(several: Iterable[Lease[E]]) -> list[Lease[E]]:
    if isinstance(several, Lease) or not isinstance(several, Iterable):
        raise ConfigurationError(f"leases must be several leases, not {several!r:.100}")
    held = list(several)
    for number, each in enumerate(held):
        lease(each, f"leases[{number}]")
    return held


def lease(value: object, name: str = "lease") -> None:
    if not isinstance(value, Lease):
        raise ConfigurationError(
            f"{name} must be the Lease that claim returned, not {value!r:.100}"
        )
