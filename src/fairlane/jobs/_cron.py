"""Cron expressions in a time zone, and what becomes of them when clocks are changed.

The expression is matched against the wall clock without a zone, by `cronsim`; here wall clock times
become moments:

* A schedule whose minute and hour are both fixed (neither begins with `*`) means times of day. Of
  a time that the clock skips it takes the first moment after the change; of a time that comes twice
  the first one. Several that fall on one moment are one tick.
* Any other one follows the clock: a skipped time is no tick, and one that comes twice is two.

That is the rule of Vixie cron and its descendants, for zones with changes of any size.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fairlane.clock import instant
from fairlane.errors import ConfigurationError

__all__ = ("Cron",)

FIELDS = 5
MARGIN = timedelta(hours=3)
"""More than any clock is changed by (an hour, or half of it), so that no tick hides behind one."""
MINUTE = timedelta(minutes=1)
GAP_MINUTES = 24 * 60
"""A zone that moves over the date line skips a day."""


@dataclass(frozen=True, slots=True)
class Cron:
    expression: str
    zone: ZoneInfo

    @classmethod
    def checked(cls, expression: Any, zone: Any) -> "Cron":
        """Return a schedule that has ticks; raises `ConfigurationError` for any other."""
        if not isinstance(expression, str) or len(expression.split()) != FIELDS:
            raise ConfigurationError(
                "cron must be five fields: minute, hour, day of month, month and day of week, "
                f"not {expression!r}"
            )
        cron = cls(expression, _zone(zone))
        try:
            next(cron._wall_times(datetime(2000, 1, 1)))  # noqa: DTZ001 # a wall clock has none
        except ConfigurationError:
            raise
        except StopIteration:
            raise ConfigurationError(f"cron {expression!r} never comes") from None
        except Exception as error:
            raise ConfigurationError(f"cron {expression!r} is no schedule: {error}") from error
        return cron

    @property
    def is_fixed(self) -> bool:
        """Whether it means times of day."""
        minute, hour, *_ = self.expression.split()
        return not (minute.startswith("*") or hour.startswith("*"))

    def after(self, moment: float, since: float) -> float:
        start = instant(moment)
        wall = start.astimezone(self.zone).replace(tzinfo=None)
        time = next(self._wall_times(wall))
        tick = time.replace(tzinfo=self.zone).astimezone(UTC)
        if self._is_steady(start) and self._is_steady(tick):  # nearly always, and so much quicker
            return tick.timestamp()
        return self._after_change(start, wall)

    def _is_steady(self, moment: datetime) -> bool:
        """Tell whether the clock of the zone is changed neither shortly before nor after."""
        around = (moment - MARGIN, moment + MARGIN)
        before, after = (each.astimezone(self.zone).utcoffset() for each in around)
        return before == after

    def _after_change(self, start: datetime, wall: datetime) -> float:
        """Return the first tick, whichever wall clock time it belongs to."""
        best: datetime | None = None
        for time in self._wall_times(wall - MARGIN):
            if best is not None and time > _wall(best, self.zone) + MARGIN:
                break
            ticks = [tick for tick in self._moments(time) if tick > start]
            best = min([*ticks, *([] if best is None else [best])], default=None)
        assert best is not None  # it never ends: `checked` has seen a tick
        return best.timestamp()

    def before(self, moment: float, since: float, number: int) -> float:
        wall = instant(moment).astimezone(self.zone).replace(tzinfo=None)
        # A second later, so that a tick of this moment is the first one before it.
        times = self._wall_times(wall + timedelta(seconds=1), reverse=True)
        for _, time in zip(range(number), times, strict=False):
            oldest = time
        # A second earlier, so that this tick is the first one after it.
        return max(since, oldest.replace(tzinfo=self.zone).timestamp() - 1)

    def _wall_times(self, start: datetime, *, reverse: bool = False) -> Iterator[datetime]:
        return iter(_simulation()(self.expression, start, reverse=reverse))

    def _moments(self, wall: datetime) -> list[datetime]:
        first = wall.replace(tzinfo=self.zone, fold=0).astimezone(UTC)
        second = wall.replace(tzinfo=self.zone, fold=1).astimezone(UTC)
        if _wall(first, self.zone) != wall:  # it does not exist
            return [self._after_gap(wall)] if self.is_fixed else []
        return [first] if self.is_fixed or first == second else [first, second]

    def _after_gap(self, wall: datetime) -> datetime:
        """Return the first moment after the change that has skipped this time."""
        for _ in range(GAP_MINUTES):
            wall += MINUTE
            moment = wall.replace(tzinfo=self.zone).astimezone(UTC)
            if _wall(moment, self.zone) == wall:
                return moment
        return moment


def _wall(moment: datetime, zone: ZoneInfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def _zone(name: Any) -> ZoneInfo:
    if not isinstance(name, str):
        raise ConfigurationError(
            f'cron needs a timezone, the IANA name of one such as "Europe/Berlin", not {name!r}'
        )
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigurationError(
            f"there is no timezone {name!r} here (an IANA name; where the system has none, the "
            "package tzdata does)"
        ) from error


def _simulation() -> Any:
    try:
        from cronsim import CronSim
    except ImportError as error:
        raise ConfigurationError(
            "cron needs the package cronsim: pip install 'fairlane[cron]'"
        ) from error
    return CronSim
