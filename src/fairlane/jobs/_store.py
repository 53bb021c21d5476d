"""Where one job queue keeps its documents, and by which index it claims them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from bson.errors import InvalidBSON

from fairlane import schema
from fairlane.clock import instant
from fairlane.driver import Collection, Document, Driver
from fairlane.errors import ConfigurationError
from fairlane.jobs import _job_commands
from fairlane.jobs.model import Job, Recurrence
from fairlane.lease import commands
from fairlane.lease.hints import Hints, Index, by_explaining
from fairlane.lease.indexes import ensure_index
from fairlane.lease.site import Setup, Site
from fairlane.payload import plain, stored
from fairlane.schema import BY_PRIORITY, BY_TYPE

__all__ = ("Hint", "JobStore", "checked_hint", "job_of", "readable", "recurrence_of")

Hint = Literal["adaptive", "by_type", "by_priority"]
CANDIDATES: dict[Hint, tuple[Index, ...]] = {
    "adaptive": (BY_TYPE, BY_PRIORITY),
    "by_type": (BY_TYPE,),
    "by_priority": (BY_PRIORITY,),
}


UNREADABLE = (InvalidBSON, LookupError, OverflowError, TypeError, ValueError)
"""What a document that somebody else has written may raise."""


def checked_hint(value: Hint) -> Hint:
    if value not in tuple(CANDIDATES):
        raise ConfigurationError(f"hint must be one of {tuple(CANDIDATES)}, not {value!r}")
    return value


class JobStore(Site):
    SETTINGS: ClassVar[str] = "settings:jobs"
    NAME: ClassVar[str] = "queue"

    def __init__(self, driver: Driver, setup: Setup, hint: Hint) -> None:
        super().__init__(driver, setup)
        self.jobs: Collection = driver.collection(setup.db_name, f"{setup.prefix}_jobs")
        self.history: Collection = driver.collection(setup.db_name, f"{setup.prefix}_history")
        self._candidates = CANDIDATES[hint]
        self._asked: Sequence[str] = ()
        self._measured: Sequence[str] = ()
        self._measuring = asyncio.Lock()
        self._hints = Hints(
            self._candidates,
            by_explaining(self.jobs, self._asked_for, sort=commands.order_by("priority")),
        )

    @property
    def leased(self) -> Collection:
        return self.jobs

    async def ensure_indexes(self) -> None:
        for model in schema.JOB_INDEXES:
            await ensure_index(self.jobs, model)
        if await self.leaser.needs_token_index():
            await ensure_index(self.jobs, schema.TOKEN_INDEX)

    async def ensure_history(self) -> None:
        """Create the indexes of the history: a queue without one has no use for them."""
        if self._ensure_indexes:
            for model in schema.HISTORY_INDEXES:
                await ensure_index(self.history, model)

    def storable(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return values ready to be written: as their exact bytes, or plain for a fake."""
        return stored(document, as_bytes=self.driver.keeps_bytes)

    async def drop(self) -> None:
        await self.jobs.drop()
        await self.history.drop()
        await self.drop_counters(f"^{self.SETTINGS}$")

    def hint(self, types: Sequence[str], *, is_filtered: bool = False) -> Index | None:
        """Return the index to name in a claim of these types; of any type it can be but one.

        One choice serves all types. It is measured for those that were asked for last. A claim of
        fewer types than usual (`is_filtered`) has to pass over all jobs of the others: only the
        index by type spares that, and it tells nothing about which one suits the usual ones.
        """
        if not types:
            return BY_PRIORITY
        if is_filtered:
            return BY_TYPE
        self._asked = types
        return self._hints.choice() or self._candidates[0]

    async def measure_hints(self) -> None:
        """Find out which index suits the claims that were made last, if that is due."""
        async with self._measuring:
            self._measured = self._asked  # others may be asked for meanwhile
            if self._measured and await self._hints.measure(self.partitioning.span):
                self.leaser.hint_again()

    def _asked_for(self, partition: int) -> Document:
        among = _job_commands.among(self._measured)
        return commands.due(partitions=[partition], now=self.clock(), among=among)


def readable(documents: Sequence[Any]) -> list[Job]:
    """Return claimed jobs that were read as bytes; leave out what only looks like one."""
    jobs = []
    for document in documents:
        try:
            jobs.append(job_of(plain(document), is_claimed=True))
        except UNREADABLE:
            continue
    return jobs


def job_of(document: Document, *, is_claimed: bool = False) -> Job:
    """Return a stored job; only one that was just claimed has its token."""
    return Job(
        id=document["_id"],
        type=document["type"],
        payload=document["payload"],
        state=document["state"],
        priority=document["priority"],
        attempts=document["attempts"],
        interrupted=document.get("interrupted", 0),
        max_attempts=int(document["max_attempts"]),
        created_at=instant(document["created_at"]),
        available_at=document.get("available_at"),
        token=document.get("token") if is_claimed else None,
        epoch=document.get("epoch", 0),
        unique_key=document.get("unique_key", document.get("settled_key")),
        locked_by=document.get("locked_by"),
        locked_at=_instant(document.get("locked_at")),
        last_error=document.get("last_error"),
        done_at=_instant(document.get("done_at")),
        result=document.get("result"),
        kind=document.get("kind", "event"),
        was_stale=is_claimed and _was_stale(document),
        scheduled_at=_instant(document.get("scheduled_at")),
        recurrence=recurrence_of(document),
    )


def _was_stale(document: Document) -> bool:
    """Tell whether a start before this one was left without an answer; not known of old ones."""
    answered = document.get("answered")
    return isinstance(answered, int) and answered < document["attempts"] - 1


def recurrence_of(document: Document) -> Recurrence | None:
    if "schedule" not in document:
        return None
    return Recurrence(
        definition=document["definition"],
        schedule=document["schedule"],
        misfire=document["misfire"],
        priority=document["base_priority"],
    )


def _instant(seconds: float | None) -> Any:
    return None if seconds is None else instant(seconds)
