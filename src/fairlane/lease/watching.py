"""Hear of what others make claimable: one change stream per database, whoever listens.

The stream only wakes sleepers up. What it tells may be late, doubled or lost without harm: they
look for themselves, as they do without it.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

import anyio
from pymongo.errors import OperationFailure

from fairlane.announcing import Sleeper
from fairlane.clock import Clock
from fairlane.driver import UNAUTHORIZED, Changes, ChangeStream, Document, Driver, OpenStream
from fairlane.errors import describe
from fairlane.retry import Backoff

__all__ = ("Member", "Watch", "freeing", "watch_of")

logger: logging.Logger = logging.getLogger(__name__)

AWAIT = 10.0
"""So long the server may wait for changes before it says that there are none."""

PATIENCE = 5.0
"""So much longer an answer may take. Then the connection is dead, though nobody has said so."""

OPENING = 10.0
PAUSE = Backoff(base=0.2, cap=10.0)

PER_CHANGE = 0.01
MOST_PAUSE = 0.25
"""Fewer than a hundred changes a second are told one by one, more of them four times a second."""

NO_STREAMS = frozenset({59, 115, 40_324, 40_573})
"""A standalone server, or one that is not MongoDB, does not know the command or its stage."""

HISTORY_LOST = frozenset({260, 280, 286})
"""The server cannot go on where the stream was; it never will."""


def freeing(names: Iterable[str]) -> list[Document]:
    """Return the stages that let through what makes something claimable in these collections.

    Inserts, and every way out of a lease but the end of a job: each clears the token and says from
    when on; and what lets a stopped group go on, which nobody holds. Claims and renewals, by far
    the most changes, are left out.
    """
    updated = "updateDescription.updatedFields"
    ways = [
        {"operationType": {"$in": ["insert", "replace"]}},
        {"operationType": "update", f"{updated}.token": {"$type": "null"}},
        {"operationType": "update", "updateDescription.removedFields": "stopped"},
    ]
    at = {"$ifNull": ["$fullDocument.available_at", f"${updated}.available_at"]}
    # Only of groups: an ack, after which whoever has sent it looks for the next message itself.
    done = {"$ifNull": [f"${updated}.done", []]}
    return [
        {"$match": {"ns.coll": {"$in": sorted(names)}, "$or": ways}},
        {"$project": {"ns.coll": 1, "at": at, "done": done}},
    ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Member:
    """One who listens. `clock` returns the epoch seconds by which its documents are due."""

    collection: str
    sleeper: Sleeper
    clock: Clock

    def tell(self, change: Document) -> None:
        at = change.get("at")
        if change.get("done"):
            self.sleeper.look_soon()
        elif isinstance(at, float | int):
            self.sleeper.wake(max(0.0, at - self.clock()))
        else:  # whoever has written that
            self.sleeper.wake(0.0)


class Watch:
    """The stream of one database, read by one of those who listen, for all of them.

    When that one leaves, the next one goes on where it has stopped.
    """

    def __init__(self, opens: OpenStream, *, keeps: Sequence[object] = ()) -> None:
        self._opens = opens
        self._keeps = keeps
        self._members: list[Member] = []
        self._reading = anyio.Lock()
        self._round = anyio.CancelScope()
        self._token: Document | None = None
        self._is_live = False
        self._is_refused = False
        self._failures = 0

    async def tell(self, member: Member) -> None:
        """Tell the member until cancelled. Returns only if the server has no change streams.

        Or does not allow them: then until the next life of the watch, if a right is granted later.
        """
        with self._joined(member):
            async with self._reading:
                while not self._is_refused:
                    await self._read_on()

    @contextmanager
    def _joined(self, member: Member) -> Iterator[None]:
        is_wider = member.collection not in self._names
        self._members.append(member)
        if is_wider:
            self._round.cancel()  # whoever reads begins again, by a stream that has it as well
        elif self._is_live:
            member.sleeper.watched(True)
        if self._token is not None:  # what it has missed since it looked, others have been told of
            member.sleeper.wake(0.0)
        try:
            yield
        finally:
            self._members.remove(member)
            member.sleeper.watched(False)
            if not self._members:  # by the time that somebody comes it would be old
                self._token = None

    @property
    def _names(self) -> set[str]:
        return {member.collection for member in self._members}

    async def _read_on(self) -> None:
        delay = 0.0
        with anyio.CancelScope() as self._round:
            try:
                await self._read()
            except Exception as error:
                delay = self._note(error)
        await anyio.sleep(delay)

    async def _read(self) -> None:
        stream = self._opens()
        try:
            await self._follow(stream, await self._opened(stream))
        finally:
            self._is_live = False
            for member in self._members:
                member.sleeper.watched(False)
            await stream.close()

    async def _opened(self, stream: ChangeStream) -> Changes:
        has_missed = self._token is None
        try:
            with anyio.fail_after(OPENING):
                changes = await stream.open(freeing(self._names), self._token)
        except OperationFailure as error:
            self._is_refused = error.code in NO_STREAMS or error.code == UNAUTHORIZED
            self._token = None  # whatever is wrong with it: the next try goes without
            raise
        self._begin(has_missed=has_missed)
        return changes

    async def _follow(self, stream: ChangeStream, changes: Changes) -> None:
        while True:
            self._tell(changes)
            await anyio.sleep(min(MOST_PAUSE, PER_CHANGE * len(changes.documents)))
            with anyio.fail_after(AWAIT + PATIENCE):
                changes = await stream.more(AWAIT)
            self._recover()

    def _begin(self, *, has_missed: bool) -> None:
        self._is_live = True
        for member in self._members:
            member.sleeper.watched(True)
            if has_missed:  # what happened before this stream
                member.sleeper.wake(0.0)

    def _tell(self, changes: Changes) -> None:
        for change in changes.documents:
            for member in self._members:
                if member.collection == change["ns"]["coll"]:
                    member.tell(change)
        self._token = changes.token or self._token
        if changes.is_over:
            raise _DatabaseDropped

    def _recover(self) -> None:
        if self._failures:
            logger.info("the change stream works again after %d failures", self._failures)
        self._failures = 0

    def _note(self, error: Exception) -> float:
        """Log the first error of several; return the seconds until the next try."""
        self._failures += 1
        if getattr(error, "code", None) in HISTORY_LOST or isinstance(error, _DatabaseDropped):
            self._token = None
        if self._is_refused:
            logger.warning("no change stream, idle pools only poll: %s", describe(error, 300))
        elif self._failures == 1:
            logger.info("the change stream failed, pools only poll: %s", describe(error, 300))
        return PAUSE.delay(self._failures)


class _DatabaseDropped(Exception):
    """The stream has ended with its database; one that begins anew is told of the next one."""


_WATCHES: WeakValueDictionary[tuple[int, int, str], Watch] = WeakValueDictionary()
"""What several owners share none of them can hold. A watch lives as long as one of them does."""


def watch_of(driver: Driver, db_name: str) -> Watch | None:
    """Return the watch of this client and database in the running event loop; None without one."""
    opens = driver.watching(db_name)
    if opens is None:
        return None
    loop, client = asyncio.get_running_loop(), driver.client
    key = (id(loop), id(client), db_name)
    watch = _WATCHES.get(key)
    if watch is None:
        keeps = (loop, client)  # so that no others get these ids
        watch = _WATCHES[key] = Watch(opens, keeps=keeps)
    return watch
