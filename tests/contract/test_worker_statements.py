"""A pool on a real server: statements 31, 37 to 42 and 53.

What a pool decides by itself is tested without a server, in the unit tests.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fairlane import AsyncMongoTransport, Backoff, Lease, Reject, Retry, WorkerPool
from fairlane.worker import WorkerEvent

Transport = AsyncMongoTransport[Any]
Lived = Lease[Any]

SOON = Backoff(base=0.05, jitter=0.0)
LONG = 30.0


@pytest.fixture
def way() -> dict[str, Any]:
    """Named, as the commands of a claim are named here; on MongoDB 8.0 it would be another one."""
    return {"strategy": "find_one_and_update"}


class Record:
    """Listens to a pool, and lets a test wait for what happens."""

    def __init__(self) -> None:
        self.events: list[WorkerEvent] = []
        self._news: asyncio.Queue[WorkerEvent] = asyncio.Queue()

    def __call__(self, event: WorkerEvent) -> None:
        self._news.put_nowait(event)

    async def until(self, kind: str, times: int = 1) -> None:
        async with asyncio.timeout(LONG):
            while self.kinds.count(kind) < times:
                self.events.append(await self._news.get())

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]


@pytest.fixture
def record() -> Record:
    return Record()


@pytest.fixture
def transport(make_transport: Callable[..., Transport]) -> Transport:
    """A transport in the server's time: pools wait in real time."""
    return make_transport(clock=None)


@pytest.fixture
def make_pool(transport: Transport, record: Record) -> Callable[..., WorkerPool[Any]]:
    def make(handler: Any, **options: Any) -> WorkerPool[Any]:
        settings = {"poll_interval": 0.05, "backoff": SOON, "on_event": record, **options}
        return WorkerPool(transport, handler, **settings)

    return make


MakePool = Callable[..., WorkerPool[Any]]


async def handled(_: Lived) -> None:
    """Succeed at once."""


async def test_pool_that_prefers_high_priority_falls_back_to_low(
    transport: Transport, make_pool: MakePool, record: Record
) -> None:
    """Statement 31."""
    priorities = [0, 3, 1, 4, 2, 4]
    await transport.publish_many([(f"g{n}", n, level) for n, level in enumerate(priorities)])
    served: list[int] = []

    async def handle(lease: Lived) -> None:
        served.append(lease.priority)

    async with make_pool(handle, concurrency=1, order="priority"):
        await record.until("acked", times=6)

    assert served == sorted(priorities, reverse=True)


async def test_repeated_delivery_has_the_same_seq_and_a_higher_attempt(
    transport: Transport, make_pool: MakePool, record: Record
) -> None:
    """Statement 37."""
    seq = await transport.publish("g", 1)
    seen: list[tuple[int, int]] = []

    async def handle(lease: Lived) -> None:
        seen.append((lease.seq, lease.attempt))
        if lease.attempt < 3:
            raise Retry(0)

    async with make_pool(handle):
        await record.until("acked")

    assert seen == [(seq, 1), (seq, 2), (seq, 3)]


async def test_later_retry_parks_the_group_without_spinning(
    transport: Transport, make_pool: MakePool, record: Record
) -> None:
    """Statement 38."""
    await transport.publish_many([("g", 1), ("g", 2)])
    starts: list[float] = []
    loop = asyncio.get_running_loop()

    async def handle(lease: Lived) -> None:
        starts.append(loop.time())
        if lease.event == 1 and lease.attempt == 1:
            raise Retry(0.5)

    async with make_pool(handle):
        await record.until("acked", times=2)

    assert len(starts) == 3
    assert starts[1] - starts[0] >= 0.5


async def test_exception_is_a_nack_with_backoff_and_the_message_comes_back(
    transport: Transport, make_pool: MakePool, record: Record
) -> None:
    """Statement 39."""
    await transport.publish("g", 1)

    async def handle(lease: Lived) -> None:
        if lease.attempt == 1:
            raise ValueError("bad")

    async with make_pool(handle):
        await record.until("acked")

    assert record.kinds == ["claimed", "handler_failed", "nacked", "claimed", "acked"]


