"""What is refused, clearly and before anything is written: statements 25, 29, 47 and 48."""

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient, ReadPreference, WriteConcern
from pymongo.read_concern import ReadConcern

from fairlane import AsyncMongoTransport, ConfigurationError, Lease

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Claim = Callable[..., Awaitable[Lease[Any]]]
Snapshot = Callable[[], Awaitable[dict[str, Any]]]

UNTOUCHED: dict[str, Any] = {}

NOT_STR = [None, 1, 1.5, True, b"g", ["g"], {"$ne": ""}, ("g",), object]
NOT_A_PRIORITY = [-1, 5, 1.0, True, "1", None, math.nan, [1], 10**30]
NOT_A_DURATION = [
    math.nan,
    math.inf,
    -math.inf,
    -1,
    -0.001,
    True,
    False,
    "30",
    None,
    [30],
    Decimal(30),
    1j,
    10**400,
    1e300,
    timedelta(seconds=-1),
]


@pytest.mark.parametrize("group_id", NOT_STR, ids=repr)
async def test_group_id_that_is_no_str_is_refused(
    transport: Transport, snapshot: Snapshot, group_id: Any
) -> None:
    """Statement 47: a dict would be an operator in a filter."""
    with pytest.raises(ConfigurationError, match="group_id"):
        await transport.publish(group_id, 1)
    with pytest.raises(ConfigurationError, match="group_id"):
        await transport.publish_many([("good", 1), (group_id, 2)])
    with pytest.raises(ConfigurationError, match="group_id"):
        await transport.peek(group_id)
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("group_id", ["\ud800", "a\udfff", "\udc80b"])
async def test_group_id_with_a_lone_surrogate_is_refused(
    transport: Transport, snapshot: Snapshot, group_id: str
) -> None:
    """Statement 47."""
    with pytest.raises(ConfigurationError, match="group_id"):
        await transport.publish(group_id, 1)
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("group_id", [value for value in NOT_STR if value is not None], ids=repr)
async def test_group_id_of_dead_letters_is_checked(
    transport: Transport, snapshot: Snapshot, group_id: Any
) -> None:
    """Statement 47."""
    with pytest.raises(ConfigurationError, match="group_id"):
        await transport.redrive(group_id=group_id)
    with pytest.raises(ConfigurationError, match="group_id"):
        [letter async for letter in transport.dead_letters(group_id)]
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("priority", NOT_A_PRIORITY, ids=repr)
async def test_priority_outside_0_to_4_is_refused(
    transport: Transport, snapshot: Snapshot, priority: Any
) -> None:
    """Statement 29."""
    with pytest.raises(ConfigurationError, match="priority"):
        await transport.publish("g", 1, priority)
    with pytest.raises(ConfigurationError, match="priority"):
        await transport.publish_many([("g", 1), ("g", 1, priority)])
    with pytest.raises(ConfigurationError, match="min_priority"):
        await transport.claim("w", 30, priority)
    with pytest.raises(ConfigurationError, match="min_priority"):
        await transport.claim_many("w", 1, 30, priority)
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("visibility", [*NOT_A_DURATION, 0, 0.0, -0.0, timedelta(0)], ids=repr)
async def test_visibility_that_is_no_positive_duration_is_refused(
    transport: Transport, snapshot: Snapshot, visibility: Any
) -> None:
    """Statement 48."""
    with pytest.raises(ConfigurationError, match="visibility"):
        await transport.claim("w", visibility)
    with pytest.raises(ConfigurationError, match="visibility"):
        await transport.claim_many("w", 1, visibility)
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("seconds", NOT_A_DURATION, ids=repr)
async def test_lease_survives_a_duration_that_is_none(
    transport: Transport, claim: Claim, snapshot: Snapshot, seconds: Any
) -> None:
    """Statement 48: nack and extend refuse it and change nothing."""
    await transport.publish("g", 1)
    lease = await claim()
    before = await snapshot()
    with pytest.raises(ConfigurationError, match="delay"):
        await transport.nack(lease, seconds)
    with pytest.raises(ConfigurationError, match="visibility"):
        await transport.extend(lease, seconds)
    assert await snapshot() == before


