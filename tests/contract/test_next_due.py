"""When the next group is due, as an idle pool asks instead of claiming."""

from typing import Any

import pytest

from fairlane import ConfigurationError
from fairlane.testing import ManualClock

Transport = Any


async def test_nothing_is_due_where_there_is_no_group(transport: Transport) -> None:
    assert await transport.next_due() is None


async def test_ready_group_is_due_now(transport: Transport) -> None:
    await transport.publish("g", 1)
    assert await transport.next_due() == 0


async def test_first_of_several_parked_groups_counts(transport: Transport, claim: Any) -> None:
    for delay in (50, 20, 90):
        await transport.publish(f"g{delay}", 1)
        await transport.nack(await claim(), delay)

    assert await transport.next_due() == pytest.approx(20, abs=0.01)


async def test_leased_group_is_due_when_its_lease_ends(
    transport: Transport, claim: Any, clock: ManualClock
) -> None:
    await transport.publish("g", 1)
    await claim(visibility=30)
    clock.advance(10)

    assert await transport.next_due() == pytest.approx(20, abs=0.01)


async def test_groups_below_the_floor_do_not_count(transport: Transport) -> None:
    await transport.publish("low", 1, priority=1)

    assert (await transport.next_due(1), await transport.next_due(2)) == (0, None)


async def test_group_in_any_of_many_partitions_counts(make_transport: Any) -> None:
    transport = make_transport(partitions=70)
    for number in range(3):
        await transport.publish(f"g{number}", 1)
        lease = await transport.claim("w")
        await transport.nack(lease, 100 - number)

    assert await transport.next_due() == pytest.approx(98, abs=0.01)


async def test_wrong_floor_is_refused(transport: Transport) -> None:
    with pytest.raises(ConfigurationError, match="min_priority"):
        await transport.next_due(5)
