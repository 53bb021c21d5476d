"""Where one product keeps what is leased: settings, server time and strategy of its collections."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, fields, replace
from inspect import iscoroutinefunction
from typing import Any, ClassVar, TypeVar

from pymongo.errors import PyMongoError

from fairlane import checks, schema
from fairlane.announcing import Sleeper
from fairlane.clock import Clock, ServerClock, uptime
from fairlane.driver import Collection, Driver, copying
from fairlane.errors import ConfigurationError, FairlaneError, describe
from fairlane.lease.settings import REREAD, Partitioning, Settings, partition_count
from fairlane.lease.strategy import Leaser, Strategy, checked_strategy
from fairlane.lease.watching import Member, Watch, watch_of

__all__ = ("Setup", "Site", "checked_setup")

RETRY = 1.0
"""Seconds until settings that could not be read are read again."""

T = TypeVar("T")

logger: logging.Logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a product is opened with, checked.

    Attributes:
        clock: returns epoch seconds; None for the server's time.
        partitions: None for what is stored.
        ensure_indexes: whether to create missing ones.
        wakeups: whether to watch for what others make claimable.
    """

    db_name: str
    prefix: str
    clock: Clock | None
    partitions: int | None
    strategy: Strategy
    ensure_indexes: bool
    wakeups: bool


def checked_setup(
    *,
    db_name: str,
    prefix: str,
    clock: Clock | None,
    partitions: int | None,
    strategy: Strategy,
    ensure_indexes: bool,
    wakeups: bool,
) -> Setup:
    """Return a setup; raises `ConfigurationError` naming the first bad argument."""
    if partitions is not None:
        partition_count("partitions", partitions)
    if clock is not None and (not callable(clock) or iscoroutinefunction(clock)):
        raise ConfigurationError(
            f"clock must be a plain callable that returns epoch seconds, not {clock!r}"
        )
    return Setup(
        db_name=schema.db_name(db_name),
        prefix=schema.prefix(prefix),
        clock=clock,
        partitions=partitions,
        strategy=checked_strategy(strategy),
        ensure_indexes=ensure_indexes,
        wakeups=checks.flag("wakeups", wakeups),
    )


