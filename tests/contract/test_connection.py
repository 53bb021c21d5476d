"""Opening, closing and losing the connection: statements 41 (transport), 51 and 52."""

import asyncio
import gc
import socket
import time
import traceback
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from pymongo.errors import InvalidOperation, OperationFailure

from fairlane import (
    AsyncJobQueue,
    AsyncMongoTransport,
    ConfigurationError,
    Lease,
    ServerUnreachable,
    WorkerPool,
)
from fairlane.driver import AUTHENTICATION_FAILED

Transport = AsyncMongoTransport[Any]
MakeTransport = Callable[..., Transport]
Claim = Callable[..., Awaitable[Lease[Any]]]
FailCommand = Callable[..., Awaitable[None]]
Open = Callable[..., Any]

PASSWORD = "s3cret"
REFUSED_BY_SERVER = 8_000


@pytest.fixture
def way() -> dict[str, Any]:
    """Named, as the commands of a claim are named here; on MongoDB 8.0 it would be another one."""
    return {"strategy": "find_one_and_update"}


@pytest.fixture
def open_url(fairlane_url: str, db_name: str, driver: str, connect: Open) -> Open:
    """Return `from_url` for the test's database, which is dropped, and the driver under test."""
    connect()

    def opening(url: str = fairlane_url, **options: Any) -> Any:
        return AsyncMongoTransport.from_url(url, db_name, driver=driver, **options)

    return opening


@pytest.fixture
def loose_sockets() -> Iterator[None]:
    """Collect the sockets that PyMongo leaves behind where it was about to connect when closed."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def with_user(url: str, user: str) -> str:
    return url.replace("://", f"://{user}@", 1)


async def ping(transport: Transport) -> None:
    await transport._store.driver.client.get_database("admin").command("ping")


async def test_from_url_can_be_awaited(open_url: Open) -> None:
    transport = await open_url()
    await transport.publish("g", 1)
    assert (await transport.stats()).messages == 1
    await transport.close()


async def test_from_url_can_be_entered(open_url: Open) -> None:
    async with open_url() as transport:
        assert await transport.publish("g", 1) == 1


async def test_from_url_that_is_not_awaited_says_how_it_is_used(open_url: Open) -> None:
    opening = open_url()
    with pytest.raises(AttributeError, match="not open yet"):
        opening.publish("g", 1)
    with pytest.raises(ConfigurationError, match="async with"), opening:
        pass


async def test_from_url_passes_options_on(open_url: Open) -> None:
    async with open_url(prefix="other", new_group_credit=5, appName="mine") as transport:
        assert transport._store.locks.name == "other_locks"
        assert transport._publisher._credit == 5


async def test_close_closes_the_client_that_the_transport_opened(open_url: Open) -> None:
    """Statement 51."""
    transport = await open_url()
    await transport.close()
    with pytest.raises(InvalidOperation):
        await ping(transport)


async def test_leaving_the_block_closes_the_client_that_the_transport_opened(
    open_url: Open,
) -> None:
    """Statement 51."""
    async with open_url() as transport:
        await ping(transport)
    with pytest.raises(InvalidOperation):
        await ping(transport)


async def test_close_leaves_a_client_alone_that_the_transport_was_given(
    transport: Transport,
) -> None:
    """Statement 51."""
    async with transport:
        await transport.publish("g", 1)
    await transport.close()
    await ping(transport)
    assert (await transport.stats()).messages == 1


async def test_close_may_be_called_again(open_url: Open) -> None:
    transport = await open_url()
    await transport.close()
    await transport.close()


async def test_error_inside_the_block_closes_and_passes_through(open_url: Open) -> None:
    """Statement 51."""
    with pytest.raises(ZeroDivisionError):
        async with open_url() as transport:
            raise ZeroDivisionError
    with pytest.raises(InvalidOperation):
        await ping(transport)


async def test_failed_opening_closes_its_client(open_url: Open, fail_command: FailCommand) -> None:
    """Statement 51: a client left open would warn, and warnings are errors here."""
    await fail_command("createIndexes", mode="alwaysOn", errorCode=REFUSED_BY_SERVER)
    with pytest.raises(OperationFailure):
        await open_url()


def closed_port() -> int:
    """Return a port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
async def silent_port() -> AsyncIterator[int]:
    """Return the port of a server that accepts connections and never says a word."""
    release = asyncio.Event()

    async def say_nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await release.wait()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        yield int(server.sockets[0].getsockname()[1])
        release.set()


