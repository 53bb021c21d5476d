"""Schedules, and what clocks that are changed do to them. No time passes here."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from time import process_time
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from fairlane.jobs._cron import Cron
from fairlane.jobs._schedule import (
    GRACE,
    MOST_MADE_UP,
    Every,
    NextRun,
    ScheduleError,
    as_stored,
    duration,
    from_stored,
    is_missed,
    next_tick,
)

HOUR = 3_600.0
DAY = 24 * HOUR


def moments(expression: str, zone: str, start: str, number: int) -> list[str]:
    """Return the ticks after a moment, as the clock of the zone shows them."""
    cron, tick = Cron.checked(expression, zone), datetime.fromisoformat(start).timestamp()
    shown = []
    for _ in range(number):
        tick = cron.after(tick, tick)
        shown.append(f"{datetime.fromtimestamp(tick, ZoneInfo(zone)):%m-%d %H:%M%z}")
    return shown


FORWARD = {
    # Clocks jump from 2:00 to 3:00, at midnight to 1:00, and by half an hour.
    ("30 2 * * *", "America/New_York", "2026-03-07T12:00-05:00"): [
        "03-08 03:00-0400",
        "03-09 02:30-0400",
    ],
    ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00"): [
        "03-29 03:00+0200",
        "03-30 02:30+0200",
    ],
    ("30 0 * * *", "America/Santiago", "2026-09-05T12:00-04:00"): [
        "09-06 01:00-0300",
        "09-07 00:30-0300",
    ],
    ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00+10:30"): [
        "10-04 02:30+1100",
        "10-05 02:15+1100",
    ],
}
BACK = {
    ("30 1 * * *", "America/New_York", "2026-10-31T12:00-04:00"): [
        "11-01 01:30-0400",
        "11-02 01:30-0500",
    ],
    ("30 2 * * *", "Europe/Berlin", "2026-10-24T12:00+02:00"): [
        "10-25 02:30+0200",
        "10-26 02:30+0100",
    ],
    ("30 23 * * *", "America/Santiago", "2026-04-04T12:00-03:00"): [
        "04-04 23:30-0300",
        "04-05 23:30-0400",
    ],
    ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00+11:00"): [
        "04-05 01:45+1100",
        "04-06 01:45+1030",
    ],
}


@pytest.mark.parametrize("case", FORWARD, ids=lambda case: case[1])
def test_time_of_day_that_is_skipped_comes_at_the_change(case: tuple[str, str, str]) -> None:
    assert moments(*case, 2) == FORWARD[case]


@pytest.mark.parametrize("case", BACK, ids=lambda case: case[1])
def test_time_of_day_that_comes_twice_counts_once(case: tuple[str, str, str]) -> None:
    assert moments(*case, 2) == BACK[case]


def test_time_of_day_is_not_repeated_for_who_asks_between_the_two() -> None:
    """At 1:10 for the second time 1:30 has been for the day."""
    assert moments("30 1 * * *", "America/New_York", "2026-11-01T01:10-05:00", 1) == [
        "11-02 01:30-0500"
    ]


def test_times_of_day_that_fall_on_one_moment_are_one_tick() -> None:
    assert moments("10,50 2 * * *", "Europe/Berlin", "2026-03-29T01:00+01:00", 2) == [
        "03-29 03:00+0200",
        "03-30 02:10+0200",
    ]


EACH_HALF_HOUR = {
    "America/New_York": ("2026-03-08T01:00-05:00", ["01:30", "03:00", "03:30"]),
    "Europe/Berlin": ("2026-03-29T01:00+01:00", ["01:30", "03:00", "03:30"]),
    "America/Santiago": ("2026-09-05T23:00-04:00", ["23:30", "01:00", "01:30"]),
    "Australia/Lord_Howe": ("2026-10-04T01:00+10:30", ["01:30", "02:30", "03:00"]),
}


@pytest.mark.parametrize("zone", EACH_HALF_HOUR)
def test_repeating_schedule_makes_up_for_nothing_that_is_skipped(zone: str) -> None:
    start, shown = EACH_HALF_HOUR[zone]
    assert [each[6:11] for each in moments("*/30 * * * *", zone, start, 3)] == shown


AGAIN = {
    "America/New_York": ("2026-11-01T01:00-04:00", ["01:30", "01:00", "01:30", "02:00"]),
    "Europe/Berlin": ("2026-10-25T02:00+02:00", ["02:30", "02:00", "02:30", "03:00"]),
    "America/Santiago": ("2026-04-04T23:00-03:00", ["23:30", "23:00", "23:30", "00:00"]),
    "Australia/Lord_Howe": ("2026-04-05T01:00+11:00", ["01:30", "01:30", "02:00", "02:30"]),
}


@pytest.mark.parametrize("zone", AGAIN)
def test_repeating_schedule_comes_twice_with_the_clock(zone: str) -> None:
    start, shown = AGAIN[zone]
    assert [each[6:11] for each in moments("*/30 * * * *", zone, start, 4)] == shown


@pytest.mark.parametrize(
    "zone", ["America/New_York", "Europe/Berlin", "America/Santiago", "Australia/Lord_Howe"]
)
@pytest.mark.parametrize("expression", ["17 2 * * *", "*/7 * * * *", "0 */3 * * *", "30 0,1 * * *"])
def test_ticks_rise_through_a_year_of_changes(expression: str, zone: str) -> None:
    cron = Cron.checked(expression, zone)
    tick = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    ticks = [tick]
    while tick < datetime(2026, 12, 31, tzinfo=UTC).timestamp() and len(ticks) < 2_000:
        ticks.append(tick := cron.after(tick, tick))
    assert all(earlier < later for earlier, later in pairwise(ticks))


ZONES = (
    "America/New_York",
    "Europe/Berlin",
    "America/Santiago",
    "Australia/Lord_Howe",  # by half an hour
    "Asia/Kolkata",  # never
)


def changes(zone: str) -> list[float]:
    """Return when the clocks of a zone are changed in 2026 and 2027; if never, some other hour."""
    start, known = datetime(2026, 1, 1, tzinfo=UTC), ZoneInfo(zone)
    hours = [start + timedelta(hours=number) for number in range(2 * 365 * 24)]
    found = [
        earlier.timestamp()
        for earlier, later in pairwise(hours)
        if earlier.astimezone(known).utcoffset() != later.astimezone(known).utcoffset()
    ]
    return found or [hours[len(hours) // 2].timestamp()]


def ticks_around(expression: str, zone: str, change: float, days: int) -> list[float]:
    cron, tick = Cron.checked(expression, zone), change - days * DAY
    ticks = []
    while tick < change + days * DAY:
        ticks.append(tick := cron.after(tick, tick))
    return ticks


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", ["30 2 * * *", "0 0 * * *"])
def test_time_of_day_is_one_tick_a_day_over_every_change(expression: str, zone: str) -> None:
    """Fault 59: a time that is missing comes once, and so does one that is doubled."""
    assert len(changes(zone)) == (1 if zone == "Asia/Kolkata" else 4)
    for change in changes(zone):
        ticks = ticks_around(expression, zone, change, days=10)
        days = [datetime.fromtimestamp(tick, ZoneInfo(zone)).date() for tick in ticks]
        assert all(later - earlier == timedelta(1) for earlier, later in pairwise(days))


@pytest.mark.parametrize("zone", ZONES)
def test_interval_is_in_real_time_over_every_change(zone: str) -> None:
    """Fault 59: no tick is left out or comes twice, since both are told by the hour that passes."""
    for change in changes(zone):
        ticks = ticks_around("*/15 * * * *", zone, change, days=2)
        assert {later - earlier for earlier, later in pairwise(ticks)} == {900.0}


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", ["30 2 * * *", "*/15 * * * *", "0 0 * * *"])
def test_tick_is_the_same_whether_or_not_a_change_is_looked_for(expression: str, zone: str) -> None:
    cron = Cron.checked(expression, zone)
    for change in changes(zone):
        for number in range(-16, 17):
            start = datetime.fromtimestamp(change + number * 1_500, UTC)
            wall = start.astimezone(cron.zone).replace(tzinfo=None)
            moment = start.timestamp()
            assert cron.after(moment, moment) == cron._after_change(start, wall)


def test_tick_is_found_in_less_than_a_millisecond() -> None:
    """Fault 59, for 10,000 of them."""
    cron, tick = Cron.checked("30 2 * * *", "Europe/Berlin"), changes("Europe/Berlin")[0]
    began_at = process_time()
    for _ in range(10_000):
        tick = cron.after(tick, tick)
    assert process_time() - began_at < 10.0
    assert datetime.fromtimestamp(tick, UTC).year == 2053


def test_cron_of_santiago_is_that_of_its_winter() -> None:
    """A12.50."""
    tick = Cron.checked("0 9 * * *", "America/Santiago").after(
        datetime(2026, 5, 1, 12, tzinfo=UTC).timestamp(), 0.0
    )
    assert datetime.fromtimestamp(tick, UTC) == datetime(2026, 5, 1, 13, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("24h", DAY), ("1m", 60.0), ("1h30m", 5_400.0), ("0.5s", 0.5), (timedelta(1), DAY), (3, 3.0)],
)
def test_duration_may_be_text(text: Any, seconds: float) -> None:
    assert duration("every", text) == seconds


def test_every_keeps_step_however_late_it_is_asked() -> None:
    every = Every(10.0)
    assert [every.after(moment, 3.0) for moment in (3.0, 12.9, 13.0, 58.0)] == [13, 13, 23, 63]


@pytest.mark.parametrize("period", [0.1, 0.3, 1 / 3, 86_400.0])
def test_every_names_a_later_moment_whatever_floats_make_of_it(period: float) -> None:
    every, tick = Every(period), 1_780_000_000.1
    for _ in range(1_000):
        later = every.after(tick, tick)
        assert tick < later <= tick + 1.01 * period
        tick = later


def test_coalesce_makes_up_for_all_missed_ticks_with_one_run() -> None:
    """A7: missed occurrences collapse into one."""
    assert next_tick(Every(10.0), "coalesce", tick=100.0, now=155.0) == 160.0


def test_all_makes_up_for_each_missed_tick() -> None:
    assert next_tick(Every(10.0), "all", tick=100.0, now=155.0) == 110.0


def test_all_makes_up_for_the_last_hundred_at_most() -> None:
    now = 100.0 + 5_000 * 10.0
    tick, runs = 100.0, 0
    while (tick := next_tick(Every(10.0), "all", tick=tick, now=now)) <= now:
        runs += 1
    assert runs == MOST_MADE_UP


def test_all_makes_up_for_the_last_hundred_of_a_cron_at_most() -> None:
    cron = Cron.checked("* * * * *", "Europe/Berlin")
    start = datetime(2026, 6, 1, tzinfo=UTC).timestamp()
    now, tick, runs = start + 30 * DAY, start, 0
    while (tick := next_tick(cron, "all", tick=tick, now=now)) <= now:
        runs += 1
    assert runs == MOST_MADE_UP


def test_skip_leaves_out_what_is_later_than_its_grace() -> None:
    assert not is_missed("skip", tick=100.0, now=100.0 + GRACE)
    assert is_missed("skip", tick=100.0, now=100.1 + GRACE)
    assert not is_missed("coalesce", tick=100.0, now=1e9)


def test_next_run_of_the_application_decides() -> None:
    schedule = NextRun(lambda after: after + timedelta(hours=2))
    assert next_tick(schedule, "coalesce", tick=0.0, now=HOUR) == 3 * HOUR


def test_all_gives_up_on_a_next_run_with_too_many_missed_ticks() -> None:
    schedule = NextRun(lambda after: after + timedelta(seconds=1))
    assert next_tick(schedule, "all", tick=0.0, now=50.0) == 1.0
    assert next_tick(schedule, "all", tick=0.0, now=5_000.0) == 5_001.0


def boom(after: datetime) -> datetime:
    raise ValueError("boom")


@pytest.mark.parametrize(
    "function",
    [boom, lambda after: after, lambda after: after.replace(tzinfo=None), lambda after: 5],
)
def test_next_run_that_names_no_later_moment_is_told(function: Any) -> None:
    with pytest.raises(ScheduleError, match="next_run"):
        NextRun(function).after(1_000.0, 0.0)


def test_naive_next_run_is_told_with_the_reason() -> None:
    """It is noticed when it is asked: what the function returns cannot be known before."""
    schedule = NextRun(lambda after: after.replace(tzinfo=None) + timedelta(1))
    with pytest.raises(ScheduleError, match=r"tzinfo.*another moment on every machine"):
        schedule.after(1_000.0, 0.0)


def test_stored_schedule_wins_over_that_of_an_older_program() -> None:
    own = Every(10.0)
    cron = Cron.checked("0 3 * * *", "Europe/Berlin")
    assert from_stored(as_stored(cron), own) == cron
    assert from_stored({"every": 20.0}, own) == Every(20.0)
    assert from_stored({"next_run": True}, own) is own
    assert from_stored({"cron": "nonsense", "timezone": "UTC"}, own) is own
