"""What a pool tells its observer: one small value for each thing that happens to a lease."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from fairlane.worker._work import Work

__all__ = ("EventKind", "Listener", "Reporter", "WorkerEvent")

logger: logging.Logger = logging.getLogger(__name__)

EventKind = Literal[
    "claimed",
    "handler_failed",
    "acked",
    "nacked",
    "dead_lettered",
    "released",
    "lease_lost",
    "unsettled",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEvent:
    """Something happened to one lease of a pool.

    Every `claimed` is followed by exactly one of `acked`, `nacked`, `dead_lettered`, `released`,
    `lease_lost` (somebody else may have the group by now) and `unsettled` (the source did not
    answer, or a thread could not be stopped: the message may be delivered again when its lease
    has run out).
    `handler_failed` comes in between when the handler raised, `Retry` and `Reject` included.

    Attributes:
        kind: what happened.
        worker_id: of the pool.
        attempt, epoch: of the lease.
        group_id, seq: of the message, if it is one; of a batch the first one's.
        messages: how many messages are under the lease.
        job_id, job_type: of the job, if it is one.
        delay: seconds until the message is claimable again, for `nacked`.
        reason: why, where something went wrong.
    """

    kind: EventKind
    worker_id: str
    attempt: int
    epoch: int
    group_id: str = ""
    seq: int = 0
    messages: int = 1
    job_id: str = ""
    job_type: str = ""
    delay: float = 0.0
    reason: str | None = None


Listener = Callable[[WorkerEvent], None]


class Reporter:
    """Hands events to the listener; a listener that raises is logged once and cannot do harm."""

    def __init__(self, listener: Listener | None, worker_id: str) -> None:
        self._listener = listener
        self._worker_id = worker_id
        self._has_failed = False

    def __call__(
        self, kind: EventKind, work: "Work", *, delay: float = 0.0, reason: str | None = None
    ) -> None:
        if self._listener is None:
            return
        event = WorkerEvent(
            kind=kind,
            worker_id=self._worker_id,
            **work.identity,
            attempt=work.attempt,
            epoch=work.epoch,
            delay=delay,
            reason=reason,
        )
        try:
            self._listener(event)
        except (Exception, asyncio.CancelledError):
            if not self._has_failed:
                logger.exception("on_event raised; its later errors are not logged")
            self._has_failed = True
