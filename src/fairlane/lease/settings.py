"""How many partitions there are: stored once, so that all programs agree, and changed in two steps.

A change takes effect `SWITCH` seconds after it is stored. Every program looks at the stored number
before a call if it has not for `REREAD` seconds, so until then all of them know both numbers and
look into the partitions of both; only then they begin to put things where the new number says. No
claimer that runs misses anything at any time. (A program that stood still in the middle of a call
may yet put one thing by the old number: the reconciler moves it.)
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fairlane.checks import seconds
from fairlane.driver import Collection, Document
from fairlane.errors import ConfigurationError

__all__ = ("MAX_PARTITIONS", "REREAD", "SWITCH", "Partitioning", "Settings", "partition_count")

MAX_PARTITIONS = 1_024
REREAD = 30.0
SWITCH = 60.0
TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """What the settings say.

    Attributes:
        partitions: into so many things are put, once `switch_at` has come.
        former: into so many they are put until then.
        switch_at: epoch seconds on the server's clock; 0 if nothing was ever changed.
        span: claimers look into so many: as long as something may be there.
    """

    partitions: int = 1
    former: int = 1
    switch_at: float = 0.0
    span: int = 1

    @classmethod
    def stored(cls, document: Mapping[str, Any]) -> "Partitioning":
        """Read the settings document; what it does not say follows from the number.

        Raises `ConfigurationError` if somebody else has written what makes no sense.
        """
        number = partition_count("the stored number of partitions", document.get("partitions", 1))
        return cls(
            partitions=number,
            former=partition_count("the stored former number", document.get("former", number)),
            switch_at=seconds("the stored switch_at", document.get("switch_at", 0.0)),
            span=partition_count("the stored span", document.get("span", number)),
        )

    def placing(self, now: float) -> int:
        """Return the number of partitions by which things are put into one."""
        return self.former if now < self.switch_at else self.partitions

    def changed(self, partitions: int, *, now: float) -> "Partitioning":
        return Partitioning(
            partitions=partitions,
            former=self.placing(now),
            switch_at=now + SWITCH,
            span=max(self.span, partitions),
        )

    def narrowed(self) -> "Partitioning":
        """Return the settings once nothing is left outside of the partitions."""
        return Partitioning(
            partitions=self.partitions, former=self.partitions, span=self.partitions
        )

    def may_narrow(self, now: float) -> bool:
        """Whether nobody puts things outside of the partitions any more."""
        return self.span > self.partitions and now >= self.switch_at + SWITCH

    def document(self) -> Document:
        return asdict(self)


def partition_count(name: str, value: object) -> int:
    """Return a number of partitions, from 1 to `MAX_PARTITIONS`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_PARTITIONS:
        raise ConfigurationError(f"{name} must be an int from 1 to {MAX_PARTITIONS}, not {value!r}")
    return value


class Settings:
    """The settings document of one product among the counters.

    Each has its own: whether nothing is left in old partitions is found out by each for itself.
    """

    def __init__(
        self, wanted: int | None, *, key: str = "settings", product: str = "transport"
    ) -> None:
        self._wanted = wanted
        self._key = key
        self._product = product

    async def learn(self, counters: Collection) -> Partitioning:
        """Return what is stored; store this program's number if nothing is.

        Raises:
            ConfigurationError: another number is stored than this program asked for.
        """
        found = await self._stored(counters)
        if self._wanted not in (None, found.partitions):
            raise ConfigurationError(
                f"{self._key!r} in {counters.name!r} is set to partitions={found.partitions}, this "
                f"program asks for partitions={self._wanted}: leave partitions out to use what is "
                f"stored, or change it for all programs, by a {self._product} that was opened "
                f"without partitions: `await {self._product}.repartition({self._wanted})`"
            )
        return found

    async def _stored(self, counters: Collection) -> Partitioning:
        """Look first: whoever may only read can do so where there is something to read.

        Race: two programs store the first number: `$setOnInsert` keeps that of one of them.
        """
        stored = await counters.find_one({"_id": self._key})
        if stored is None:
            default = {"$setOnInsert": {"partitions": self._wanted or 1}}
            await counters.upsert([({"_id": self._key}, default)])
            return await self.read(counters)
        return Partitioning.stored(stored)

    async def read(self, counters: Collection) -> Partitioning:
        """Return what is stored; one partition if somebody has dropped the collection."""
        return Partitioning.stored(await counters.find_one({"_id": self._key}) or {})

    async def change(self, counters: Collection, partitions: int, *, now: float) -> Partitioning:
        """Store another number, for all programs, and return what is stored now."""
        await counters.upsert([({"_id": self._key}, {"$setOnInsert": {"partitions": partitions}})])
        for _ in range(TRIES):
            found = await self.read(counters)
            if found.partitions == partitions:
                break
            changed = found.changed(partitions, now=now)
            if await self._replace(counters, found, changed):
                found = changed
                break
        else:
            raise ConfigurationError(
                f"others change the settings in {counters.name!r} at the same time; nothing is done"
            )
        self._wanted = None if self._wanted is None else partitions
        return found

    async def narrow(self, counters: Collection, seen: Partitioning) -> Partitioning:
        """Let claimers look into `partitions` only; nothing is left beyond them."""
        await self._replace(counters, seen, seen.narrowed())
        return await self.read(counters)

    async def _replace(
        self, counters: Collection, seen: Partitioning, wanted: Partitioning
    ) -> bool:
        """Race: two programs change the number: the second one must see what the first one did."""
        switch_at = seen.switch_at or {"$in": [None, 0.0]}  # before a first change it is missing
        match = {"_id": self._key, "partitions": seen.partitions, "switch_at": switch_at}
        return await counters.update_one(match, {"$set": wanted.document()})
