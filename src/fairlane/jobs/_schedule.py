"""Schedules: which moments a recurring job runs at. Pure functions of moments; nothing waits here.

Moments are epoch seconds. A tick is a moment that a schedule names.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, get_args

from fairlane import checks
from fairlane.checks import Seconds
from fairlane.clock import instant
from fairlane.driver import Document
from fairlane.errors import ConfigurationError
from fairlane.jobs._cron import Cron

__all__ = (
    "GRACE",
    "MOST_MADE_UP",
    "Every",
    "Misfire",
    "NextRun",
    "Schedule",
    "ScheduleError",
    "as_stored",
    "checked_misfire",
    "checked_schedule",
    "duration",
    "from_stored",
    "is_missed",
    "next_tick",
)

Misfire = Literal["coalesce", "skip", "all"]

MOST_MADE_UP = 100
"""So many missed ticks are made up at most with `misfire="all"`: the last ones."""

GRACE = 60.0
"""Seconds by which a tick may be late before `misfire="skip"` leaves it out."""

UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
DURATION = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+")
PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])")


class ScheduleError(Exception):
    """A `next_run` of the application raised, or returned what is no later moment."""


class Schedule(Protocol):
    def after(self, moment: float, since: float) -> float:
        """Return the first tick after `moment`; `since` is one that is known. `ScheduleError`."""
        ...

    def before(self, moment: float, since: float, number: int) -> float:
        """Return about the tick that is `number` ticks back from `moment`, or `since`."""
        ...


@dataclass(frozen=True, slots=True)
class Every:
    """A tick each `seconds`, in step with the ticks there were."""

    seconds: float

    def after(self, moment: float, since: float) -> float:
        steps = max(1, math.floor((moment - since) / self.seconds) + 1)
        tick = since + steps * self.seconds
        return tick if tick > moment else tick + self.seconds  # floats round

    def before(self, moment: float, since: float, number: int) -> float:
        return max(since, moment - number * self.seconds)


@dataclass(frozen=True, slots=True)
class NextRun:
    """Ticks that a function of the application names."""

    function: Callable[[datetime], Any]

    def after(self, moment: float, since: float) -> float:
        try:
            answer = self.function(instant(moment))
        except Exception as error:
            raise ScheduleError(f"next_run raised {error!r}") from error
        if not isinstance(answer, datetime):
            raise ScheduleError(f"next_run must return a datetime with a tzinfo, not {answer!r}")
        if answer.utcoffset() is None:
            raise ScheduleError(
                f"next_run must return a datetime with a tzinfo: {answer!r} is another moment on "
                "every machine"
            )
        tick = answer.timestamp()
        if tick <= moment:
            raise ScheduleError(f"next_run returned {answer}, which is not after {instant(moment)}")
        return tick

    def before(self, moment: float, since: float, number: int) -> float:
        """Walk forward: if there are more than `number`, none of them is made up."""
        tick = since
        for _ in range(number):
            tick = self.after(tick, tick)
            if tick > moment:
                return since
        return moment


def next_tick(schedule: Schedule, misfire: Misfire, *, tick: float, now: float) -> float:
    """Return the tick after the run for `tick` has ended, by what is done about missed ones."""
    if misfire != "all":
        return schedule.after(max(now, tick), tick)
    oldest = schedule.before(now, tick, MOST_MADE_UP)
    return schedule.after(max(tick, oldest), tick)


def is_missed(misfire: Misfire, *, tick: float, now: float) -> bool:
    """Tell whether a run that would start now is left out."""
    return misfire == "skip" and now - tick > GRACE


def checked_misfire(value: Any) -> Misfire:
    if value not in get_args(Misfire):
        raise ConfigurationError(f"misfire must be one of {get_args(Misfire)}, not {value!r}")
    return value  # type: ignore[no-any-return]


def checked_schedule(*, every: Any, cron: Any, timezone: Any, next_run: Any) -> Schedule:
    """Return the schedule of which exactly one was given."""
    given = [name for name, value in _named(every, cron, next_run) if value is not None]
    if len(given) != 1:
        names = " and ".join(given) or "none of them"
        raise ConfigurationError(f"give one of every, cron and next_run, not {names}")
    if timezone is not None and cron is None:
        raise ConfigurationError("timezone belongs to cron; leave it out")
    if cron is not None:
        return Cron.checked(cron, timezone)
    if every is not None:
        return Every(duration("every", every))
    return NextRun(checks.function("next_run", next_run, "after"))


def _named(every: Any, cron: Any, next_run: Any) -> Iterator[tuple[str, Any]]:
    yield from (("every", every), ("cron", cron), ("next_run", next_run))


def duration(name: str, value: Seconds | str) -> float:
    """Return seconds from a number, a `timedelta` or text such as "1h30m"."""
    if not isinstance(value, str):
        return checks.positive_seconds(name, value)
    if not DURATION.fullmatch(value):
        raise ConfigurationError(
            f'{name} must be seconds, a timedelta or text such as "24h" or "1h30m" (d, h, m, s), '
            f"not {value!r}"
        )
    total = sum(float(number) * UNITS[unit] for number, unit in PART.findall(value))
    return checks.positive_seconds(name, total)


def as_stored(schedule: Schedule) -> Document:
    """Return a schedule as its record keeps it; of a function it can say only that it is one."""
    if isinstance(schedule, Every):
        return {"every": schedule.seconds}
    if isinstance(schedule, Cron):
        return {"cron": schedule.expression, "timezone": schedule.zone.key}
    return {"next_run": True}


def from_stored(document: Document, own: Schedule) -> Schedule:
    """Return the schedule that a record names; `own` if only another program could tell."""
    if document == as_stored(own):
        return own
    try:
        if "every" in document:
            return Every(float(document["every"]))
        if "cron" in document:
            return Cron.checked(document["cron"], document["timezone"])
    except (ConfigurationError, ValueError):
        return own
    return own