async def test_durations_may_be_timedeltas(transport: Transport, claim: Claim) -> None:
    """Statement 48."""
    await transport.publish("g", 1)
    lease = await transport.claim("w", timedelta(minutes=1))
    assert lease is not None
    longer = await transport.extend(lease, timedelta(minutes=2))
    assert longer.expires_at - lease.expires_at == 60
    assert await transport.nack(longer, timedelta(0))


@pytest.mark.parametrize("visibility", [1, 0.5, 1e-3, 3 * 365 * 86_400])
async def test_visibility_may_be_any_positive_number(
    transport: Transport, claim: Claim, visibility: float
) -> None:
    """Statement 48."""
    await transport.publish("g", 1)
    await claim(visibility=visibility)
    assert await transport.claim("w2") is None


@pytest.mark.parametrize("worker_id", [*NOT_STR, "\ud800"], ids=repr)
async def test_worker_id_must_be_a_str(
    transport: Transport, snapshot: Snapshot, worker_id: Any
) -> None:
    with pytest.raises(ConfigurationError, match="worker_id"):
        await transport.claim(worker_id)
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("worker_id", ["", "a:b", "$set", "x" * 1_000, "\0", "東京"])
async def test_worker_id_may_be_any_valid_str(
    transport: Transport, claim: Claim, worker_id: str
) -> None:
    await transport.publish("g", 1)
    assert await transport.ack(await claim(worker_id))


@pytest.mark.parametrize("n", [0, -1, 1.0, True, "1", None], ids=repr)
async def test_claim_many_needs_a_positive_number(
    transport: Transport, snapshot: Snapshot, n: Any
) -> None:
    with pytest.raises(ConfigurationError, match="n must"):
        await transport.claim_many("w", n)
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize(
    "options", [{"order": "lifo"}, {"order": None}, {"order": []}, {"batch": 0}, {"batch": True}]
)
async def test_unknown_options_of_a_claim_are_refused(
    transport: Transport, snapshot: Snapshot, options: dict[str, Any]
) -> None:
    with pytest.raises(ConfigurationError, match=r"order|batch"):
        await transport.claim("w", **options)
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize(
    "item",
    ["ab", ("g",), ("g", 1, 2, 3), ["g", 1], None, 5, {"group_id": "g"}, ("g", 1, None)],
    ids=repr,
)
async def test_publish_many_refuses_an_item_of_another_shape(
    transport: Transport, snapshot: Snapshot, item: Any
) -> None:
    with pytest.raises(ConfigurationError):
        await transport.publish_many([("good", 1), item])
    assert await snapshot() == UNTOUCHED


async def test_publish_many_of_nothing_writes_no_message(
    transport: Transport, snapshot: Snapshot
) -> None:
    assert await transport.publish_many([]) == []
    documents = await snapshot()
    assert [document["_id"] for document in documents["fairlane_counters"]] == ["settings"]


@pytest.mark.parametrize("message_id", [1, True, b"m", ["m"], {"$ne": ""}, "\ud800"], ids=repr)
async def test_message_id_must_be_a_str(
    transport: Transport, snapshot: Snapshot, message_id: Any
) -> None:
    with pytest.raises(ConfigurationError, match="message_id"):
        await transport.publish("g", 1, message_id=message_id)
    assert await snapshot() == UNTOUCHED


async def test_nack_refuses_an_error_that_is_no_str(transport: Transport, claim: Claim) -> None:
    await transport.publish("g", 1)
    lease = await claim()
    with pytest.raises(ConfigurationError, match="error"):
        await transport.nack(lease, error=ValueError("x"))  # type: ignore[arg-type]
    assert await transport.ack(lease)


@pytest.mark.parametrize("reason", [None, 1, b"why", "\ud800", ValueError("x")], ids=repr)
async def test_dead_letter_refuses_a_reason_that_is_no_str(
    transport: Transport, claim: Claim, reason: Any
) -> None:
    await transport.publish("g", 1)
    lease = await claim()
    with pytest.raises(ConfigurationError, match="reason"):
        await transport.dead_letter(lease, reason)
    assert await transport.ack(lease)


