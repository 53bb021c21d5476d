"""How a job queue is opened, and what it learns of its server. A12.19 to A12.23; `connect`."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, InvalidOperation, OperationFailure

from fairlane import AsyncJobQueue, ConfigurationError, ServerUnreachable
from fairlane.driver import close
from fairlane.jobs import NewJob
from fairlane.schema import BY_PRIORITY, BY_TYPE
from integration.wire.proxy import Fault, Proxy

MakeQueue = Callable[..., AsyncJobQueue]
FailCommand = Callable[..., Awaitable[None]]
Open = Callable[..., Any]

NOT_PRIMARY = 10_107
STRATEGIES = ("find_one_and_update", "update_one")


@pytest.fixture
def open_url(fairlane_url: str, db_name: str, driver: str, connect: Open) -> Open:
    """Return `connect` for the test's database, which is dropped, and the driver under test."""
    connect()

    def opening(url: str = fairlane_url, **options: Any) -> Any:
        return AsyncJobQueue.connect(url, db_name, driver=driver, **options)

    return opening


async def ping(queue: AsyncJobQueue) -> None:
    await queue._store.driver.client.get_database("admin").command("ping")


async def test_connect_can_be_awaited(open_url: Open) -> None:
    """Untested upstream, where the host is ignored."""
    queue = await open_url()
    await queue.enqueue(1, "t")
    assert await queue.total() == 1
    await queue.close()
    await queue.close()
    with pytest.raises(InvalidOperation):
        await ping(queue)


async def test_connect_can_be_entered_and_closes_its_client(open_url: Open) -> None:
    async with open_url() as queue:
        await ping(queue)
    with pytest.raises(InvalidOperation):
        await ping(queue)


async def test_connect_that_is_not_awaited_says_how_it_is_used(open_url: Open) -> None:
    with pytest.raises(AttributeError, match=r"AsyncJobQueue\.connect"):
        open_url().enqueue(1, "t")


async def test_connect_passes_options_on(open_url: Open) -> None:
    claims: dict[str, Any] = {"partitions": 3, "lease": 12, "strategy": "update_one"}
    jobs: dict[str, Any] = {"max_attempts": 8, "keep_done": 0, "keep_failed": None}
    async with open_url(prefix="other", hint="by_type", appName="mine", **claims, **jobs) as queue:
        await queue.enqueue(1, "t")
        job = await queue.claim("t")
        assert (job.max_attempts, queue.partitions, queue.strategy) == (8, 3, "update_one")
        assert job.available_at - job.locked_at.timestamp() == pytest.approx(12)
        assert queue._store.jobs.name == "other_jobs"
        assert queue._store.hint(("t",)) == BY_TYPE
        assert await queue.ack(job)
        assert await queue.total() == 0


async def test_connect_refuses_what_neither_it_nor_the_client_knows(open_url: Open) -> None:
    with pytest.raises(ConfigurationError, match="partitons"):
        await open_url(partitons=4)


async def test_connect_says_that_no_server_answers(open_url: Open) -> None:
    with pytest.raises(ServerUnreachable, match=r"127\.0\.0\.1:1\b"):
        await open_url("mongodb://user:s3cret@127.0.0.1:1", connect_timeout=0.2)


async def test_close_leaves_a_client_alone_that_the_queue_was_given(queue: AsyncJobQueue) -> None:
    async with queue:
        await queue.enqueue(1, "t")
    await ping(queue)
    assert await queue.total() == 1


async def test_indexes_may_be_ensured_again(queue: AsyncJobQueue, database: Any) -> None:
    """B6.21: nothing is returned, as failures are errors."""
    for _ in range(3):
        await queue.ensure_indexes()
    indexes = await database["fairlane_jobs"].index_information()
    keys = {tuple(index["key"]) for index in indexes.values()}
    assert {BY_TYPE, BY_PRIORITY} <= keys


async def test_index_that_stands_in_the_way_is_shown(queue: AsyncJobQueue, database: Any) -> None:
    await database["fairlane_jobs"].create_index("expires_at", expireAfterSeconds=5)
    with pytest.raises(ConfigurationError, match=r"needs .*expireAfterSeconds.*there is"):
        await queue.enqueue(1, "t")
    assert await database["fairlane_jobs"].count_documents({}) == 0


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("hint", ["by_type", "by_priority", "adaptive"])
async def test_queue_works_without_its_indexes(
    make_queue: MakeQueue, strategy: Any, hint: Any
) -> None:
    """A hinted index that is missing makes no claim fail; one is warned of once."""
    queue = make_queue(ensure_indexes=False, strategy=strategy, hint=hint)
    await queue.enqueue_many([NewJob(n, priority=n) for n in range(4)], "t")
    assert [job.payload for job in [await queue.claim("t"), await queue.claim()] if job] == [3, 2]
    assert len(await queue.claim_many(5, "t")) == 2


