"""FastAPI under uvicorn and aiohttp, in the event loop of the test, answer real HTTP requests."""

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Annotated, Any

import pytest
import uvicorn
from aiohttp import ClientSession, web
from fastapi import Depends, FastAPI
from pymongo import MongoClient

from fairlane import AsyncMongoTransport, ConfigurationError, Lease, WorkerPool
from fairlane.integrations.aiohttp import CleanupContext
from fairlane.integrations.fastapi import Lifespan

Transport = AsyncMongoTransport[Any]
Open = Callable[[], AbstractAsyncContextManager[Transport]]
MakePool = Callable[[Transport], WorkerPool[Any]]


def fastapi_app(
    open: Open, pool: MakePool, at_shutdown: Callable[[], object] = lambda: None
) -> FastAPI:
    messages = Lifespan(open, pool=pool)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with messages(app):
            yield
            at_shutdown()

    app = FastAPI(lifespan=lifespan)

    @app.post("/groups/{group}")
    async def publish(
        group: str, transport: Annotated[Transport, Depends(messages.source)]
    ) -> dict[str, int]:
        return {"seq": await transport.publish(group, "event")}

    app.add_api_route("/ready", messages.readiness)
    return app


def aiohttp_app(open: Open, pool: MakePool) -> web.Application:
    messages = CleanupContext(open, pool=pool)

    async def publish(request: web.Request) -> web.Response:
        transport = messages.source(request)
        return web.json_response({"seq": await transport.publish(request.path, "event")})

    groups = web.Application()
    groups.router.add_post("/{group}", publish)
    app = web.Application()
    app.cleanup_ctx.append(messages)
    app.add_subapp("/groups", groups)
    app.router.add_get("/ready", messages.readiness)
    return app


def uvicorn_for(app: FastAPI) -> uvicorn.Server:
    return uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on", ws="none"))


@asynccontextmanager
async def under_uvicorn(app: FastAPI, port: socket.socket) -> AsyncIterator[None]:
    server = uvicorn_for(app)
    serving = asyncio.create_task(server.serve([port]))
    try:
        yield
    finally:
        server.should_exit = True
        await serving


@asynccontextmanager
async def under_aiohttp(app: web.Application, port: socket.socket) -> AsyncIterator[None]:
    runner = web.AppRunner(app)
    await runner.setup()
    await web.SockSite(runner, port).start()
    try:
        yield
    finally:
        await runner.cleanup()


FRAMEWORKS: dict[str, tuple[Any, Any]] = {
    "fastapi": (fastapi_app, under_uvicorn),
    "aiohttp": (aiohttp_app, under_aiohttp),
}


@pytest.fixture
def port() -> Iterator[socket.socket]:
    """A socket that listens already: a request waits in it until the server is there."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
async def http(port: socket.socket) -> AsyncIterator[ClientSession]:
    async with ClientSession(f"http://127.0.0.1:{port.getsockname()[1]}") as session:
        yield session


@pytest.fixture
def open_transport(
    fairlane_url: str, db_name: str, janitor: MongoClient[dict[str, Any]]
) -> Iterator[Open]:
    yield lambda: AsyncMongoTransport[Any].from_url(fairlane_url, db_name)
    janitor.drop_database(db_name)


@pytest.fixture
async def open_hopeless(connect: Callable[..., Any], db_name: str) -> Open:
    return lambda: Hopeless(connect(), db_name)


@pytest.fixture
def own_handler() -> Iterator[list[int]]:
    """What SIGTERM does when uvicorn has given it back: it would end the test run."""
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    yield received
    signal.signal(signal.SIGTERM, before)


class Handled:
    """A handler that tells what it gets, and may be held up."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self, lease: Lease[Any]) -> None:
        self.events.put_nowait(lease.event)
        await self.may_end.wait()

    def pool(self, transport: Transport) -> WorkerPool[Any]:
        return WorkerPool(transport, self)


class Hopeless(AsyncMongoTransport[Any]):
    """A transport that publishes, and ends the pool that claims from it."""

    async def claim_many(self, *_: object, **__: object) -> list[Lease[Any]]:
        raise ConfigurationError("the settings differ")


def pool_of(transport: Transport) -> WorkerPool[Any]:
    return WorkerPool(transport, Handled())


async def readiness(http: ClientSession, state: str) -> int:
    """Ask until the application is in this state, and return the status of that answer."""
    while True:
        async with http.get("/ready") as answer:
            if (await answer.json())["state"] == state:
                return answer.status


@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_what_a_request_publishes_is_handled_in_the_same_process(
    framework: str, port: socket.socket, http: ClientSession, open_transport: Open
) -> None:
    (make_app, serve), handled = FRAMEWORKS[framework], Handled()
    async with serve(make_app(open_transport, handled.pool), port):
        async with http.post("/groups/42") as answer:
            assert await answer.json() == {"seq": 1}
        assert await handled.events.get() == "event"


@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_application_is_ready_once_the_database_has_answered_the_pool(
    framework: str, port: socket.socket, http: ClientSession, open_transport: Open
) -> None:
    make_app, serve = FRAMEWORKS[framework]
    async with serve(make_app(open_transport, pool_of), port):
        assert await readiness(http, "ok") == 200


@pytest.mark.parametrize("framework", FRAMEWORKS)
async def test_application_with_a_failed_pool_is_not_ready_and_still_publishes(
    framework: str, port: socket.socket, http: ClientSession, open_hopeless: Open
) -> None:
    make_app, serve = FRAMEWORKS[framework]
    answers: list[object] = []
    with suppress(ConfigurationError):  # of the pool, at the end of the application
        async with serve(make_app(open_hopeless, pool_of), port):
            answers.append(await readiness(http, "failed"))
            async with http.post("/groups/42") as answer:
                answers.append(await answer.json())
    assert answers == [503, {"seq": 1}]


async def test_uvicorn_hears_at_shutdown_why_the_pool_failed(
    port: socket.socket,
    http: ClientSession,
    open_hopeless: Open,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with under_uvicorn(fastapi_app(open_hopeless, pool_of), port):
        await readiness(http, "failed")
        caplog.clear()
    messages = [record.getMessage() for record in caplog.records]
    assert any("ConfigurationError: the settings differ" in each for each in messages)
    assert "Application shutdown failed. Exiting." in messages


async def test_aiohttp_hears_at_cleanup_why_the_pool_failed(
    port: socket.socket, http: ClientSession, open_hopeless: Open
) -> None:
    async def serve() -> None:
        async with under_aiohttp(aiohttp_app(open_hopeless, pool_of), port):
            await readiness(http, "failed")

    with pytest.raises(ConfigurationError, match="the settings differ"):
        await serve()


async def test_sigterm_goes_to_uvicorn_and_the_handler_under_way_is_acked(
    port: socket.socket, http: ClientSession, open_transport: Open, own_handler: list[int]
) -> None:
    handled = Handled()
    handled.may_end.clear()
    app = fastapi_app(open_transport, handled.pool, at_shutdown=handled.may_end.set)
    serving = asyncio.create_task(uvicorn_for(app).serve([port]))
    async with http.post("/groups/42"):
        await handled.events.get()

    os.kill(os.getpid(), signal.SIGTERM)
    await serving

    assert own_handler == [signal.SIGTERM]
    async with open_transport() as transport:
        assert (await transport.stats()).messages == 0
