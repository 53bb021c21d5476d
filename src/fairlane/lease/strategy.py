"""By which command a document is leased, and how that is found out."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Literal, TypeVar, get_args

from pymongo.errors import OperationFailure, PyMongoError

from fairlane.clock import Clock, uptime
from fairlane.driver import UNAUTHORIZED, Collection, Document, Driver, Sort
from fairlane.errors import ConfigurationError, describe
from fairlane.lease import commands
from fairlane.lease.hints import Index
from fairlane.schema import STRINGS, TOKEN_KEYS, same_keys

__all__ = (
    "STRATEGIES",
    "Leaser",
    "ReadBack",
    "Strategy",
    "checked_strategy",
    "is_hint_refused",
)

T = TypeVar("T")

ReadBack = Callable[[Document], Awaitable[Document | None]]

Strategy = Literal["auto", "find_one_and_update", "update_one"]

STRATEGIES: tuple[str, ...] = get_args(Strategy)
LOOK: Document = {"_id": 1, "priority": 1}

FIND: Strategy = "find_one_and_update"
UPDATE: Strategy = "update_one"

SORTED_UPDATE_WIRE_VERSION = 25  # MongoDB 8.0
HINT_WIRE_VERSION = 9  # MongoDB 4.4: of findAndModify
DISTRUST = 60.0
"""Seconds for which a server that rejected a sorted update is not asked for another one."""

# BadValue, FailedToParse, InvalidOptions, CommandNotSupported, NotImplemented, unsupported (by
# Amazon DocumentDB), IDLUnknownField: said before anything is written.
NOT_UNDERSTOOD = frozenset({2, 9, 72, 115, 238, 303, 40415})

logger: logging.Logger = logging.getLogger(__name__)


def checked_strategy(value: object) -> Strategy:
    if value == FIND:
        return FIND
    if value == UPDATE:
        return UPDATE
    if value != "auto":
        raise ConfigurationError(f"strategy must be one of {STRATEGIES}, not {value!r}")
    return "auto"


def is_hint_refused(code: int | None, message: str) -> bool:
    """Say whether a hinted command failed for its hint: no such index, or no hints at all.

    The codes are those of any command that is not understood, so the words decide: those of the
    cause, as MongoDB repeats the query before it, in which anything may stand.
    """
    return code in NOT_UNDERSTOOD and "hint" in _cause(message).lower()


def _cause(message: str) -> str:
    return message.rpartition("planner returned error")[2].removeprefix(" :: caused by :: ")


class Leaser:
    """Leases the first due document of a collection by the best command that the server has.

    A sorted `update_one` returns no document, so the leased one is read back by its token; that is
    worth it where many claimers contend. `find_one_and_update` works everywhere.
    """

    def __init__(self, driver: Driver, wanted: Strategy, *, monotonic: Clock = uptime) -> None:
        self._driver = driver
        self._wanted = wanted
        self._monotonic = monotonic
        self._is_capable: bool | None = None
        self._chosen: Strategy | None = None
        self._distrusted_until = 0.0
        self._refused: set[Index] = set()

    @property
    def strategy(self) -> Strategy:
        """What is in use; "auto" as long as that is to be found out by the next lease."""
        return self._wanted if self._wanted != "auto" else self._chosen or "auto"

    def forget(self) -> None:
        """Find out anew: after a lost connection it may be another server."""
        self._ask_anew()
        self._distrusted_until = 0.0
        self.hint_again()

    def hint_again(self) -> None:
        """Name the indexes again that were missing: `Hints.measure` has seen them since."""
        self._refused.clear()

    async def detect(self, collection: Collection) -> None:
        """Find out what is best, if that is to be done.

        A failure is not kept: the next lease takes the safe way, and asks again.
        """
        if self.strategy != "auto" or self._monotonic() < self._distrusted_until:
            return
        try:
            is_best = await self._is_sorted_update_good() and await _has_token_index(collection)
        except PyMongoError as error:
            logger.info("cannot tell yet how to claim best: %s", describe(error, 300))
            return
        self._chosen = UPDATE if is_best else FIND

    async def lease(
        self,
        collection: Collection,
        match: Document,
        *,
        token: str,
        now: float,
        until: float,
        sort: Sort,
        hint: Index | None = None,
        marks: Mapping[str, object] | None = None,
        read_back: ReadBack | None = None,
    ) -> Document | None:
        """Lease the first match in the order of `sort` and return it as it is then; None if none.

        An empty document means that the lease was lost at once: there was a match, and may be more.

        `marks` are fields of the product's own that the lease sets besides.

        `hint` names an index by its keys. If the server refuses it, having no such index, the lease
        goes on without, and so do later ones until `forget` or `hint_again`.

        `read_back` reads the one document that matches a filter, on the primary, where that is to
        be done otherwise than by a plain find. If the read fails its lease is given back.
        """
        update = commands.claimed(token=token, until=until, marks=marks)
        read = partial(self._read_back, collection, token, now, read_back)
        attempt = partial(self._attempt, collection, match, update, sort, read)
        if hint is None or not await self._can_hint():
            return await attempt(None)
        return await self._hinted(hint, attempt)

    async def look(
        self,
        collection: Collection,
        match: Document,
        *,
        sort: Sort,
        limit: int,
        hint: Index | None,
        fields: Sequence[str] = (),
        admits: Callable[[Document], bool] | None = None,
    ) -> list[Document]:
        """Return `_id`s and priorities of the first matches; nothing is leased. `hint` as above.

        `admits` is asked about each of them, in order, and sees these fields besides.
        """
        shown = {**LOOK, **dict.fromkeys(fields, 1)}
        look = partial(collection.find, match, sort=sort, limit=limit, fields=shown)
        rows = await self._hinted(hint, lambda by: look(hint=by))
        return [row for row in rows if admits is None or admits(row)]

    async def _can_hint(self) -> bool:
        if not self._driver.is_known:
            await self._driver.server_time()
        return self._driver.wire_version >= HINT_WIRE_VERSION

    async def _hinted(self, hint: Index | None, call: Callable[[Index | None], Awaitable[T]]) -> T:
        if hint is not None and hint not in self._refused:
            try:
                return await call(hint)
            except OperationFailure as error:
                if not _is_about_hint(error):
                    raise
                self._refuse(hint, error)
        return await call(None)

    async def _attempt(
        self,
        collection: Collection,
        match: Document,
        update: Document,
        sort: Sort,
        read_back: Callable[[], Awaitable[Document | None]],
        hint: Index | None,
    ) -> Document | None:
        if await self._is_sorted_update_best(collection):
            try:
                if not await collection.update_one(match, update, sort=sort, hint=hint):
                    return None
                return await read_back()
            except OperationFailure as error:
                if not self._may_blame_sort(error, hint):
                    raise
                self._distrust(error)
        return await collection.find_one_and_update(match, update, sort=sort, hint=hint)

    async def needs_token_index(self) -> bool:
        """Whether leases may have to be read back by their token."""
        if self._wanted != "auto":
            return self._wanted == UPDATE
        return await self._is_sorted_update_good()

    async def _read_back(
        self, collection: Collection, token: str, now: float, read: ReadBack | None
    ) -> Document | None:
        """Return what the token was given to; an empty document if the lease is lost already."""
        taken = commands.taken(token)
        try:
            return await (read or collection.find_one)(taken) or {}
        except BaseException:
            await self._free(collection, taken, now)
            raise

    async def _free(self, collection: Collection, taken: Document, now: float) -> None:
        try:
            await collection.update_one(taken, commands.given_back(now=now))
        except PyMongoError:
            logger.warning("a lease that could not be read back runs out by itself", exc_info=True)

    async def _is_sorted_update_best(self, collection: Collection) -> bool:
        await self.detect(collection)
        return self.strategy == UPDATE

    def _ask_anew(self) -> None:
        self._is_capable = self._chosen = None
        self._driver.is_known = False

    async def _is_sorted_update_good(self) -> bool:
        if self._is_capable is None:
            if not self._driver.is_known:
                await self._driver.server_time()
            self._is_capable = (
                self._driver.wire_version >= SORTED_UPDATE_WIRE_VERSION
                and await self._driver.has_atomic_sorted_updates()
            )
        return self._is_capable

    def _may_blame_sort(self, error: OperationFailure, hint: Index | None) -> bool:
        if hint is not None and _is_about_hint(error):
            return False
        return self._wanted != UPDATE and error.code in NOT_UNDERSTOOD

    def _refuse(self, hint: Index, error: OperationFailure) -> None:
        if hint not in self._refused:  # as of another lease that was under way
            cause = _cause(_message(error))
            logger.warning("leases go without the hint %s: %s", dict(hint), cause)
        self._refused.add(hint)

    def _distrust(self, error: OperationFailure) -> None:
        logger.warning("the server rejected a sorted update: %s", describe(error, 300))
        self._ask_anew()
        self._distrusted_until = self._monotonic() + DISTRUST


def _is_about_hint(error: OperationFailure) -> bool:
    return is_hint_refused(error.code, _message(error))


def _message(error: OperationFailure) -> str:
    """Return what the server said, to which the driver adds the whole reply."""
    return str((error.details or {}).get("errmsg", error))


async def _has_token_index(collection: Collection) -> bool:
    try:
        indexes = await collection.indexes()
    except OperationFailure as error:
        if error.code != UNAUTHORIZED:
            raise
        return False
    return any(
        same_keys(index, TOKEN_KEYS)
        and index.get("partialFilterExpression") in (None, {"token": STRINGS})
        for index in indexes
    )