async def test_claims_name_the_measured_index(queue: AsyncJobQueue) -> None:
    """A12.24. Of any type it can be but one; before the first measurement it is the one by type."""
    await queue.enqueue_many(range(3), "t")
    await queue.claim("t")
    assert queue._store.hint(()) == BY_PRIORITY
    assert queue._store.hint(("t",)) == BY_TYPE
    await queue.reconcile()
    assert queue._store.hint(("t",)) in (BY_TYPE, BY_PRIORITY)


async def test_strategy_is_known_from_the_first_call_on(queue: AsyncJobQueue) -> None:
    """A12.19 to A12.21: what it is depends on the server and on its index of tokens."""
    assert queue.strategy == "auto"
    await queue.total()
    assert queue.strategy in STRATEGIES


async def test_detection_that_failed_is_done_again(
    queue: AsyncJobQueue, fail_command: FailCommand
) -> None:
    """Untested upstream, where a failure is kept until a restart."""
    await fail_command("buildInfo", errorCode=8_000)
    with pytest.raises(OperationFailure):
        await queue.enqueue(1, "t")
    await queue.enqueue(1, "t")
    assert await queue.claim("t") is not None
    assert queue.strategy in STRATEGIES


async def test_server_is_asked_again_after_a_failover(
    connect: Open, driver: str, db_name: str, fail_command: FailCommand
) -> None:
    queue = AsyncJobQueue(connect(driver, retryWrites=False), db_name)
    await queue.enqueue(1, "t")
    before = queue.strategy
    await fail_command("findAndModify", "update", errorCode=NOT_PRIMARY)
    with pytest.raises(AutoReconnect):
        await queue.claim("t")
    assert queue.strategy == "auto"
    assert await queue.claim("t") is not None
    assert queue.strategy == before


async def test_lease_that_cannot_be_read_back_is_no_lease(make_queue: MakeQueue) -> None:
    """A12.23: matched, but gone before it was read: nothing is handed out."""
    queue = make_queue(strategy="update_one")
    await queue.enqueue(1, "t")
    read_back = queue._store.leaser._read_back

    async def lost(collection: Any, token: str, *rest: Any) -> Any:
        await queue.clear()
        return await read_back(collection, token, *rest)

    queue._store.leaser._read_back = lost  # type: ignore[method-assign, assignment]
    assert await queue.claim("t") is None


@pytest.mark.parametrize("unique_key", [None, "k"])
@pytest.mark.parametrize("many", [False, True], ids=["enqueue", "enqueue_many"])
async def test_enqueue_whose_reply_is_lost_makes_one_job(
    fairlane_url: str,
    connect: Open,
    driver: str,
    db_name: str,
    unique_key: str | None,
    *,
    many: bool,
) -> None:
    """The server has stored it, the connection ends, and the driver repeats it by itself."""
    async with Proxy.opened(fairlane_url) as proxy:
        client = connect(driver, proxy.url)
        queue = AsyncJobQueue(client, db_name)
        await queue.total()
        proxy.arm(Fault(kind="lose reply", command="insert"))
        if many:
            enqueued = await queue.enqueue_many([1, 2], "t")
            assert (enqueued.created, enqueued.errors) == (2, ())
        else:
            assert (await queue.enqueue(1, "t", unique_key=unique_key)).created
        assert proxy.struck == 1
        assert await queue.total() == 1 + many
        await close(client)  # while the proxy can answer


async def test_reads_and_writes_are_pinned(connect: Open, driver: str, db_name: str) -> None:
    """Whatever the client prefers: a claim is read back on the primary."""
    client = connect(driver, readPreference="secondaryPreferred", readConcernLevel="majority", w=1)
    queue = AsyncJobQueue(client, db_name)
    await queue.enqueue(1, "t")
    assert await queue.claim("t") is not None
    raw = queue._store.jobs._raw
    assert raw.read_preference.mongos_mode == "primary"
    assert (raw.read_concern.level, raw.write_concern.document["w"]) == ("local", "majority")
