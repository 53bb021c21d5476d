"""The blocking transport on a real server: the same life of a message, from many threads."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient

from fairlane import (
    AsyncMongoTransport,
    ConfigurationError,
    Lease,
    LeaseLost,
    MongoTransport,
    PayloadError,
    ServerUnreachable,
    WorkerPool,
)
from fairlane.testing import ManualClock

Blocking = MongoTransport[Any]
Make = Callable[..., Blocking]


@pytest.fixture(autouse=True)
def no_blocking_call() -> None:
    """Watch nothing: the loops at work here serve nobody but the threads that wait for them."""


@pytest.fixture
def make(fairlane_url: str, db_name: str, driver: str) -> Iterator[Make]:
    """Return a factory of blocking transports on the test's database, which is dropped."""
    made: list[Blocking] = []

    def open_transport(**options: Any) -> Blocking:
        made.append(MongoTransport.from_url(fairlane_url, db_name, driver=driver, **options))
        return made[-1]

    yield open_transport
    for transport in made:
        transport.close()
    with MongoClient[Any](fairlane_url) as client:
        client.drop_database(db_name)


@pytest.fixture
def blocking(make: Make, clock: ManualClock) -> Blocking:
    return make(clock=clock)


@pytest.fixture
def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def claimed(transport: Blocking, worker_id: str = "w1") -> Lease[Any]:
    lease = transport.claim(worker_id)
    assert lease is not None
    return lease


def test_message_is_published_claimed_and_settled(blocking: Blocking) -> None:
    seq = blocking.publish("order-42", {"kind": "paid"}, 3, message_id="m-1")
    lease = claimed(blocking)
    assert (lease.seq, lease.event, lease.priority) == (seq, {"kind": "paid"}, 3)
    assert blocking.ack(lease) is True
    assert blocking.claim("w1") is None


def test_messages_of_a_group_come_in_order(blocking: Blocking) -> None:
    published = blocking.publish_many(("g", n) for n in range(5))
    seqs = []
    for _ in published:
        lease = claimed(blocking)
        seqs.append(lease.seq)
        blocking.ack(lease)
    assert seqs == published


def test_iterable_is_read_in_the_thread_of_the_caller(blocking: Blocking) -> None:
    threads = []

    def items() -> Iterator[tuple[str, int]]:
        threads.append(threading.current_thread())
        yield ("g", 1)

    blocking.publish_many(items())
    assert threads == [threading.current_thread()]


def test_nack_parks_the_group(blocking: Blocking, clock: ManualClock) -> None:
    blocking.publish("g", 1)
    assert blocking.nack(claimed(blocking), 10, error="no")
    assert blocking.claim("w1") is None
    clock.advance(10)
    assert claimed(blocking).attempt == 2


def test_release_does_not_count_the_attempt(blocking: Blocking) -> None:
    blocking.publish("g", 1)
    assert blocking.release(claimed(blocking))
    assert claimed(blocking).attempt == 1


def test_extend_moves_the_end(blocking: Blocking, clock: ManualClock) -> None:
    blocking.publish("g", 1)
    assert blocking.extend(claimed(blocking), 90).expires_at == clock() + 90


def test_extend_of_a_settled_lease_says_that_it_is_lost(blocking: Blocking) -> None:
    blocking.publish("g", 1)
    lease = claimed(blocking)
    blocking.ack(lease)
    with pytest.raises(LeaseLost):
        blocking.extend(lease)


def test_claim_many_leases_distinct_groups(blocking: Blocking) -> None:
    blocking.publish_many([("a", 1), ("b", 2), ("a", 3)])
    leases = blocking.claim_many("w1", 5)
    assert {lease.group_id for lease in leases} == {"a", "b"}
    assert blocking.ack_many(iter(leases)) == [True, True]


def test_dead_letters_are_listed_and_redriven(blocking: Blocking) -> None:
    blocking.publish_many([(f"g{n}", n) for n in range(3)])
    for lease in blocking.claim_many("w1", 3):
        blocking.dead_letter(lease, "broken")
    assert [letter.event for letter in blocking.dead_letters()] == [0, 1, 2]
    assert [letter.event for letter in blocking.dead_letters("g1")] == [1]
    assert blocking.redrive(group_id="g1") == 1
    assert claimed(blocking).event == 1


