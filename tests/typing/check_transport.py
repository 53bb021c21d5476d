"""What a type checker makes of the public surface; mypy --strict runs over it, nothing is run."""

from collections.abc import AsyncIterator
from typing import Any, TypedDict, assert_type

from fairlane import AsyncMongoTransport, DeadLetter, Lease, Message, RepairReport, TransportStats


class Paid(TypedDict):
    kind: str
    cents: int


async def payload_type_reaches_every_result(transport: AsyncMongoTransport[Paid]) -> None:
    paid: Paid = {"kind": "paid", "cents": 1}
    assert_type(await transport.publish("g", paid), int)
    assert_type(await transport.publish_many([("g", paid), ("g", paid, 2)]), list[int])
    lease = await transport.claim("w")
    assert_type(lease, Lease[Paid] | None)
    assert lease is not None
    assert_type(lease.event, Paid)
    assert_type(lease.messages, tuple[Message[Paid], ...])
    assert_type(await transport.claim_many("w", 3), list[Lease[Paid]])
    assert_type(await transport.ack(lease), bool)
    assert_type(await transport.ack_many([lease]), list[bool])
    assert_type(await transport.nack(lease, 1.5, error="why"), bool)
    assert_type(await transport.extend(lease, 30), Lease[Paid])
    assert_type(await transport.release(lease), bool)
    assert_type(await transport.dead_letter(lease, "why"), bool)
    assert_type(transport.dead_letters(), AsyncIterator[DeadLetter[Paid]])
    assert_type(await transport.redrive(seq=3), int)
    assert_type(await transport.peek("g"), list[Message[Paid]])
    assert_type(await transport.stats(), TransportStats)
    assert_type(await transport.repair(), RepairReport)


async def from_url_is_awaited_or_entered() -> None:
    opened = await AsyncMongoTransport[Paid].from_url("mongodb://localhost", "app")
    assert_type(opened, AsyncMongoTransport[Paid])
    async with AsyncMongoTransport[Any].from_url("mongodb://localhost") as transport:
        assert_type(transport, AsyncMongoTransport[Any])
