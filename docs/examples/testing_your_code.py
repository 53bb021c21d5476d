from typing import Any

from fairlane import AsyncMongoTransport


async def announce(transport: AsyncMongoTransport[Any], order: int) -> None:
    """Stand for the code under test."""
    await transport.publish(f"order-{order}", {"kind": "paid"})


async def test_announces_the_payment_in_the_group_of_the_order(
    fairlane_transport: AsyncMongoTransport[Any],
) -> None:
    await announce(fairlane_transport, 42)
    (message,) = await fairlane_transport.peek("order-42")
    assert message.event == {"kind": "paid"}
