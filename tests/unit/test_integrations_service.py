"""A web application opens with Fairlane and drains its pool at the end, whatever fails between."""

import asyncio
import importlib.util
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiohttp import web
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from worker_fakes import (
    AnnouncingSource,
    Fault,
    Record,
    busy,
    handled,
    in_virtual_time,
    nothing,
    now,
    ticks,
)

from fairlane import AsyncMongoTransport, ConfigurationError, FairlaneError, MongoTransport
from fairlane.integrations.aiohttp import CleanupContext
from fairlane.integrations.fastapi import Lifespan, ServiceHealth
from fairlane.worker import WorkerPool

HELPERS = {Lifespan: Starlette, CleanupContext: web.Application}

both = pytest.mark.parametrize("helper", HELPERS)


class Opened(AnnouncingSource):
    """A source that notes when it was opened and closed, and how many were."""

    def __init__(self, log: list[str] | None = None) -> None:
        super().__init__()
        self.log = [] if log is None else log

    async def __aenter__(self) -> "Opened":
        self.log.append("open")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.log.append("closed")


def started(helper: Any, app: Any) -> AbstractAsyncContextManager[None]:
    """Start an application as its framework does: the body is the time in which it serves."""
    manager: AbstractAsyncContextManager[None]
    if isinstance(helper, Lifespan):
        manager = helper(app)
    else:
        manager = asynccontextmanager(helper.__call__)(app)
    return manager


def working(
    source: Opened, handler: Callable[..., Any] = handled, **options: Any
) -> Lifespan[Opened]:
    return Lifespan(lambda: source, pool=lambda opened: WorkerPool(opened, handler, **options))


def hopeless() -> Opened:
    """Return a source that ends the pool which claims from it."""
    source = Opened()
    source.always["claim"] = Fault(before=ConfigurationError("the settings differ"))
    return source


async def served(helper: Any, app: Any, body: Callable[[], Awaitable[None]]) -> None:
    """Start an application, do something while it serves, and shut it down."""
    async with started(helper, app):
        await body()


async def not_served() -> None:
    pytest.fail("the application was started")


async def until(state: str, lifespan: Lifespan[Opened], app: Starlette) -> None:
    while lifespan.service(app).health.state != state:
        await ticks(1)


@both
@in_virtual_time
async def test_making_a_helper_opens_nothing(helper: Any) -> None:
    log: list[str] = []
    helper(lambda: Opened(log), pool=lambda source: WorkerPool(source, handled))
    assert log == []


@both
@in_virtual_time
async def test_application_has_an_open_source_and_a_working_pool_while_it_serves(
    helper: Any,
) -> None:
    source, record, app = Opened(), Record(), HELPERS[helper]()
    serving = helper(lambda: source, pool=lambda s: WorkerPool(s, handled, on_event=record))
    async with started(serving, app):
        serving.service(app).source.publish("g")
        await record.until("acked")
        source.log.append("serving")
    assert source.log == ["open", "serving", "closed"]


@both
@in_virtual_time
async def test_shutdown_lets_the_handler_under_way_finish_before_it_closes(helper: Any) -> None:
    source, record, app = Opened(), Record(), HELPERS[helper]()

    async def slow(_: object) -> None:
        await asyncio.sleep(10)
        source.log.append("handled")

    serving = helper(lambda: source, pool=lambda s: WorkerPool(s, slow, on_event=record))
    async with started(serving, app):
        source.publish("g")
        await record.until("claimed")
    assert source.log == ["open", "handled", "closed"]
    assert source.acked == [1]


@both
@in_virtual_time
async def test_without_a_pool_nothing_is_claimed(helper: Any) -> None:
    source, app = Opened(), HELPERS[helper]()
    serving = helper(lambda: source)
    async with started(serving, app):
        source.publish("g")
        await asyncio.sleep(10)
        assert serving.service(app).health.is_ready
    assert source.calls["claim"] == 0
    assert serving.service(app).health.state == "stopped"


@both
@in_virtual_time
async def test_pool_that_failed_ends_the_shutdown_with_its_error(helper: Any) -> None:
    source, app = hopeless(), HELPERS[helper]()
    serving = helper(lambda: source, pool=lambda s: WorkerPool(s, handled))

    async def body() -> None:
        await asyncio.sleep(1)
        source.log.append("serving")

    with pytest.raises(ConfigurationError, match="the settings differ"):
        await served(serving, app, body)
    assert source.log == ["open", "serving", "closed"]