async def seconds_until_unreachable(opening: Any, port: int) -> float:
    """Return how long the opening took to fail; the error names the address and no password."""
    start = time.monotonic()
    with pytest.raises(ServerUnreachable, match=f"127.0.0.1:{port}") as raised:
        await opening
    shown = "".join(traceback.format_exception(raised.value))
    assert PASSWORD not in shown
    return time.monotonic() - start


@pytest.mark.usefixtures("loose_sockets")
@pytest.mark.parametrize("timeout", [0.3, timedelta(seconds=0.3)], ids=str)
async def test_closed_port_fails_within_connect_timeout(open_url: Open, timeout: Any) -> None:
    """Statement 52."""
    port = closed_port()
    url = f"mongodb://joe:{PASSWORD}@127.0.0.1:{port}/"
    opening = open_url(url, connect_timeout=timeout)
    assert await seconds_until_unreachable(opening, port) < 1.3


@pytest.mark.usefixtures("loose_sockets")
async def test_silent_server_fails_within_connect_timeout(open_url: Open, silent_port: int) -> None:
    """Statement 52."""
    url = f"mongodb://joe:{PASSWORD}@127.0.0.1:{silent_port}/"
    opening = open_url(url, connect_timeout=0.3)
    assert await seconds_until_unreachable(opening, silent_port) < 1.3


@pytest.mark.usefixtures("loose_sockets")
async def test_connect_timeout_wins_over_the_one_of_the_url(open_url: Open) -> None:
    """Statement 52."""
    port = closed_port()
    url = f"mongodb://127.0.0.1:{port}/?serverSelectionTimeoutMS=60000"
    opening = open_url(url, connect_timeout=0.3)
    assert await seconds_until_unreachable(opening, port) < 1.3