def test_dead_letters_may_be_settled_while_they_are_listed(blocking: Blocking) -> None:
    blocking.publish_many([(f"g{n}", n) for n in range(3)])
    for lease in blocking.claim_many("w1", 3):
        blocking.dead_letter(lease, "broken")
    assert sum(blocking.redrive(seq=letter.seq) for letter in blocking.dead_letters()) == 3


def test_rest_of_the_verbs_answer(blocking: Blocking) -> None:
    blocking.ensure_indexes()
    blocking.publish("g", 1)
    assert [message.event for message in blocking.peek("g")] == [1]
    assert blocking.stats().messages == 1
    assert blocking.repair() == blocking.repair(full=True)
    assert blocking.strategy in ("find_one_and_update", "update_one")
    assert blocking.reconcile() == 0
    blocking.clear()
    assert blocking.stats().messages == 0
    blocking.drop()
    assert blocking.publish("g", 1) == 1


def test_partitions_are_those_of_the_asynchronous_transport(make: Make) -> None:
    blocking = make(partitions=4)
    blocking.publish_many([(f"g{n}", n) for n in range(20)])
    with pytest.raises(ConfigurationError, match="partitions=4"):
        make(partitions=8)
    leases = make().claim_many("w1", 30)
    assert sorted(lease.event for lease in leases) == list(range(20))
    blocking.repartition(8)
    assert make(partitions=8).claim("w2") is None


def test_bad_payload_is_refused_as_by_the_asynchronous_transport(blocking: Blocking) -> None:
    with pytest.raises(PayloadError, match="when"):
        blocking.publish("g", {"when": object()})


def test_unreachable_server_is_said_at_once(driver: str, free_port: int) -> None:
    with pytest.raises(ServerUnreachable, match=str(free_port)):
        MongoTransport.from_url(
            f"mongodb://127.0.0.1:{free_port}", driver=driver, connect_timeout=0.2
        )


def test_bad_option_is_said_at_once(fairlane_url: str) -> None:
    with pytest.raises(ConfigurationError, match="driver must be"):
        MongoTransport.from_url(fairlane_url, driver="pigeon")


def test_close_ends_every_thread_that_was_started(make: Make) -> None:
    before = set(threading.enumerate())
    transport = make()
    transport.stats()
    started = set(threading.enumerate()) - before
    transport.close()
    for thread in started:
        thread.join(5)
    assert [thread.name for thread in started if thread.is_alive()] == []


def test_forty_threads_claim_distinct_groups(blocking: Blocking) -> None:
    blocking.publish_many([(f"g{n}", n) for n in range(40)])
    with ThreadPoolExecutor(40) as threads:
        leases = list(threads.map(lambda n: claimed(blocking, f"w{n}"), range(40)))
    assert {lease.group_id for lease in leases} == {f"g{n}" for n in range(40)}


async def test_worker_threads_of_an_application_may_publish(make: Make) -> None:
    transport = await asyncio.to_thread(make)
    published = (asyncio.to_thread(transport.publish, f"g{n}", n) for n in range(40))
    assert sorted(await asyncio.gather(*published)) == list(range(1, 41))


async def test_plain_handler_of_a_pool_may_publish(
    make: Make, clock: ManualClock, transport: AsyncMongoTransport[Any]
) -> None:
    blocking = await asyncio.to_thread(make, clock=clock)
    pool: WorkerPool[Any]

    def handle(lease: Lease[Any]) -> None:
        if lease.event == "first":
            blocking.publish("g", "second")
        else:
            pool.stop()

    pool = WorkerPool(transport, handle, poll_interval=0.01)
    await transport.publish("g", "first")
    await pool.run()
    assert (await transport.stats()).messages == 0


def test_two_transports_work_in_one_process(make: Make, clock: ManualClock) -> None:
    one, other = make(clock=clock), make(clock=clock)
    one.publish("g", 1)
    assert other.ack(claimed(one)) is True


def test_factory_opens_a_transport_around_its_own_client(
    fairlane_url: str, make: Make, db_name: str
) -> None:
    make().publish("g", 1)

    @asynccontextmanager
    async def factory() -> AsyncIterator[AsyncMongoTransport[Any]]:
        async with AsyncMongoClient[Any](fairlane_url) as client:
            yield AsyncMongoTransport(client, db_name)

    with MongoTransport(factory) as transport:
        assert claimed(transport).event == 1