@in_virtual_time
async def test_pool_that_failed_shows_in_the_health() -> None:
    app, lifespan = Starlette(), working(hopeless())

    async def body() -> None:
        states.append(lifespan.service(app).health)
        await until("failed", lifespan, app)
        states.append(lifespan.service(app).health)

    states: list[ServiceHealth] = []
    with pytest.raises(ConfigurationError) as raised:
        await served(lifespan, app, body)
    assert [health.state for health in states] == ["starting", "failed"]
    assert states[1].error is raised.value


@in_virtual_time
async def test_pool_that_failed_is_logged_at_once(caplog: pytest.LogCaptureFixture) -> None:
    app, lifespan = Starlette(), working(hopeless())

    async def body() -> None:
        await until("failed", lifespan, app)
        await ticks(1)
        logged.extend(each.getMessage() for each in caplog.records if each.levelname == "ERROR")

    logged: list[str] = []
    with pytest.raises(ConfigurationError):
        await served(lifespan, app, body)
    assert [each for each in logged if "pool of this application has failed" in each] == logged
    assert "the settings differ" in logged[-1]


@in_virtual_time
async def test_pool_that_somebody_cancelled_has_failed() -> None:
    app, lifespan = Starlette(), working(Opened(), worker_id="w1")

    async def body() -> None:
        (task,) = (each for each in asyncio.all_tasks() if "w1" in each.get_name())
        task.cancel()
        await until("failed", lifespan, app)

    with pytest.raises(FairlaneError, match="cancelled, but not by the application"):
        await served(lifespan, app, body)


@in_virtual_time
async def test_pool_that_the_application_stopped_has_not_failed() -> None:
    app, lifespan = Starlette(), working(Opened())
    async with lifespan(app):
        pool = lifespan.service(app).pool
        assert pool is not None
        pool.stop()
        await until("stopped", lifespan, app)


@in_virtual_time
async def test_error_of_the_application_goes_before_that_of_the_pool() -> None:
    source, app = hopeless(), Starlette()
    lifespan = working(source)

    async def body() -> None:
        await until("failed", lifespan, app)
        raise KeyError

    with pytest.raises(KeyError):
        await served(lifespan, app, body)
    assert source.log == ["open", "closed"]


@in_virtual_time
async def test_cancelled_application_cancels_the_handlers_and_gives_back() -> None:
    source, record, app = Opened(), Record(), Starlette()

    async def serve() -> None:
        async with working(source, busy, on_event=record, drain_timeout=3_600)(app):
            source.publish("g")
            await asyncio.Event().wait()

    serving = asyncio.create_task(serve())
    await record.until("claimed")
    began = now()
    serving.cancel()
    await asyncio.wait({serving})
    assert (serving.cancelled(), now() - began < 10) == (True, True)
    assert record.kinds == ["claimed", "released"]
    assert source.log == ["open", "closed"]


@in_virtual_time
async def test_cancelled_shutdown_does_not_wait_for_the_handlers() -> None:
    source, record, app = Opened(), Record(), Starlette()
    may_end = asyncio.Event()
    lifespan = working(source, busy, on_event=record, drain_timeout=3_600)

    async def serve() -> None:
        async with lifespan(app):
            source.publish("g")
            await may_end.wait()

    serving = asyncio.create_task(serve())
    await record.until("claimed")
    may_end.set()
    await until("draining", lifespan, app)
    began = now()
    serving.cancel()
    await asyncio.wait({serving})
    assert now() - began < 10
    assert record.kinds == ["claimed", "released"]


@both
@in_virtual_time
async def test_application_may_be_ended_by_another_task_than_started_it(helper: Any) -> None:
    source, app = Opened(), HELPERS[helper]()
    serving = helper(lambda: source, pool=lambda s: WorkerPool(s, handled))
    manager = started(serving, app)
    await asyncio.create_task(manager.__aenter__())
    source.publish("g")
    await asyncio.sleep(1)
    await asyncio.create_task(manager.__aexit__(None, None, None))
    assert (source.acked, source.log) == ([1], ["open", "closed"])


