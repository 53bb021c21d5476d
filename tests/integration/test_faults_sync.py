"""A blocking transport wherever an application may call it (fault 50).

Where an event loop runs in the calling thread it says what to do; everywhere else it works.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi import FastAPI

from fairlane import AsyncMongoTransport, ConfigurationError, Lease, MongoTransport, WorkerPool

THREADS = 40
ADVICE = "MongoTransport blocks, and an event loop is running .* use AsyncMongoTransport"


@pytest.fixture
async def blocking(
    fairlane_url: str, connect: Callable[..., Any], db_name: str
) -> AsyncIterator[MongoTransport[Any]]:
    connect()  # so that the database is dropped
    transport: MongoTransport[Any] = await asyncio.to_thread(
        MongoTransport.from_url, fairlane_url, db_name
    )
    yield transport
    await asyncio.to_thread(transport.close)


@pytest.fixture
def application(blocking: MongoTransport[Any]) -> FastAPI:
    app = FastAPI()

    @app.get("/in-a-thread/{number}")
    def publish(number: int) -> int:
        return blocking.publish(f"g{number}", number)

    @app.get("/in-the-loop")
    async def publish_in_the_loop() -> int:
        return blocking.publish("g", 1)

    return app


async def answer(app: FastAPI, path: str) -> bytes:
    """Return what the application answers to a GET request; raise what it raises."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    request = {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": [],
        "http_version": "1.1",
        "scheme": "http",
    }
    await app(request, receive, send)
    return b"".join(message.get("body", b"") for message in sent)


async def test_endpoints_in_threads_share_one_transport(application: FastAPI) -> None:
    requests = (answer(application, f"/in-a-thread/{number}") for number in range(THREADS))
    answers = await asyncio.gather(*requests)
    assert sorted(int(each) for each in answers) == list(range(1, THREADS + 1))


async def test_endpoint_in_the_loop_is_told_what_to_use(application: FastAPI) -> None:
    with pytest.raises(ConfigurationError, match=ADVICE):
        await answer(application, "/in-the-loop")


async def test_plain_function_that_a_running_loop_calls_is_told_what_to_use(
    blocking: MongoTransport[Any],
) -> None:
    """So a notebook runs its cells."""
    told: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

    def cell() -> None:
        with pytest.raises(ConfigurationError, match=ADVICE) as raised:
            blocking.publish("g", 1)
        told.set_result(raised.value)

    asyncio.get_running_loop().call_soon(cell)
    assert isinstance(await told, ConfigurationError)


def test_threads_without_a_loop_share_one_transport(
    fairlane_url: str, db_name: str, janitor: Any
) -> None:
    with MongoTransport[Any].from_url(fairlane_url, db_name) as transport:
        with ThreadPoolExecutor(THREADS) as threads:
            numbers = list(threads.map(lambda n: transport.publish(f"g{n}", n), range(THREADS)))
        assert sorted(numbers) == list(range(1, THREADS + 1))
    janitor.drop_database(db_name)


@pytest.fixture
def transport(connect: Callable[..., Any], db_name: str) -> AsyncMongoTransport[Any]:
    return AsyncMongoTransport(connect("pymongo"), db_name)


async def test_handler_in_a_thread_may_publish(
    transport: AsyncMongoTransport[Any], blocking: MongoTransport[Any]
) -> None:
    done = threading.Event()

    def handle(lease: Lease[Any]) -> None:
        if lease.event:
            blocking.publish("next", lease.event - 1)
        else:
            done.set()

    await transport.publish("first", 3)
    async with WorkerPool(transport, handle, poll_interval=0.05):
        assert await asyncio.to_thread(done.wait, 10)


async def test_handler_in_the_loop_is_told_what_to_use(
    transport: AsyncMongoTransport[Any], blocking: MongoTransport[Any]
) -> None:
    ended = asyncio.Event()

    async def handle(lease: Lease[Any]) -> None:
        blocking.publish("next", lease.event)

    await transport.publish("first", 1)
    async with WorkerPool(
        transport,
        handle,
        max_attempts=1,
        on_event=lambda event: ended.set() if event.kind == "dead_lettered" else None,
    ):
        await asyncio.wait_for(ended.wait(), 10)

    (letter,) = [each async for each in transport.dead_letters()]
    assert "use AsyncMongoTransport and `await` here" in (letter.reason or "")
