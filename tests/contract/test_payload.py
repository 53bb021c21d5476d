"""What goes in comes out, and what cannot is refused in time: statements 47 and 49."""

import math
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp

from fairlane import AsyncMongoTransport, Lease, PayloadError

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Claim = Callable[..., Awaitable[Lease[Any]]]
Snapshot = Callable[[], Awaitable[dict[str, Any]]]

UNTOUCHED: dict[str, Any] = {}

VALUES: dict[str, Any] = {
    "none": None,
    "true": True,
    "zero": 0,
    "int32 bound": 2**31,
    "int64 greatest": 2**63 - 1,
    "int64 least": -(2**63),
    "Int64 that is small": Int64(1),
    "float": 0.1,
    "whole float": 1.0,
    "negative zero": -0.0,
    "infinity": math.inf,
    "empty str": "",
    "str": "Grüße, 世界 \U0001f600",
    "str with NUL": "a\0b",
    "str that looks like a variable": "$$NOW",
    "str that looks like a field": "$event",
    "bytes": b"\x00\xff",
    "empty bytes": b"",
    "UUID": UUID("12345678-1234-5678-1234-567812345678"),
    "Decimal128": Decimal128("1.10"),
    "ObjectId": ObjectId("0123456789abcdef01234567"),
    "Regex": Regex("^a", "i"),
    "Timestamp": Timestamp(1, 2),
    "Code": Code("f()"),
    "MaxKey": MaxKey(),
    "Binary of a user type": Binary(b"x", 128),
    "aware datetime": datetime(2026, 11, 30, 12, 0, 0, 123000, tzinfo=UTC),
    "datetime before the epoch": datetime(1901, 1, 1, tzinfo=UTC),
    "datetime at the end": datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC),
    "empty dict": {},
    "empty list": [],
    "list": [1, "a", None, [2, [3]], {"b": []}],
    "nested": {"a": {"b": {"c": [{"d": 1}, {"e": {}}]}}},
    "order of keys": {"z": 1, "a": 2, "m": 3},
    "dotted keys": {"a.b": 1, "": 2, ".": 3, "a..b": {"c.d": 4}},
    "dollar keys": {"$set": {"x": 1}, "$": 2, "$$ROOT": 3, "a$": 4},
    "operator": {"$where": "1"},
    "pipeline": [{"$set": {"a": "$$REMOVE"}}],
    "variable inside": {"a": ["$$NOW", {"b": "$$CLUSTER_TIME"}]},
    "literal": {"$literal": "$$NOW"},
    "names of ours": {"_id": 1, "group_id": "other", "event": {"event": 2}, "token": None},
    "keys that are numbers": {"0": "a", "10": "b", "1": "c"},
    "reference without an id": {"$ref": "#/definitions/a"},
}