@pytest.mark.parametrize("workers", [1, 6])
async def test_one_and_many_workers_end_with_the_same_result(
    transport: Transport, make_pool: MakePool, record: Record, workers: int
) -> None:
    """Statement 40."""
    await transport.publish_many([(f"g{n % 5}", n) for n in range(40)])
    handled: dict[str, list[int]] = {}

    async def handle(lease: Lived) -> None:
        if lease.event % 7 == 0 and lease.attempt == 1:
            raise ValueError("first delivery fails")
        handled.setdefault(lease.group_id, []).append(lease.event)

    async with make_pool(handle, concurrency=workers, claimers=workers):
        await record.until("acked", times=40)

    assert handled == {f"g{g}": list(range(g, 40, 5)) for g in range(5)}
    assert (await transport.stats()).groups == 0


@pytest.mark.parametrize(
    "commands", [("findAndModify",), ("find", "aggregate"), ("update",), ("delete",)]
)
async def test_transient_error_of_the_server_does_not_end_the_pool(
    transport: Transport,
    make_pool: MakePool,
    record: Record,
    fail_command: Callable[..., Any],
    commands: tuple[str, ...],
) -> None:
    """Statement 41. Four failures: the driver hides two by its own retries."""
    await transport.publish_many([(f"g{n}", n) for n in range(4)])
    await fail_command(*commands, mode={"times": 4}, errorCode=6)

    async with make_pool(handled, concurrency=1):
        await record.until("acked", times=4)

    await fail_command(*commands, mode="off")
    assert "lease_lost" not in record.kinds
    assert (await transport.stats()).messages == 0


class OddCodec:
    """Cannot decode the number 13."""

    def encode(self, event: int) -> int:
        return event

    def decode(self, value: int) -> int:
        if value == 13:
            raise ValueError("13 is no number")
        return value


async def test_document_that_cannot_be_decoded_goes_to_the_dead_letters_and_the_pool_goes_on(
    make_transport: Callable[..., Transport], record: Record
) -> None:
    """Statement 41."""
    transport = make_transport(clock=None, codec=OddCodec())
    await transport.publish_many([("g", 13), ("g", 14), ("h", 15)])

    async with WorkerPool(transport, handled, poll_interval=0.05, on_event=record):
        await record.until("acked", times=2)

    assert [letter.seq async for letter in transport.dead_letters()] == [1]


async def test_stop_finishes_the_messages_in_flight_and_leaves_the_others(
    transport: Transport, make_pool: MakePool, record: Record
) -> None:
    """Statement 42."""
    await transport.publish_many([(f"g{n}", n) for n in range(6)])
    go = asyncio.Event()

    async def handle(_: Lived) -> None:
        await go.wait()

    async with make_pool(handle, concurrency=4) as pool:
        await record.until("claimed", times=4)
        pool.stop()
        go.set()

    await record.until("acked", times=4)
    stats = await transport.stats()
    assert (stats.ready, stats.leased) == (2, 0)


async def test_handler_cut_off_by_the_drain_deadline_is_not_charged_an_attempt(
    transport: Transport, make_pool: MakePool, record: Record
) -> None:
    """Statement 42; five deployments during the same message."""
    await transport.publish("g", 1)

    async def handle(_: Lived) -> None:
        await asyncio.sleep(3_600)

    for times in range(1, 6):
        async with make_pool(handle, max_attempts=2, drain_timeout=0):
            await record.until("claimed", times)
    await record.until("released", times=5)

    lease = await transport.claim("next")
    assert lease is not None
    assert lease.attempt == 1


async def test_cancelled_run_leaves_nothing_leased_and_charges_no_attempt(
    transport: Transport, make_pool: MakePool
) -> None:
    """Statements 36 and 42, at any moment of a run."""
    await transport.publish_many([(f"g{n}", n) for n in range(4)])

    async def handle(_: Lived) -> None:
        await asyncio.sleep(3_600)

    for moment in range(30):
        run = asyncio.create_task(make_pool(handle, concurrency=4, claimers=2).run())
        await asyncio.sleep(moment / 2_000)
        run.cancel()
        await asyncio.wait([run])
        assert run.cancelled()

    leases = await transport.claim_many("next", 5)
    assert [lease.attempt for lease in leases] == [1] * 4