@pytest.mark.parametrize("verb", ["ack", "nack", "release", "extend", "dead_letter"])
@pytest.mark.parametrize(
    "lease", [None, 1, "token", {"token": "t"}, SimpleNamespace(token="t", group_id="g")], ids=repr
)
async def test_settlement_of_what_is_no_lease_is_refused(
    transport: Transport, snapshot: Snapshot, verb: str, lease: Any
) -> None:
    extra = ("why",) if verb == "dead_letter" else ()
    with pytest.raises(ConfigurationError, match="lease"):
        await getattr(transport, verb)(lease, *extra)
    assert await snapshot() == UNTOUCHED


async def test_ack_many_settles_none_if_one_is_no_lease(transport: Transport, claim: Claim) -> None:
    await transport.publish("g", 1)
    lease = await claim()
    with pytest.raises(ConfigurationError, match="lease"):
        await transport.ack_many([lease, None])  # type: ignore[list-item]
    assert await transport.ack(lease)


@pytest.mark.parametrize("seq", [0, -(10**13), True, "1", 1.0], ids=repr)
async def test_redrive_refuses_a_seq_that_no_message_has(
    transport: Transport, snapshot: Snapshot, seq: Any
) -> None:
    with pytest.raises(ConfigurationError, match="seq"):
        await transport.redrive(seq=seq)
    assert await snapshot() == UNTOUCHED


@pytest.mark.parametrize("limit", [0, -1, True, "1", None], ids=repr)
async def test_peek_refuses_a_limit_that_is_no_positive_int(
    transport: Transport, limit: Any
) -> None:
    with pytest.raises(ConfigurationError, match="limit"):
        await transport.peek("g", limit)