def types_in(value: Any) -> Any:
    """Return the types of a value, inside as well: 1 == 1.0 == True."""
    if isinstance(value, dict):
        return {key: types_in(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [types_in(inner) for inner in value]
    return int if isinstance(value, int) and not isinstance(value, bool) else type(value)


@pytest.mark.parametrize("event", VALUES.values(), ids=VALUES.keys())
async def test_event_comes_back_as_it_was(transport: Transport, claim: Claim, event: Any) -> None:
    """Statement 49."""
    await transport.publish("g", event)
    received = (await claim()).event
    assert received == event
    assert types_in(received) == types_in(event)


async def test_event_keeps_the_order_of_its_keys(transport: Transport, claim: Claim) -> None:
    """Statement 49."""
    await transport.publish("g", {"z": 1, "a": 2, "m": 3})
    assert list((await claim()).event) == ["z", "a", "m"]


async def test_nan_comes_back(transport: Transport, claim: Claim) -> None:
    """Statement 49."""
    await transport.publish("g", [math.nan])
    assert math.isnan((await claim()).event[0])


async def test_datetime_comes_back_as_the_same_moment_in_utc(
    transport: Transport, claim: Claim
) -> None:
    """Statement 49."""
    moment = datetime(2026, 7, 1, 12, 0, tzinfo=timezone(timedelta(hours=5, minutes=30)))
    await transport.publish("g", moment)
    received = (await claim()).event
    assert received == moment
    assert received.utcoffset() == timedelta(0)


async def test_tuple_comes_back_as_a_list(transport: Transport, claim: Claim) -> None:
    """Statement 49: BSON has one kind of sequence."""
    await transport.publish("g", (1, (2,)))
    assert (await claim()).event == [1, [2]]


async def test_database_reference_comes_back(transport: Transport, claim: Claim) -> None:
    """Statement 49."""
    await transport.publish("g", DBRef("orders", 7))
    assert (await claim()).event == DBRef("orders", 7)


async def test_publish_many_and_peek_keep_events_exact(transport: Transport) -> None:
    """Statement 49: the bulk path and the reading path."""
    events = list(VALUES.values())
    await transport.publish_many([("g", event) for event in events])
    received = [message.event for message in await transport.peek("g", len(events))]
    assert received == events


async def test_dead_letters_and_redrive_keep_events_exact(
    transport: Transport, claim: Claim
) -> None:
    """Statement 49."""
    await transport.publish("g", VALUES)
    await transport.dead_letter(await claim(), "why")
    (letter,) = [letter async for letter in transport.dead_letters()]
    await transport.redrive()
    assert letter.event == VALUES
    assert (await claim()).event == VALUES


async def test_later_change_of_the_event_does_not_matter(
    transport: Transport, claim: Claim
) -> None:
    event = {"n": 1}
    publishing = transport.publish("g", event)
    await publishing
    event["n"] = 2
    assert (await claim()).event == {"n": 1}


async def test_mapping_types_come_back_as_dicts(transport: Transport, claim: Claim) -> None:
    """Statement 49."""
    await transport.publish("g", OrderedDict(a=1))
    assert (await claim()).event == {"a": 1}


class Weird:
    """BSON knows nothing about it."""


def itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


REFUSED: dict[str, tuple[Any, str]] = {
    "object": (Weird(), "event"),
    "object in a dict": ({"a": {"b": Weird()}}, "event.a.b"),
    "object in a list": ({"a": [1, [2, Weird()]]}, "event.a[1][1]"),
    "object under an odd key": ({"not an id": {"x.y": Weird()}}, "event['not an id']['x.y']"),
    "set": ({"a": {1, 2}}, "event.a"),
    "date": ([date(2026, 1, 1)], "event[0]"),
    "Decimal": ({"price": Decimal("1.1")}, "event.price"),
    "complex": (1j, "event"),
    "timedelta": ({"d": timedelta(1)}, "event.d"),
    "function": ({"f": len}, "event.f"),
    "int above int64": ({"n": 2**63}, "event.n"),
    "int below int64": ([-(2**63) - 1], "event[0]"),
    "key that is an int": ({"a": {1: "x"}}, "event.a"),
    "key that is None": ({None: "x"}, "event"),
    "key with NUL": ({"a": {"k\0": 1}}, "event.a"),
    "lone surrogate": ({"a": "\ud800"}, "event.a"),
    "lone surrogate in a key": ({"a": {"\ud800": 1}}, "event.a"),
    "pattern with NUL": ({"re": re.compile("a\0b")}, "event.re"),
    "UUID of three bytes": (Binary(b"abc", 4), "event"),
    "UUID of three bytes inside": ({"a": [Binary(b"abc", 4)]}, "event.a[0]"),
    "datetime without a zone": (datetime(2026, 1, 1), "event"),  # noqa: DTZ001
    "datetime without a zone inside": ({"at": [datetime(2026, 1, 1)]}, "event.at[0]"),  # noqa: DTZ001
    "itself": (itself(), "event"),
    "very deep": (deep(5_000), "event"),
}


@pytest.mark.parametrize(("event", "path"), REFUSED.values(), ids=REFUSED.keys())
async def test_what_bson_cannot_hold_is_refused_with_its_path(
    transport: Transport, snapshot: Snapshot, event: Any, path: str
) -> None:
    """Statement 49: before anything is written."""
    with pytest.raises(PayloadError) as raised:
        await transport.publish("g", event)
    assert raised.value.path == path or (path == "event" and raised.value.path.startswith(path))
    assert raised.value.path in str(raised.value)
    assert await snapshot() == UNTOUCHED


async def test_one_bad_item_refuses_the_whole_batch(
    transport: Transport, snapshot: Snapshot
) -> None:
    """Statement 49."""
    with pytest.raises(PayloadError):
        await transport.publish_many([("g", 1), ("h", {"a": Weird()})])
    assert await snapshot() == UNTOUCHED


async def test_refused_event_does_not_use_up_a_sequence_number(
    transport: Transport, claim: Claim
) -> None:
    """Statement 49: the counter is untouched as well."""
    await transport.publish("g", 1)
    with pytest.raises(PayloadError):
        await transport.publish("g", Weird())
    assert await transport.publish("g", 2) == 2


async def test_event_over_16_megabytes_is_refused(transport: Transport, snapshot: Snapshot) -> None:
    """Statement 49."""
    with pytest.raises(PayloadError, match="event"):
        await transport.publish("g", {"data": b"x" * (16 * 1024 * 1024)})
    assert await snapshot() == UNTOUCHED


async def test_greatest_event_lives_and_dies_like_any_other(
    transport: Transport, claim: Claim
) -> None:
    """Statement 49: a dead letter holds more than the message, and must still fit."""
    event = b"x" * (16 * 1024 * 1024 - 33 * 1024)
    await transport.publish("g" * 100, event, message_id="m" * 100)
    lease = await claim("w" * 100)
    assert lease.event == event
    assert await transport.dead_letter(lease, "\U0001f600" * 5_000)
    (letter,) = [letter async for letter in transport.dead_letters()]
    assert letter.event == event


async def test_event_and_message_id_are_weighed_together(
    transport: Transport, snapshot: Snapshot
) -> None:
    """Statement 49."""
    event = b"x" * (16 * 1024 * 1024 - 64 * 1024)
    with pytest.raises(PayloadError):
        await transport.publish("g", event, message_id="m" * 100_000)
    assert await snapshot() == UNTOUCHED


GROUP_IDS = {
    "empty": "",
    "operator": "$ne",
    "dotted": "a.b",
    "NUL": "a\0b",
    "long": "x" * 5_000,
    "non-ASCII": "Köln/東京/\U0001f600",
    "blank": " ",
    "null": "null",
    "variable": "$$NOW",
    "newline": "a\nb",
}


@pytest.mark.parametrize("group_id", GROUP_IDS.values(), ids=GROUP_IDS.keys())
async def test_any_valid_str_is_a_group_id(
    transport: Transport, claim: Claim, group_id: str
) -> None:
    """Statement 47."""
    await transport.publish_many([(group_id, 1), (group_id, 2)])
    for number in (1, 2):
        lease = await claim()
        assert (lease.group_id, lease.event) == (group_id, number)
        assert await transport.ack(lease)
    assert (await transport.stats()).groups == 0


@pytest.mark.parametrize("group_id", GROUP_IDS.values(), ids=GROUP_IDS.keys())
async def test_any_group_can_die_and_be_redriven(
    transport: Transport, claim: Claim, group_id: str
) -> None:
    """Statement 47."""
    await transport.publish(group_id, 1)
    await transport.dead_letter(await claim(), "why")
    assert await transport.redrive(group_id=group_id) == 1
    assert (await claim()).group_id == group_id


async def test_group_ids_that_look_alike_are_different_groups(transport: Transport) -> None:
    """Statement 47: composed and decomposed, with and without a NUL."""
    names = ["\u00e9", "e\u0301", "a", "a\0", "A", "a "]
    await transport.publish_many([(name, name) for name in names])
    leases = await transport.claim_many("w", 10)
    assert sorted(lease.group_id for lease in leases) == sorted(names)


@dataclass(frozen=True)
class Paid:
    cents: int


class PaidCodec:
    def encode(self, event: Paid) -> Any:
        return {"cents": event.cents}

    def decode(self, value: Any) -> Paid:
        return Paid(value["cents"])


async def test_codec_maps_events_both_ways(make_transport: MakeTransport) -> None:
    transport = make_transport(codec=PaidCodec())
    await transport.publish("g", Paid(5))
    assert [message.event for message in await transport.peek("g")] == [Paid(5)]
    lease = await transport.claim("w")
    assert lease is not None
    assert lease.event == Paid(5)


async def test_codec_that_refuses_an_event_raises_payload_error(
    make_transport: MakeTransport, snapshot: Snapshot
) -> None:
    transport = make_transport(codec=PaidCodec())
    with pytest.raises(PayloadError, match="codec"):
        await transport.publish("g", "no Paid")
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize(
    ("event", "path"),
    [
        (datetime(2026, 11, 30), "event"),  # noqa: DTZ001
        ({"a": [1, {"at": datetime(2026, 11, 30)}]}, "event.a[1].at"),  # noqa: DTZ001
        ({"schema": {"$ref": "#/x", "$id": 1}}, "event.schema"),
    ],
    ids=["naive", "naive inside", "DBRef"],
)
async def test_what_would_come_back_as_something_else_is_refused(
    transport: Transport, event: Any, path: str
) -> None:
    with pytest.raises(PayloadError) as raised:
        await transport.publish("g", event)
    assert raised.value.path == path


async def test_event_nested_deeper_than_its_dead_letter_may_be_is_refused(
    transport: Transport,
) -> None:
    event: Any = 1
    for _ in range(97):
        event = {"a": event}
    with pytest.raises(PayloadError, match="96 levels"):
        await transport.publish("g", event)