async def test_message_whose_workers_died_is_dead_lettered_instead_of_delivered(
    transport: Transport, make_pool: MakePool, record: Record
) -> None:
    """Statement 53. A claim that nobody settles is what a dead worker leaves."""
    await transport.publish_many([("g", 1), ("g", 2)])
    for _ in range(3):
        assert await transport.claim("doomed", visibility=0.1) is not None
        await asyncio.sleep(0.15)

    async with make_pool(handled, max_attempts=3):
        await record.until("acked")

    letters = [letter async for letter in transport.dead_letters()]
    assert [(letter.seq, letter.reason, letter.attempts) for letter in letters] == [
        (1, "worker lost after 3 attempts", 4)
    ]
    assert record.events[-1].seq == 2


async def test_reject_and_the_last_exception_go_to_the_dead_letters_with_their_reasons(
    transport: Transport, make_pool: MakePool, record: Record
) -> None:
    await transport.publish_many([("g", "reject"), ("h", "fail"), ("g", "fine")])

    async def handle(lease: Lived) -> None:
        if lease.event == "reject":
            raise Reject("no such user")
        if lease.event == "fail":
            raise ValueError("bad")

    async with make_pool(handle, max_attempts=2):
        await record.until("dead_lettered", times=2)
        await record.until("acked")

    reasons = {letter.group_id: letter.reason async for letter in transport.dead_letters()}
    assert reasons == {"g": "no such user", "h": "ValueError: bad"}


async def test_long_handler_keeps_its_lease_against_a_second_pool(
    transport: Transport, make_pool: MakePool, record: Record
) -> None:
    await transport.publish("g", 1)

    async def handle(_: Lived) -> None:
        await asyncio.sleep(3)

    async with make_pool(handle, visibility=1), make_pool(handle, visibility=1):
        await record.until("acked")

    assert record.kinds == ["claimed", "acked"]


async def test_handler_is_cancelled_when_another_worker_has_the_group(
    transport: Transport, make_pool: MakePool, record: Record, database: Any
) -> None:
    await transport.publish("g", 1)
    ends: list[str] = []

    async def handle(_: Lived) -> None:
        try:
            await asyncio.sleep(3_600)
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise

    async with make_pool(handle, visibility=1):
        await record.until("claimed")
        taken = {"$set": {"token": "other:1"}, "$inc": {"available_at": 3_600}}
        await database["fairlane_locks"].update_one({"_id": "g"}, taken)
        await record.until("lease_lost")

    assert ends == ["cancelled"]
    assert (await database["fairlane_locks"].find_one({"_id": "g"}))["token"] == "other:1"


async def test_head_that_always_retries_at_once_starves_nobody(
    transport: Transport, make_pool: MakePool, record: Record
) -> None:
    await transport.publish_many([("bad", 0), *((f"g{n}", n) for n in range(5))])
    served: list[str] = []

    async def handle(lease: Lived) -> None:
        served.append(lease.group_id)
        if lease.group_id == "bad":
            raise Retry(0)

    async with make_pool(handle, concurrency=1, max_attempts=1_000):
        await record.until("acked", times=5)

    assert served.count("bad") <= 3


async def test_publish_through_the_same_transport_wakes_an_idle_pool(
    transport: Transport, make_pool: MakePool, record: Record
) -> None:
    async with make_pool(handled, poll_interval=3_600) as pool:
        async with asyncio.timeout(LONG):
            while pool.health.state == "starting":  # noqa: ASYNC110
                await asyncio.sleep(0)
        await transport.publish("g", 1)
        await record.until("acked")


async def test_group_that_no_claim_finds_is_put_right_by_an_idle_pool(
    transport: Transport,
    make_pool: MakePool,
    record: Record,
    database: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fairlane.worker._run.RECONCILE_SECONDS", 0.1)
    await transport.publish("g", 1)
    await database["fairlane_locks"].update_one({}, {"$set": {"partition": 7}})

    async with make_pool(handled):
        await record.until("acked")


async def test_message_without_a_lock_is_repaired_by_an_idle_pool(
    transport: Transport,
    make_pool: MakePool,
    record: Record,
    database: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a publisher leaves that died half-way, some time ago."""
    monkeypatch.setattr("fairlane.worker._run.REPAIR_SECONDS", 0.1)
    await transport.publish("g", 1)
    await database["fairlane_messages"].update_one({}, {"$inc": {"published_at": -60}})
    await database["fairlane_locks"].delete_many({})

    async with make_pool(handled):
        await record.until("acked")
