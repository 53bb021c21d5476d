"""What the adapter decides without a server."""

from typing import Any

import pytest
from mongomock_motor import AsyncMongoMockClient
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient, MongoClient, WriteConcern
from pymongo.errors import (
    AutoReconnect,
    BulkWriteError,
    ClientBulkWriteException,
    DuplicateKeyError,
    InvalidOperation,
    OperationFailure,
)

from fairlane import ConfigurationError
from fairlane.driver import Cost, Driver
from fairlane.driver._collection import _missed, as_single
from fairlane.driver._connecting import _address, _masked
from fairlane.driver._driver import _at_least_majority
from fairlane.driver._explaining import cost_of
from fairlane.driver._kinds import kind_of

HOST = "127.0.0.1:27017"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"mongodb://{HOST}/db", f"mongodb://{HOST}"),
        (f"mongodb://joe@{HOST}/", f"mongodb://{HOST}"),
        (f"mongodb://joe:pw@{HOST}/", f"mongodb://{HOST}"),
        ("mongodb+srv://joe:pw@h.example/", "mongodb+srv://h.example"),
        ("mongodb://joe:p%40w@a:1,b:2/?x=1", "mongodb://a:1,b:2"),
        ("mongodb://joe:p@w@a:1", "mongodb://a:1"),
        ("mongodb://joe:p:w@a:1", "mongodb://a:1"),
        ("mongodb://joe:p/w@a:1", "mongodb://..."),
        ("mongodb://joe:p/w?x@a:1", "mongodb://..."),
        ("mongodb://joe:1/w@a:1", "mongodb://..."),
        ("mongodb://joe:p@w/x@a:1", "mongodb://..."),
        ("mongodb://joe:123@a:1", "mongodb://a:1"),
        ("mongodb://:pw@a:1", "mongodb://a:1"),
        ("joe:pw@a:1", "mongodb://a:1"),
        ("http://joe:pw@a:1", "http://a:1"),
        ("mongodb://a:1/?appName=b@c", "mongodb://..."),
        ("mongodb://[::1]:27017/?appName=b", "mongodb://[::1]:27017"),
        ("", "mongodb://"),
    ],
)
def test_url_is_shown_without_who_logs_in(url: str, shown: str) -> None:
    assert _address(url) == shown


@pytest.mark.parametrize("form", ["p@s s", "p%40s%20s"])
def test_password_is_masked_in_either_quoting(form: str) -> None:
    url = f"mongodb://joe:p%40s%20s@{HOST}/"
    assert _masked(f"cannot log in with {form}", url) == "cannot log in with ***"


@pytest.mark.parametrize("url", [f"mongodb://{HOST}/", "mongodb://[::1", ""])
def test_message_stays_where_there_is_no_password(url: str) -> None:
    assert _masked("all is well", url) == "all is well"


async def test_kinds_of_clients_are_told_apart() -> None:
    motor: Any = AsyncIOMotorClient(connect=False)
    pymongo = AsyncMongoClient[Any](connect=False)
    assert kind_of(motor) == "motor"
    assert kind_of(pymongo) == "pymongo"
    assert kind_of(AsyncMongoMockClient()) == "mongomock"
    motor.close()
    await pymongo.close()


async def test_class_derived_from_a_client_is_of_its_kind() -> None:
    class Mine(AsyncMongoClient[Any]):
        """A client with something of its own."""

    mine = Mine(connect=False)
    assert kind_of(mine) == "pymongo"
    await mine.close()


def test_database_of_a_fake_is_no_client() -> None:
    with pytest.raises(ConfigurationError, match="client must be"):
        kind_of(AsyncMongoMockClient().get_database("x"))


def test_blocking_client_is_no_client() -> None:
    with (
        MongoClient[Any](connect=False) as client,
        pytest.raises(ConfigurationError, match="blocking MongoClient"),
    ):
        Driver(client)


@pytest.mark.parametrize(
    ("wanted", "used"),
    [
        ({}, {"w": "majority"}),
        ({"w": 1}, {"w": "majority"}),
        ({"w": 3, "j": True, "wtimeout": 5}, {"w": "majority", "j": True, "wtimeout": 5}),
        ({"w": "majority"}, {"w": "majority"}),
        ({"w": "two-sites"}, {"w": "two-sites"}),
        ({"j": False}, {"w": "majority", "j": False}),
    ],
    ids=str,
)
def test_write_concern_is_at_least_a_majority(wanted: dict[str, Any], used: dict[str, Any]) -> None:
    assert _at_least_majority(WriteConcern(**wanted)) == WriteConcern(**used)


def test_unacknowledged_writes_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="w=0"):
        _at_least_majority(WriteConcern(w=0))


class Admin:
    """A client whose server answers `buildInfo` so."""

    codec_options = write_concern = None

    def __init__(self, **build: Any) -> None:
        self._build = build

    def get_database(self, name: str) -> "Admin":
        assert name == "admin"
        return self

    async def command(self, name: str, **_: Any) -> dict[str, Any]:
        assert name == "buildInfo"
        return {"version": "8.0.4", **self._build}


@pytest.mark.parametrize(
    ("build", "is_atomic"), [({}, True), ({"secantusVersion": "0.7.0b3"}, False)]
)
async def test_server_that_updates_in_order_without_atomicity_is_known(
    build: dict[str, Any], is_atomic: bool
) -> None:
    driver = Driver(AsyncMongoClient(connect=False))
    driver.client = Admin(**build)
    assert await driver.has_atomic_sorted_updates() == is_atomic


