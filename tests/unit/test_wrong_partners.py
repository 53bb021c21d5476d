"""What does not go together is refused by an error that names what was given and what is allowed.

Transport and queue, and their blocking twins, are easily taken for each other.
"""

from typing import Any

import pytest
from mongomock_motor import AsyncMongoMockClient
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient, MongoClient

from fairlane import (
    AsyncJobQueue,
    AsyncMongoTransport,
    ConfigurationError,
    FairlaneError,
    JobQueue,
    Jobs,
    MongoTransport,
    WorkerPool,
)
from fairlane.driver._kinds import kind_of


async def handle(*_: object) -> None: ...


def nothing() -> Any: ...


CLIENT: Any = AsyncMongoMockClient()
TRANSPORT = AsyncMongoTransport[Any](CLIENT)
QUEUE = AsyncJobQueue(CLIENT)
JOBS = Jobs()
EVENT_JOB = JOBS.event("work")(handle)
NOT_OPEN = AsyncJobQueue.connect("mongodb://localhost")

A_QUEUE = "a Jobs registry goes with an AsyncJobQueue, WorkerPool(queue, jobs):"
A_REGISTRY = "the handlers of an AsyncJobQueue are a Jobs registry, not"
A_SOURCE = "source must be an AsyncMongoTransport, another Source, or an AsyncJobQueue"


@pytest.mark.parametrize(
    ("source", "handler", "said"),
    [
        (JobQueue(nothing), JOBS, f"{A_QUEUE} JobQueue blocks, its claim is no coroutine"),
        (MongoTransport(nothing), JOBS, f"{A_QUEUE} MongoTransport blocks"),
        (TRANSPORT, JOBS, f"{A_QUEUE} AsyncMongoTransport is no queue"),
        (NOT_OPEN, JOBS, f"{A_QUEUE} open this Opening first"),
        (AsyncJobQueue, JOBS, f"{A_QUEUE} AsyncJobQueue is a class"),
        (None, JOBS, f"{A_QUEUE} NoneType is no queue"),
        (QUEUE, handle, f"{A_REGISTRY} function: "),
        (QUEUE, EVENT_JOB, f"{A_REGISTRY} EventJob: "),
        (QUEUE, Jobs, f"{A_REGISTRY} the class Jobs"),
        (QUEUE, TRANSPORT, f"{A_REGISTRY} AsyncMongoTransport"),
        (JobQueue(nothing), handle, f"{A_SOURCE} with a Jobs registry: JobQueue blocks"),
        (None, handle, f"{A_SOURCE} with a Jobs registry: NoneType has no claim"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_pool_says_what_it_got_and_what_goes_together(source: Any, handler: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        WorkerPool(source, handler)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("source", "handler", "said"),
    [
        (JOBS, QUEUE, "the queue comes first, the Jobs second: WorkerPool(queue, jobs)"),
        (handle, TRANSPORT, "the AsyncMongoTransport comes first, its handler second"),
    ],
    ids=["jobs", "messages"],
)
def test_swapped_arguments_are_noticed(source: Any, handler: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        WorkerPool(source, handler)
    assert said in str(raised.value)


@pytest.mark.parametrize("handler", [handle, JOBS], ids=["messages", "jobs"])
async def test_client_in_place_of_a_source_is_told_what_it_is(handler: Any) -> None:
    client: Any = AsyncIOMotorClient(connect=False)
    with pytest.raises(ConfigurationError, match="AsyncIOMotorClient is of the MongoDB driver"):
        WorkerPool(client, handler)
    client.close()


def test_swapped_part_of_a_pool_for_several_is_noticed() -> None:
    with pytest.raises(ConfigurationError, match="the queue comes first"):
        WorkerPool.together((TRANSPORT, handle), (JOBS, QUEUE))


def test_blocking_client_is_refused_for_transport_and_queue_alike() -> None:
    with (
        MongoClient[Any](connect=False) as client,
        pytest.raises(ConfigurationError, match="AsyncMongoTransport and AsyncJobQueue need an"),
    ):
        kind_of(client)


@pytest.mark.parametrize(
    ("client", "said"),
    [
        (AsyncMongoClient, "not the class AsyncMongoClient"),
        ("mongodb://localhost", "not str"),
        (QUEUE, "not AsyncJobQueue"),
    ],
    ids=["class", "url", "queue"],
)
def test_what_is_no_client_is_named(client: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{said}$"):
        kind_of(client)


@pytest.mark.parametrize("owner", [AsyncJobQueue, AsyncMongoTransport])
async def test_what_was_closed_says_so(owner: Any) -> None:
    product = owner._owning(AsyncMongoMockClient())
    await product.close()
    for call in (product.stats, product.__aenter__):
        with pytest.raises(FairlaneError, match=f"this {owner.__name__} has been closed"):
            await call()


@pytest.mark.parametrize("owner", [AsyncJobQueue, AsyncMongoTransport])
async def test_unknown_option_is_told_by_whom_it_was_opened_with(owner: Any) -> None:
    connect = getattr(owner, "connect", None) or owner.from_url
    with pytest.raises(
        ConfigurationError, match=f"neither {owner.__name__} nor the MongoDB client"
    ):
        await connect("mongodb://localhost", no_such_option=1)
