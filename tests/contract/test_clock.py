"""Whose time counts: statements 43 and 44."""

import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC
from typing import Any

import pytest
from pymongo.errors import AutoReconnect

from fairlane import AsyncMongoTransport, Lease
from fairlane.clock import ServerClock
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Claim = Callable[..., Awaitable[Lease[Any]]]

VISIBILITY = 30


@pytest.fixture
def way() -> dict[str, Any]:
    """Named, as the commands of a claim are named here; on MongoDB 8.0 it would be another one."""
    return {"strategy": "find_one_and_update"}


class Machine:
    """A machine whose wall clock is wrong by `skew` seconds; tests let its time pass."""

    started = itertools.count(1_000, 7_777)

    def __init__(self, skew: float) -> None:
        self.skew = skew
        self.elapsed = 0.0
        self._booted = float(next(self.started))
        self.clock = ServerClock(monotonic=self._monotonic, wall=self._wall)

    def _monotonic(self) -> float:
        return self._booted + self.elapsed

    def _wall(self) -> float:
        return time.time() + self.skew + self.elapsed


class Site:
    """Three machines, five minutes behind, right, and five minutes ahead, with a transport each."""

    def __init__(self, make_transport: MakeTransport) -> None:
        self.machines = [Machine(-300.0), Machine(0.0), Machine(300.0)]
        self.transports = [make_transport(clock=each.clock) for each in self.machines]

    def advance(self, seconds: float) -> None:
        for machine in self.machines:
            machine.elapsed += seconds

    async def claims(self) -> list[Lease[Any]]:
        """Let every machine claim once; return what they got."""
        found = [await each.claim("w", VISIBILITY) for each in self.transports]
        return [lease for lease in found if lease is not None]


@pytest.fixture
def site(make_transport: MakeTransport) -> Site:
    return Site(make_transport)


@pytest.mark.parametrize("holder", [0, 1, 2], ids=["behind", "right", "ahead"])
async def test_machines_with_wrong_clocks_never_hold_one_group_together(
    site: Site, holder: int
) -> None:
    """Statement 43."""
    await site.transports[0].publish("g", 1)
    assert await site.transports[holder].claim("w", VISIBILITY) is not None
    assert await site.claims() == []
    site.advance(VISIBILITY - 1)
    assert await site.claims() == []


@pytest.mark.parametrize("holder", [0, 1, 2], ids=["behind", "right", "ahead"])
async def test_lease_of_a_machine_with_a_wrong_clock_ends_in_time(site: Site, holder: int) -> None:
    """Statement 43: nobody waits five minutes more."""
    await site.transports[0].publish("g", 1)
    await site.transports[holder].claim("w", VISIBILITY)
    await site.claims()  # everybody has learnt the server's time
    site.advance(VISIBILITY + 1)
    assert len(await site.claims()) == 1


@pytest.mark.parametrize("jump", [-3_600.0, 3_600.0])
async def test_wall_clock_that_jumps_during_a_lease_changes_nothing(
    site: Site, jump: float
) -> None:
    """Statement 43: neither two holders nor a stall."""
    await site.transports[0].publish("g", 1)
    lease = await site.transports[1].claim("w", VISIBILITY)
    assert lease is not None
    for machine in site.machines:
        machine.skew += jump
    assert await site.claims() == []
    longer = await site.transports[1].extend(lease, VISIBILITY)
    assert abs(longer.expires_at - lease.expires_at) < 1
    site.advance(VISIBILITY + 1)
    assert len(await site.claims()) == 1


async def test_delay_is_as_long_on_every_machine(site: Site) -> None:
    """Statement 43."""
    ahead = site.transports[2]
    await ahead.publish("g", 1)
    lease = await ahead.claim("w", VISIBILITY)
    assert lease is not None
    await ahead.nack(lease, 10)
    await site.claims()
    site.advance(9)
    assert await site.claims() == []
    site.advance(2)
    assert len(await site.claims()) == 1


async def test_new_group_of_a_machine_ahead_is_claimable_at_once(
    make_transport: MakeTransport,
) -> None:
    """Statement 43: without credit, which would hide it."""
    ahead = make_transport(clock=Machine(300.0).clock, new_group_credit=0)
    behind = make_transport(clock=Machine(-300.0).clock)
    await ahead.publish("g", 1)
    assert await behind.claim("w") is not None