@pytest.mark.parametrize(
    ("argument", "values"),
    [
        ("db_name", ["", "a.b", "a b", "a/b", "a\\b", 'a"b', "a$b", "a\0b", "x" * 64, None, 1]),
        ("prefix", ["", "$p", "a$b", "a\0b", ".p", "system.p", "x" * 500, None, 1, "\ud800"]),
        ("clock", [1, "now", 1_000.0]),
        ("partitions", [0, -1, 1_025, True, "1", 1.5]),
        ("strategy", ["", "fastest", None, ["auto"]]),
        ("new_group_credit", [-1, math.nan, -math.inf, "60", None, True]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_constructor_refuses_a_bad_argument_by_its_name(
    client: Any, argument: str, values: list[Any]
) -> None:
    for value in values:
        with pytest.raises(ConfigurationError, match=argument):
            AsyncMongoTransport(client, **{argument: value})


async def test_constructor_refuses_a_codec_that_cannot_map(make_transport: MakeTransport) -> None:
    with pytest.raises(ConfigurationError, match="codec"):
        make_transport(codec=object())


async def test_coroutine_function_as_a_clock_is_refused(
    make_transport: MakeTransport, snapshot: Snapshot
) -> None:
    async def clock() -> float:
        return 0.0

    with pytest.raises(ConfigurationError, match="clock"):
        await make_transport(clock=clock).publish("g", 1)
    assert (await snapshot()).get("fairlane_messages", []) == []


@pytest.mark.parametrize(
    "db_name", ["fairlane-test-a_1", "x" * 63, "datenbänke", "admin2", "1"], ids=repr
)
async def test_constructor_takes_a_name_that_mongodb_takes(client: Any, db_name: str) -> None:
    AsyncMongoTransport(client, db_name)


async def test_blocking_client_is_refused_by_its_name() -> None:
    with (
        MongoClient[Any]("mongodb://127.0.0.1:1", connect=False) as client,
        pytest.raises(ConfigurationError, match=r"blocking MongoClient.*MongoTransport"),
    ):
        AsyncMongoTransport(client)


@pytest.mark.parametrize(
    "client", [None, "mongodb://127.0.0.1", 5, SimpleNamespace(write_concern=None)], ids=repr
)
async def test_client_of_another_kind_is_refused(client: Any) -> None:
    with pytest.raises(ConfigurationError, match="client must be"):
        AsyncMongoTransport(client)


async def test_database_in_place_of_a_client_is_refused(client: Any) -> None:
    with pytest.raises(ConfigurationError, match="client must be"):
        AsyncMongoTransport(client.get_database("x"))


async def test_unacknowledged_writes_are_refused(connect: Callable[..., Any], driver: str) -> None:
    with pytest.raises(ConfigurationError, match="w=0"):
        AsyncMongoTransport(connect(driver, w=0))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, {"w": "majority"}),
        ({"w": 1}, {"w": "majority"}),
        ({"w": 1, "journal": True}, {"w": "majority", "j": True}),
        ({"w": "majority", "wTimeoutMS": 900}, {"w": "majority", "wtimeout": 900}),
        ({"w": "mine"}, {"w": "mine"}),
    ],
    ids=str,
)
async def test_write_concern_is_raised_to_a_majority(
    connect: Callable[..., Any], driver: str, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    transport: Transport = AsyncMongoTransport(connect(driver, **options))
    written = transport._store.locks._raw.write_concern
    assert written == WriteConcern(**expected)


@pytest.mark.parametrize("mode", ["secondary", "secondaryPreferred", "nearest"])
async def test_reads_go_to_the_primary_whatever_the_client_prefers(
    connect: Callable[..., Any], driver: str, db_name: str, mode: str
) -> None:
    transport: Transport = AsyncMongoTransport(connect(driver, readPreference=mode), db_name)
    await transport.publish("g", 1)
    assert (await transport.stats()).messages == 1
    for collection in (transport._store.messages, transport._store.locks, transport._store.dead):
        assert collection._raw.read_preference == ReadPreference.PRIMARY


@pytest.mark.parametrize("level", ["majority", "linearizable", "available", "snapshot"])
async def test_reads_are_local_whatever_the_client_prefers(
    connect: Callable[..., Any], driver: str, db_name: str, level: str
) -> None:
    """A majority read could miss the message of a lock that is there, and remove the lock."""
    transport: Transport = AsyncMongoTransport(connect(driver, readConcernLevel=level), db_name)
    await transport.publish("g", 1)
    assert await transport.claim("w") is not None
    for collection in (transport._store.messages, transport._store.locks, transport._store.dead):
        assert collection._raw.read_concern == ReadConcern("local")


@pytest.mark.parametrize(
    "options",
    [
        {"tz_aware": False},
        {"uuidRepresentation": "pythonLegacy"},
        {"document_class": RawBSONDocument},
        {"document_class": OrderedDict},
        {"retryWrites": False, "retryReads": False},
        {"datetime_conversion": "DATETIME_MS"},
        {"maxPoolSize": 1},
        {"timeoutMS": 20_000},
        {"compressors": "zlib"},
    ],
    ids=str,
)
async def test_options_of_the_client_change_nothing(
    connect: Callable[..., Any], driver: str, db_name: str, options: dict[str, Any]
) -> None:
    """Events are the same whatever the client makes of documents."""
    event = {"u": UUID(int=7), "t": datetime(2026, 11, 30, tzinfo=UTC), "n": [1, {"a": None}]}
    transport: Transport = AsyncMongoTransport(connect(driver, **options), db_name)
    await transport.publish_many([("g", event), ("g", 2)])
    lease = await transport.claim("w")
    assert lease is not None
    assert lease.event == event
    assert type(lease.event) is dict
    assert await transport.dead_letter(lease, "why")
    assert [letter.event async for letter in transport.dead_letters()] == [event]
    assert await transport.redrive() == 1
    stats = await transport.stats()
    assert (stats.groups, stats.messages) == (1, 2)
    assert (await transport.repair()).repaired == 0


@pytest.mark.parametrize("stored", [0, -1, 1.5, "4", None, 1_025])
async def test_stored_partitions_that_make_no_sense_are_refused(
    transport: Transport, database: Any, stored: Any
) -> None:
    await database["fairlane_counters"].insert_one({"_id": "settings", "partitions": stored})
    with pytest.raises(ConfigurationError, match="stored number of partitions"):
        await transport.publish("g", 1)
    assert await database["fairlane_messages"].count_documents({}) == 0