@in_virtual_time
async def test_applications_that_share_a_helper_have_each_their_own() -> None:
    log: list[str] = []
    lifespan = Lifespan(lambda: Opened(log))
    apps = Starlette(), Starlette()
    async with lifespan(apps[0]), lifespan(apps[1]):
        one, other = (lifespan.service(app).source for app in apps)
        assert one is not other
    assert log == ["open", "open", "closed", "closed"]


@in_virtual_time
async def test_helpers_stand_side_by_side_in_a_lifespan_of_the_application() -> None:
    messages, jobs = Lifespan(Opened), Lifespan(Opened)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with messages(app), jobs(app):
            yield

    app = Starlette(lifespan=lifespan)
    async with app.router.lifespan_context(app):
        assert messages.service(app).source is not jobs.service(app).source


@in_virtual_time
async def test_application_may_be_started_again() -> None:
    log: list[str] = []
    app, lifespan = Starlette(), Lifespan(lambda: Opened(log))
    for _ in range(2):
        async with lifespan(app):
            assert lifespan.service(app).health.is_ready
    assert log == ["open", "closed"] * 2


@both
@in_virtual_time
async def test_application_cannot_have_the_same_helper_twice(helper: Any) -> None:
    app, serving = HELPERS[helper](), helper(Opened)
    with pytest.raises(ConfigurationError, match="already"):
        async with started(serving, app), started(serving, app):
            await not_served()


@in_virtual_time
async def test_signals_stay_with_the_application() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    async with working(Opened())(Starlette()):
        await asyncio.sleep(1)
        during = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert during == before


@both
@in_virtual_time
async def test_pool_that_takes_the_signals_is_refused(helper: Any) -> None:
    source = Opened()
    serving = helper(lambda: source, pool=lambda s: WorkerPool(s, handled, signals=True))
    with pytest.raises(ConfigurationError, match="signals=True: the web server owns"):
        await served(serving, HELPERS[helper](), not_served)
    assert source.log == ["open", "closed"]


@in_virtual_time
async def test_function_that_makes_no_pool_is_refused() -> None:
    made: Any = nothing
    with pytest.raises(ConfigurationError, match="must return a WorkerPool, not NoneType"):
        await served(Lifespan(Opened, pool=made), Starlette(), not_served)


@in_virtual_time
async def test_function_that_opens_a_blocking_transport_is_refused() -> None:
    opener: Any = Opened
    made: Any = partial(MongoTransport, opener)
    with pytest.raises(ConfigurationError, match=r"AsyncMongoTransport.*not MongoTransport"):
        await served(Lifespan(made), Starlette(), not_served)


@pytest.mark.parametrize(("extra", "needed"), [("fastapi", "starlette"), ("aiohttp", "aiohttp")])
def test_missing_framework_is_told_with_the_extra_that_brings_it(
    extra: str, needed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.find_spec(f"fairlane.integrations.{extra}")
    assert spec is not None
    assert spec.loader is not None
    for name in [needed, *(each for each in sys.modules if each.startswith(f"{needed}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=re.escape(f"pip install 'fairlane[{extra}]'")):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


async def coroutine_function() -> None: ...


@both
@pytest.mark.parametrize(
    "open",
    [
        coroutine_function,
        AsyncMongoTransport.from_url("mongodb://localhost"),
        Opened(),
        AsyncMongoTransport,
    ],
    ids=["coroutine", "opening", "source", "class"],
)
def test_open_that_is_no_plain_function_is_refused(helper: Any, open: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^open must be"):
        helper(open)


@both
@pytest.mark.parametrize("pool", [WorkerPool(AnnouncingSource(), handled), lambda: None])
def test_pool_that_is_no_function_of_the_source_is_refused(helper: Any, pool: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^pool must be"):
        helper(Opened, pool=pool)


@both
def test_application_that_was_not_started_has_nothing_open(helper: Any) -> None:
    with pytest.raises(ConfigurationError, match="has not been started with this"):
        helper(Opened).service(HELPERS[helper]())


async def test_request_of_a_mounted_application_is_told_whom_to_ask() -> None:
    request = HTTPConnection({"type": "http", "app": Starlette()})
    with pytest.raises(ConfigurationError, match=r"lifespan\.service\(app\)"):
        await Lifespan(Opened).source(request)