@pytest.fixture(params=["UTC", "Asia/Kolkata", "America/St_Johns"])
def time_zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The time zone of this machine, which is nobody's business."""
    if not hasattr(time, "tzset"):
        pytest.skip("this system has no tzset")
    with monkeypatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.mark.usefixtures("time_zone")
async def test_default_clock_tells_the_time_of_the_server(client: Any, db_name: str) -> None:
    """Statement 43."""
    transport: Transport = AsyncMongoTransport(client, db_name)
    await transport.publish("g", 1)
    lease = await transport.claim("w", VISIBILITY)
    hello = await client.get_database("admin").command("hello")
    assert lease is not None
    told = hello["localTime"].replace(tzinfo=UTC).timestamp()
    assert abs(lease.expires_at - VISIBILITY - told) < 5


async def test_lost_connection_makes_the_clock_ask_again(
    connect: Callable[..., Any],
    driver: str,
    db_name: str,
    fail_command: Callable[..., Awaitable[None]],
) -> None:
    """It may be another server afterwards."""
    client = connect(driver, retryWrites=False)
    transport: Transport = AsyncMongoTransport(client, db_name)
    await transport.publish("g", 1)
    clock = transport._store.clock
    assert isinstance(clock, ServerClock)
    assert not clock.is_due
    await fail_command("findAndModify", closeConnection=True)
    with pytest.raises(AutoReconnect):
        await transport.claim("w")
    assert clock.is_due
    assert await transport.claim("w") is not None
    assert not clock.is_due


class TickingClock(ManualClock):
    """A clock that goes on by a step whenever it is read."""

    def __init__(self, start: float, *steps: float) -> None:
        super().__init__(start)
        self._steps = list(steps)

    def __call__(self) -> float:
        now = super().__call__()
        if self._steps:
            self.advance(self._steps.pop(0))
        return now


async def test_time_is_read_for_every_attempt_of_a_claim(
    transport: Transport, make_transport: MakeTransport, database: Any, claim: Claim
) -> None:
    """Statement 44: a group that becomes due while empty groups are skipped is found."""
    await transport.publish("parked", "found", 1)
    await transport.nack(await claim(), 3)
    await transport.publish_many([(f"empty{n}", n) for n in range(3)])
    await database["fairlane_messages"].delete_many({"group_id": {"$ne": "parked"}})
    ticking = make_transport(clock=TickingClock(1_000_000.0, *[1.0] * 50))
    lease = await ticking.claim("w", 1_000)
    assert lease is not None
    assert lease.event == "found"
    assert lease.expires_at >= 1_000_003 + 1_000


async def test_lease_with_less_than_half_of_its_visibility_left_is_not_handed_out(
    transport: Transport, make_transport: MakeTransport
) -> None:
    """Statement 44: it is given back and claimed anew; the attempt does not count twice."""
    await transport.publish("g", 1)
    slow = make_transport(clock=TickingClock(1_000_000.0, VISIBILITY * 0.6))
    lease = await slow.claim("w", VISIBILITY)
    assert lease is not None
    assert lease.attempt == 1
    assert lease.expires_at == 1_000_000 + VISIBILITY * 1.6


async def test_lease_with_exactly_half_of_its_visibility_left_is_handed_out(
    transport: Transport, make_transport: MakeTransport
) -> None:
    """Statement 44."""
    await transport.publish("g", 1)
    slow = make_transport(clock=TickingClock(1_000_000.0, VISIBILITY / 2))
    lease = await slow.claim("w", VISIBILITY)
    assert lease is not None
    assert lease.expires_at == 1_000_000 + VISIBILITY


async def test_claim_that_is_always_too_slow_gives_up_and_says_so(
    transport: Transport,
    make_transport: MakeTransport,
    claim: Claim,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Statement 44."""
    await transport.publish("g", 1)
    slow = make_transport(clock=TickingClock(1_000_000.0, *[VISIBILITY * 0.6] * 1_000))
    with caplog.at_level(logging.WARNING, "fairlane"):
        assert await slow.claim("w", VISIBILITY) is None
    assert "longer than half of visibility" in caplog.text
    clock.advance(3_600)
    assert (await claim()).attempt == 1