@pytest.mark.parametrize(("code", "kind"), [(11_000, DuplicateKeyError), (121, OperationFailure)])
def test_error_of_a_bulk_becomes_that_of_its_first_failed_write(
    code: int, kind: type[OperationFailure]
) -> None:
    failed = {"index": 1, "code": code, "errmsg": "no", "op": {"event": "secret"}}
    single = as_single(BulkWriteError({"writeErrors": [failed], "nInserted": 1}))
    assert type(single) is kind
    assert single.code == code
    assert "secret" not in str(single)


def test_error_of_a_bulk_without_a_failed_write_stays_what_it_is() -> None:
    error = BulkWriteError({"writeErrors": [], "writeConcernErrors": [{"code": 64}]})
    assert as_single(error) is error


def refused(*codes: int) -> list[dict[str, Any]]:
    """Return the errors of every other write of a bulk."""
    return [{"index": 2 * n + 1, "code": code, "errmsg": "no"} for n, code in enumerate(codes)]


def test_updates_that_were_to_insert_what_cannot_be_are_misses() -> None:
    assert _missed(BulkWriteError({"writeErrors": refused(66, 66)})) == {1, 3}


@pytest.mark.parametrize("codes", [(14,), (14, 66), (66, 14), (66, 112, 14)])
def test_update_that_failed_for_another_reason_is_raised(codes: tuple[int, ...]) -> None:
    with pytest.raises(OperationFailure) as raised:
        _missed(BulkWriteError({"writeErrors": refused(*codes)}))
    assert raised.value.code == next(code for code in codes if code != 66)


@pytest.mark.parametrize("codes", [(), (66,)])
def test_updates_that_too_few_servers_have_are_raised(codes: tuple[int, ...]) -> None:
    """A miss beside them does not hide it."""
    concern = {"code": 64, "errmsg": "waiting for replication timed out"}
    error = BulkWriteError({"writeErrors": refused(*codes), "writeConcernErrors": [concern]})
    with pytest.raises(BulkWriteError, match="waiting for replication"):
        _missed(error)


CHANGES = [({"_id": n}, {"$set": {"token": None}}) for n in range(3)]


class Told:
    """A collection that tells of updates in its own way."""

    namespace = "db.locks"

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def update_and_tell(self, changes: Any) -> list[bool]:
        self.asked.append(changes)
        return [True] * len(changes)


class Bulks:
    """A client whose server gives these answers to bulks over collections."""

    codec_options = None
    write_concern = WriteConcern()

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    async def bulk_write(self, *_: Any, **__: Any) -> Any:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def with_bulks(*answers: Any) -> Driver:
    driver = Driver(AsyncMongoClient(connect=False))
    driver.client = Bulks(*answers)
    driver.has_cross_collection_bulk = True
    return driver


async def test_updates_are_told_otherwise_when_an_older_server_became_primary() -> None:
    driver, locks = with_bulks(InvalidOperation("MongoDB 8.0 only")), Told()
    collection: Any = locks
    for times in (1, 2):
        assert await driver.update_and_tell(collection, CHANGES) == [True] * 3
        assert locks.asked == [CHANGES] * times
    assert not driver.has_cross_collection_bulk


@pytest.mark.parametrize("number", [0, 1])
async def test_bulk_over_collections_is_for_several_updates(number: int) -> None:
    driver, locks = with_bulks(), Told()
    collection: Any = locks
    assert await driver.update_and_tell(collection, CHANGES[:number]) == [True] * number
    assert locks.asked == [CHANGES[:number]]


async def test_lost_connection_of_a_bulk_is_noted_and_raised_as_it_is() -> None:
    """PyMongo wraps it."""
    lost = AutoReconnect("connection closed")
    driver = with_bulks(ClientBulkWriteException({"error": lost}, True))
    noted: list[str] = []
    driver.on_disconnect = lambda: noted.append("lost")
    collection: Any = Told()
    with pytest.raises(AutoReconnect, match="connection closed"):
        await driver.update_and_tell(collection, CHANGES)
    assert noted == ["lost"]


async def test_fake_explains_nothing() -> None:
    collection = Driver(AsyncMongoMockClient()).collection("db", "locks")
    keys = [("partition", 1)]
    assert await collection.explain({}, sort=keys, hint=keys, max_time=1.0) is None


async def test_fake_takes_a_hint_for_what_it_is() -> None:
    collection = Driver(AsyncMongoMockClient()).collection("db", "locks")
    await collection.insert([{"_id": 1}])
    update = {"$set": {"token": "w"}}
    assert await collection.find_one_and_update({}, update, hint=[("partition", 1)]) is not None


STATS = {"totalKeysExamined": 3, "totalDocsExamined": 2, "executionTimeMillis": 1}


def test_cost_is_what_the_server_counted() -> None:
    cost = cost_of({"executionStats": {"executionSuccess": True, **STATS}})
    assert cost == Cost(keys=3, documents=2, milliseconds=1)
    assert cost.examined == 5


@pytest.mark.parametrize("missing", STATS)
def test_server_that_does_not_count_tells_no_cost(missing: str) -> None:
    stats = {name: value for name, value in STATS.items() if name != missing}
    assert cost_of({"executionStats": stats}) is None
    assert cost_of({"queryPlanner": {}}) is None


def test_cost_of_a_query_that_failed_is_its_error() -> None:
    """MongoDB explains it up to there, as if half of the way were all of it."""
    stats = {**STATS, "executionSuccess": False, "errorMessage": "time is up", "errorCode": 50}
    with pytest.raises(OperationFailure, match="time is up") as raised:
        cost_of({"executionStats": stats})
    assert raised.value.code == 50