@pytest.mark.usefixtures("loose_sockets")
async def test_cancelled_opening_closes_its_client(open_url: Open, silent_port: int) -> None:
    """Statement 51: a client left open would warn, and warnings are errors here."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await open_url(f"mongodb://127.0.0.1:{silent_port}/", connect_timeout=30)


async def test_wrong_credentials_fail_at_once(open_url: Open, fairlane_url: str) -> None:
    """Statement 52."""
    start = time.monotonic()
    with pytest.raises(ConfigurationError, match="refused the credentials") as raised:
        await open_url(with_user(fairlane_url, f"nobody:{PASSWORD}"))
    assert time.monotonic() - start < 3
    assert PASSWORD not in "".join(traceback.format_exception(raised.value))


def of_set(url: str, name: str) -> str:
    """Return the URL of a server with what another replica set is called."""
    return f"{url}{'&' if '?' in url else '/?'}replicaSet={name}"


@pytest.mark.usefixtures("loose_sockets")
@pytest.mark.parametrize("option", ["", "&directConnection=true"])
async def test_wrong_replica_set_fails_at_once(
    open_url: Open, fairlane_url: str, option: str
) -> None:
    """Fault 51: the driver would look for a server of that set for as long as it may."""
    start = time.monotonic()
    with pytest.raises(ConfigurationError, match=r"replica set.*nobodys"):
        await open_url(of_set(fairlane_url, "nobodys") + option, connect_timeout=30)
    assert time.monotonic() - start < 3


@pytest.mark.usefixtures("loose_sockets")
@pytest.mark.parametrize("option", ["", "&directConnection=true"])
async def test_server_that_is_away_is_waited_for_whatever_its_replica_set(
    open_url: Open, option: str
) -> None:
    """A direct connection takes it for one of another set, without a name."""
    port = closed_port()
    url = of_set(f"mongodb://127.0.0.1:{port}", "ours") + option
    assert await seconds_until_unreachable(open_url(url, connect_timeout=0.4), port) > 0.3


@pytest.mark.usefixtures("loose_sockets")
async def test_pool_on_a_client_of_a_wrong_replica_set_fails_at_once(
    connect: Callable[..., Any], driver: str, fairlane_url: str, db_name: str
) -> None:
    transport = AsyncMongoTransport[Any](connect(driver, of_set(fairlane_url, "nobodys")), db_name)
    with pytest.raises(ConfigurationError, match="replica set 'nobodys'"):
        async with asyncio.timeout(3):
            await WorkerPool(transport, print).run()


async def test_pool_whose_login_is_refused_fails_at_once(
    connect: Callable[..., Any], driver: str, fairlane_url: str, db_name: str
) -> None:
    """Fault 51."""
    client = connect(driver, with_user(fairlane_url, "nobody:nothing"))
    with pytest.raises(OperationFailure) as raised:
        async with asyncio.timeout(3):
            await WorkerPool(AsyncMongoTransport[Any](client, db_name), print).run()
    assert raised.value.code == AUTHENTICATION_FAILED


@pytest.mark.usefixtures("loose_sockets")
@pytest.mark.parametrize("product", [AsyncMongoTransport, AsyncJobQueue])
async def test_message_without_a_server_takes_no_longer_than_its_caller_waits(
    connect: Callable[..., Any], driver: str, db_name: str, product: Any
) -> None:
    """Fault 51: a client alone would wait for half a minute."""
    opened = product(connect(driver, f"mongodb://127.0.0.1:{closed_port()}"), db_name)
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await (opened.enqueue if product is AsyncJobQueue else opened.publish)("x", "y")
    assert time.monotonic() - start < 1


@pytest.mark.usefixtures("loose_sockets")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:no-port",
        f"joe:{PASSWORD}@127.0.0.1",
        f"http://joe:{PASSWORD}@127.0.0.1",
        f"mongodb://joe:{PASSWORD}@",
        f"mongodb://joe:{PASSWORD}@127.0.0.1:99999",
        f"mongodb://joe:{PASSWORD}@127.0.0.1:x",
        f"mongodb://joe:{PASSWORD}/1@127.0.0.1",
        f"mongodb://joe:12/{PASSWORD}@127.0.0.1:x",
        f"mongodb://joe:{PASSWORD}%@127.0.0.1",
        f"mongodb://joe:@{PASSWORD}@127.0.0.1",
        f"mongodb://joe:{PASSWORD}:x@127.0.0.1",
        f"mongodb://joe:{PASSWORD}@127.0.0.1,,127.0.0.2",
        f"mongodb://joe:{PASSWORD}@127.0.0.1/?w",
    ],
)
async def test_bad_url_is_refused_without_showing_the_password(open_url: Open, url: str) -> None:
    """Statement 52."""
    with pytest.raises((ConfigurationError, ServerUnreachable)) as raised:
        await open_url(url, connect_timeout=0.2)
    assert PASSWORD not in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize("url", [None, 5, b"mongodb://127.0.0.1", ["mongodb://127.0.0.1"]])
async def test_url_that_is_no_str_is_refused(open_url: Open, url: Any) -> None:
    with pytest.raises(ConfigurationError, match="url"):
        await open_url(url)


@pytest.mark.parametrize("driver_name", ["", "Motor", "asyncio", None, 1])
async def test_unknown_driver_is_refused(fairlane_url: str, driver_name: Any) -> None:
    with pytest.raises(ConfigurationError, match="driver"):
        await AsyncMongoTransport.from_url(fairlane_url, driver=driver_name)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), "10", None, True])
def test_connect_timeout_must_be_a_positive_duration(timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="connect_timeout"):
        AsyncMongoTransport.from_url("mongodb://127.0.0.1", connect_timeout=timeout)


@pytest.mark.parametrize(
    "options", [{"no_such_option": 1}, {"maxPoolSize": -1}, {"w": 0}, {"prefix": "$"}], ids=str
)
async def test_bad_option_is_refused(open_url: Open, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        await open_url(**options)


async def test_bad_database_name_is_refused(fairlane_url: str, driver: str) -> None:
    with pytest.raises(ConfigurationError, match="db_name"):
        await AsyncMongoTransport.from_url(fairlane_url, "a.b", driver=driver)


async def test_entering_a_transport_makes_its_indexes(transport: Transport, database: Any) -> None:
    async with transport:
        names = await database["fairlane_locks"].index_information()
    assert "partition_1_priority_-1_available_at_1" in names


async def test_first_call_does_what_entering_does(transport: Transport, database: Any) -> None:
    await transport.claim("w")
    names = await database["fairlane_locks"].index_information()
    assert "partition_1_priority_-1_available_at_1" in names


async def test_failed_first_call_is_not_remembered(
    transport: Transport, fail_command: FailCommand
) -> None:
    await fail_command("createIndexes", errorCode=REFUSED_BY_SERVER)
    with pytest.raises(OperationFailure):
        await transport.publish("g", 1)
    assert await transport.publish("g", 1) == 1


async def test_cancelled_first_call_leaves_a_transport_that_works(
    make_transport: MakeTransport,
) -> None:
    """Statement 35: it was still learning the settings and making the indexes."""
    for ticks in range(0, 60, 3):
        transport = make_transport(prefix=f"p{ticks}")
        publishing = asyncio.create_task(transport.publish("g", "first"))
        for _ in range(ticks):
            await asyncio.sleep(0)
        publishing.cancel()
        await asyncio.wait((publishing,))
        await transport.publish("g", "second")
        events = [message.event for message in await transport.peek("g")]
        assert events in (["second"], ["first", "second"])


async def test_every_operation_survives_a_connection_that_drops_once(
    transport: Transport, claim: Claim, fail_command: FailCommand
) -> None:
    """Statement 41: the driver retries; nothing happens twice."""
    await transport.stats()
    for command in ("findAndModify", "bulkWrite"):
        await fail_command(command, closeConnection=True)
        await transport.publish("g", command)
    await fail_command("findAndModify", closeConnection=True)
    lease = await claim()
    await fail_command("update", closeConnection=True)
    assert await transport.ack(lease)
    await fail_command("aggregate", closeConnection=True)
    assert (await transport.stats()).messages == 1
    lease = await claim()
    assert (lease.event, lease.attempt) == ("bulkWrite", 1)


@pytest.mark.parametrize("command", ["findAndModify", "bulkWrite"])
async def test_error_of_the_server_passes_through_publish(
    transport: Transport, fail_command: FailCommand, command: str
) -> None:
    """Statement 41."""
    await transport.stats()
    await fail_command(command, errorCode=REFUSED_BY_SERVER)
    with pytest.raises(OperationFailure) as raised:
        await transport.publish("g", PASSWORD)
    assert raised.value.code == REFUSED_BY_SERVER
    assert PASSWORD not in str(raised.value)
    assert (await transport.stats()).messages == 0


async def test_claim_that_fails_while_it_reads_gives_its_group_back(
    transport: Transport, claim: Claim, fail_command: FailCommand
) -> None:
    """Statement 36: the group need not wait for the visibility to pass."""
    await transport.publish("g", 1)
    await fail_command("aggregate", "find", errorCode=REFUSED_BY_SERVER)
    with pytest.raises(OperationFailure):
        await transport.claim("w")
    assert (await claim()).attempt == 1


async def test_claim_many_that_fails_gives_back_what_it_leased(
    transport: Transport, fail_command: FailCommand
) -> None:
    """Statement 36."""
    await transport.publish_many([("a", 1), ("b", 2), ("c", 3)])
    await fail_command("aggregate", "find", mode={"skip": 1}, errorCode=REFUSED_BY_SERVER)
    with pytest.raises(OperationFailure):
        await transport.claim_many("w", 3)
    await fail_command("find", mode="off")
    leases = await transport.claim_many("w", 3)
    assert [lease.attempt for lease in leases] == [1, 1, 1]


@pytest.mark.parametrize("messages", [1, 2])
async def test_failed_clean_up_is_not_a_failed_ack(
    transport: Transport, claim: Claim, fail_command: FailCommand, messages: int
) -> None:
    """Statement 34: the settlement decided; the next claim tidies. Before MongoDB 8.0."""
    await transport.publish_many([("g", number + 1) for number in range(messages)])
    lease = await claim()
    transport._store.driver.has_cross_collection_bulk = False
    await fail_command("delete", errorCode=REFUSED_BY_SERVER)
    assert await transport.ack(lease)
    while (again := await transport.claim("w")) is not None:
        assert again.event == 2
        await transport.ack(again)
    stats = await transport.stats()
    assert (stats.groups, stats.messages) == (0, 0)


async def test_cancelled_claim_leaves_the_group_claimable(
    transport: Transport, claim: Claim
) -> None:
    """Statement 36: wherever the cancellation strikes."""
    await transport.publish("g", 1)
    for ticks in range(30):
        claiming = asyncio.create_task(transport.claim("w"))
        for _ in range(ticks):
            await asyncio.sleep(0)
        claiming.cancel()
        (outcome,) = await asyncio.gather(claiming, return_exceptions=True)
        if isinstance(outcome, Lease):
            await transport.release(outcome)
    assert (await claim()).attempt == 1


async def test_local_subscriber_hears_of_every_publish(transport: Transport) -> None:
    heard: list[int] = []
    unsubscribe = transport.subscribe(lambda: heard.append(1))
    await transport.publish("g", 1)
    await transport.publish_many([("g", 2), ("g", 3)])
    unsubscribe()
    await transport.publish("g", 4)
    assert len(heard) == 2