class Site(ABC):
    """What all operations of a product share. A product adds its collections and its indexes."""

    SETTINGS: ClassVar[str] = "settings"
    """The `_id` of the document that says how many partitions there are."""

    NAME: ClassVar[str] = "transport"
    """What users call it."""

    def __init__(self, driver: Driver, setup: Setup, *, monotonic: Clock = uptime) -> None:
        self.driver = driver
        self.setup: Setup = setup
        self.clock: Clock = ServerClock() if setup.clock is None else setup.clock
        self.counters: Collection = driver.collection(setup.db_name, f"{setup.prefix}_counters")
        self.leaser: Leaser = Leaser(driver, setup.strategy)
        self.partitioning: Partitioning = Partitioning()
        self._settings = Settings(setup.partitions, key=self.SETTINGS, product=self.NAME)
        self._monotonic = monotonic
        self._reread_at = 0.0
        self._ensure_indexes = setup.ensure_indexes
        self._is_ready = False
        self._closed_as: str | None = None
        self._starting = asyncio.Lock()
        self._watch: Watch | None = None
        driver.on_disconnect = self._disconnected

    @property
    @abstractmethod
    def leased(self) -> Collection:
        """The collection whose documents are leased."""

    @abstractmethod
    async def ensure_indexes(self) -> None: ...

    def separate(self, product: Callable[..., T]) -> Callable[[], T] | None:
        """Return what opens such a product for settlements, with a client of its own.

        None if this client cannot be copied.
        """
        opens = copying(self.driver.client, self.driver.kind)
        setup = replace(
            self.setup, partitions=None, strategy="find_one_and_update", ensure_indexes=False
        )
        options = {each.name: getattr(setup, each.name) for each in fields(setup)}
        return None if opens is None else lambda: product(opens(), **options)

    @property
    def watch(self) -> Callable[[Sleeper], Coroutine[Any, Any, None]] | None:
        """What tells of all that becomes claimable here, until cancelled; None if it is off."""
        return self._tell if self.setup.wakeups else None

    async def _tell(self, sleeper: Sleeper) -> None:
        self._watch = watch = watch_of(self.driver, self.setup.db_name)
        if watch is not None:
            await watch.tell(Member(collection=self.leased.name, sleeper=sleeper, clock=self.clock))

    async def ready(self) -> None:
        """Learn the server's time, the settings and the indexes, once; a failure is not kept.

        The settings are read again when they are `REREAD` seconds old.

        Raises:
            FairlaneError: it has been closed.
        """
        if self._closed_as is not None:
            raise FairlaneError(
                f"this {self._closed_as} has been closed: open another one, and use it inside its "
                "`async with` block"
            )
        if self._is_ready and self._monotonic() < self._reread_at:
            return
        async with self._starting:
            if not self._is_ready:
                await self._start()
            elif self._monotonic() >= self._reread_at:
                await self._try_to_reread()

    def close(self, name: str) -> None:
        """Refuse what comes from now on; `name` is what was closed."""
        self._closed_as = name

    async def _try_to_reread(self) -> None:
        """Go on by what is known if the settings cannot be read: leases have to be settled."""
        try:
            await self.reread_settings()
        except (ConfigurationError, PyMongoError) as error:
            logger.warning("the settings cannot be read: %s", describe(error, 300))
            self._reread_at = self._monotonic() + RETRY

    async def reread_settings(self) -> None:
        """Learn what the settings say by now; a change is followed, whatever was asked for."""
        asked_at = self._monotonic()
        self._follow(await self._settings.read(self.counters), asked_at)

    async def change_partitions(self, partitions: int) -> Partitioning:
        """Change the settings for all programs and return what they say now."""
        asked_at = self._monotonic()
        changed = await self._settings.change(self.counters, partitions, now=await self.now())
        self._follow(changed, asked_at)
        return changed

    async def narrow(self) -> None:
        """Let claimers stop looking where nothing is any more."""
        if self.partitioning.may_narrow(await self.now()):
            asked_at = self._monotonic()
            narrowed = await self._settings.narrow(self.counters, self.partitioning)
            self._follow(narrowed, asked_at)

    def partition_of(self, key: str) -> int:
        return schema.partition_of(key, self.placing())

    def placing(self) -> int:
        """Return the number of partitions into which things are put at the moment."""
        return self.partitioning.placing(self.clock())

    async def now(self) -> float:
        """Return the server's time in epoch seconds, asking the server again when it is due."""
        if isinstance(self.clock, ServerClock) and self.clock.is_due:
            await self.clock.refresh(self.driver.server_time)
        return self.clock()

    async def drop_counters(self, pattern: str) -> None:
        """Delete the counters with such ids, those of this product, and begin anew."""
        await self.counters.delete_many({"_id": {"$regex": pattern}})
        if not await self.counters.count({}):
            await self.counters.drop()
        self._is_ready = False

    async def _start(self) -> None:
        await self._learn_server()
        asked_at = self._monotonic()
        self._follow(await self._settings.learn(self.counters), asked_at)
        if self._ensure_indexes:
            await self.ensure_indexes()
        await self.leaser.detect(self.leased)
        self._is_ready = True

    def _follow(self, found: Partitioning, asked_at: float) -> None:
        if self._is_ready and found.partitions != self.partitioning.partitions:
            logger.warning(
                "the number of partitions in %r was changed from %d to %d",
                *(self.counters.name, self.partitioning.partitions, found.partitions),
            )
        self.partitioning = found
        self._reread_at = asked_at + REREAD

    def _disconnected(self) -> None:
        if isinstance(self.clock, ServerClock):
            self.clock.expire()
        self.leaser.forget()

    async def _learn_server(self) -> None:
        if isinstance(self.clock, ServerClock):
            await self.clock.refresh(self.driver.server_time)
        else:
            await self.driver.server_time()
