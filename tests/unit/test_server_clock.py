"""The server's time, kept against a monotonic clock that tests move."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from fairlane.clock import ServerClock, instant


class World:
    """A server whose clock is right, and a machine with a monotonic and a wrong wall clock."""

    def __init__(self) -> None:
        self.now = 5_000_000.0
        self.round_trips: list[float] = []
        self.probes = 0
        self.answers = True
        self.clock = ServerClock(
            monotonic=lambda: self.now - 4_999_000.0, wall=lambda: self.now - 77.0
        )

    async def server_time(self) -> float | None:
        """Answer after a round trip, half of which passes before the server looks at its clock."""
        self.probes += 1
        trip = self.round_trips.pop(0) if self.round_trips else 0.0
        self.now += trip / 2
        told = self.now
        self.now += trip / 2
        return told if self.answers else None

    async def refresh(self) -> None:
        await self.clock.refresh(self.server_time)


@pytest.fixture
def world() -> World:
    return World()


def test_clock_tells_the_wall_time_until_it_has_asked(world: World) -> None:
    assert world.clock() == world.now - 77


async def test_clock_tells_the_server_time_once_it_has_asked(world: World) -> None:
    await world.refresh()
    assert world.clock() == world.now


async def test_clock_goes_on_with_the_monotonic_clock(world: World) -> None:
    await world.refresh()
    world.now += 42.5
    assert world.clock() == world.now


async def test_half_of_the_round_trip_bounds_the_error(world: World) -> None:
    world.round_trips = [0.5, 0.5, 0.5]
    await world.refresh()
    assert world.clock.error == pytest.approx(0.25)
    assert abs(world.clock() - world.now) <= 0.25


async def test_quickest_probe_counts(world: World) -> None:
    world.round_trips = [0.9, 0.1, 0.4]
    await world.refresh()
    assert world.clock.error == pytest.approx(0.05)


async def test_reading_is_wrong_by_at_most_the_error_whichever_way_the_trip_is_lopsided(
    world: World,
) -> None:
    async def late_answer() -> float:
        told = world.now
        world.now += 0.4
        return told

    await world.clock.refresh(late_answer)
    assert abs(world.clock() - world.now) <= world.clock.error + 1e-6


def test_refresh_is_due_at_first(world: World) -> None:
    assert world.clock.is_due


async def test_refresh_is_due_a_minute_later(world: World) -> None:
    await world.refresh()
    assert not world.clock.is_due
    world.now += 59.9
    assert not world.clock.is_due
    world.now += 0.1
    assert world.clock.is_due


async def test_refresh_is_due_after_an_error(world: World) -> None:
    await world.refresh()
    world.clock.expire()
    assert world.clock.is_due


async def test_expired_clock_still_tells_the_time(world: World) -> None:
    await world.refresh()
    world.clock.expire()
    assert world.clock() == world.now


async def test_refresh_follows_a_server_clock_that_was_corrected(world: World) -> None:
    await world.refresh()

    async def corrected() -> float:
        return world.now + 30

    await world.clock.refresh(corrected)
    assert world.clock() == world.now + 30


async def test_refresh_is_not_due_while_one_is_under_way(world: World) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slow() -> float:
        asked.set()
        await answer.wait()
        return world.now

    task = asyncio.create_task(world.clock.refresh(slow))
    await asked.wait()
    assert not world.clock.is_due
    answer.set()
    await task


async def test_failed_refresh_keeps_the_old_offset_and_stays_due(world: World) -> None:
    await world.refresh()
    world.clock.expire()

    async def broken() -> float:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await world.clock.refresh(broken)
    assert world.clock() == world.now
    assert world.clock.is_due


async def test_cancelled_refresh_stays_due(world: World) -> None:
    task = asyncio.create_task(world.clock.refresh(asyncio.Event().wait))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait((task,))
    assert world.clock.is_due


async def test_server_without_a_clock_leaves_the_wall_time(world: World) -> None:
    """An in-process fake: it is not asked again and again."""
    world.answers = False
    await world.refresh()
    assert world.clock() == world.now - 77
    assert not world.clock.is_due


@pytest.mark.parametrize("seconds", [0.0, 1_000_000.5, 4_000_000_000.123])
def test_instant_is_an_aware_moment_in_utc(seconds: float) -> None:
    moment = instant(seconds)
    assert moment.tzinfo is UTC
    assert moment - datetime(1970, 1, 1, tzinfo=UTC) == timedelta(seconds=round(seconds, 6))
