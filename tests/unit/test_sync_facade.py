"""The machinery of the blocking facades, in front of something that needs no server."""

import asyncio
import contextvars
import gc
import os
import signal
import threading
import traceback
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairlane import ConfigurationError, FairlaneError
from fairlane.sync import _thread
from fairlane.sync._call import Reply
from fairlane.sync._facade import Facade
from fairlane.sync._loop import DaemonThreads

SECONDS = 10.0
"""For waits that end at once unless something is broken."""


class AsyncThing:
    """What stands behind the facade: it notes what happens to it."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.loop = asyncio.get_running_loop()
        self.started = threading.Event()
        self.may_end = asyncio.Event()

    def let_end(self) -> None:
        self.loop.call_soon_threadsafe(self.may_end.set)

    async def echo(self, value: Any) -> Any:
        return value

    async def fail(self, error: BaseException) -> None:
        raise error

    async def wait(self) -> str:
        self.started.set()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.notes.append("cancelled")
            raise
        return "ended"

    async def wait_shielded(self) -> None:
        try:
            await self.wait()
        except asyncio.CancelledError:
            await self.may_end.wait()
            self.notes.append("tidied up")
            raise

    async def interrupt(self, then: Callable[[], Awaitable[object]]) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return await then()

    async def count(self) -> AsyncIterator[int]:
        try:
            for number in range(100):
                self.notes.append(f"made {number}")
                yield number
        finally:
            self.notes.append("left")


class Opener:
    """Opens things, as often as it is asked to; may be told to fail."""

    def __init__(self) -> None:
        self.things: list[AsyncThing] = []
        self.errors: list[Exception] = []
        self.opening = threading.Event()
        self.is_held = False
        self.closed = threading.Event()

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[AsyncThing]:
        self.loop, self.may_open = asyncio.get_running_loop(), asyncio.Event()
        self.opening.set()
        if self.is_held:
            await self.may_open.wait()
        if self.errors:
            raise self.errors.pop()
        self.things.append(AsyncThing())
        yield self.things[-1]
        self.closed.set()

    def let_open(self) -> None:
        self.loop.call_soon_threadsafe(self.may_open.set)


class Thing(Facade[AsyncThing]):
    _kind = AsyncThing

    def call(self, verb: Callable[[AsyncThing], Awaitable[Any]], **options: Any) -> Any:
        return self._call(verb, **options)

    def count(self) -> Iterator[int]:
        return self._iterate(lambda thing: thing.count())


@pytest.fixture
def opener() -> Opener:
    return Opener()


@pytest.fixture
def thing(opener: Opener) -> Iterator[Thing]:
    with Thing(opener) as facade:
        yield facade


@pytest.fixture
def inner(thing: Thing, opener: Opener) -> AsyncThing:
    return opener.things[0]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(40) as threads:
        yield threads


def test_call_returns_what_the_coroutine_returns(thing: Thing) -> None:
    assert thing.call(lambda t: t.echo(7)) == 7


def test_nothing_is_opened_before_the_first_call(opener: Opener) -> None:
    Thing(opener).close()
    assert not opener.opening.is_set()


def test_many_threads_share_one_opening(opener: Opener, pool: ThreadPoolExecutor) -> None:
    facade = Thing(opener)
    results = list(pool.map(lambda n: facade.call(lambda t: t.echo(n)), range(400)))
    facade.close()
    assert (results, len(opener.things)) == (list(range(400)), 1)


def test_each_facade_has_a_loop_of_its_own(thing: Thing, inner: AsyncThing) -> None:
    other = Opener()
    with Thing(other):
        assert other.things[0].loop is not inner.loop


def test_factory_may_return_an_awaitable(opener: Opener) -> None:
    async def factory() -> Any:
        return opener()

    with Thing(factory) as facade:
        assert facade.call(lambda t: t.echo(1)) == 1


def test_factory_that_opens_something_else_is_refused() -> None:
    @asynccontextmanager
    async def factory() -> AsyncIterator[Any]:
        yield "something else"

    with pytest.raises(ConfigurationError, match="opens an AsyncThing"):
        Thing(factory).call(lambda t: t.echo(1))


def test_factory_that_returns_something_else_is_refused() -> None:
    factory: Any = lambda: "something else"  # noqa: E731
    with pytest.raises(ConfigurationError, match="opens an AsyncThing"):
        Thing(factory).call(lambda t: t.echo(1))


def test_failed_opening_is_tried_again_by_the_next_call(opener: Opener) -> None:
    opener.errors.append(ConnectionError("not yet"))
    facade = Thing(opener)
    with pytest.raises(ConnectionError, match="not yet"):
        facade.call(lambda t: t.echo(1))
    assert facade.call(lambda t: t.echo(2)) == 2
    facade.close()


def test_threads_that_wait_for_one_opening_share_its_error(
    opener: Opener, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    opener.errors.append(ConnectionError("down"))
    opener.is_held = True
    waiting = threading.Semaphore(0)
    wait = Reply.wait
    monkeypatch.setattr(Reply, "wait", lambda reply: (waiting.release(), wait(reply)))
    facade = Thing(opener)
    calls = [pool.submit(facade.call, lambda t: t.echo(1)) for _ in range(5)]
    assert all(waiting.acquire(timeout=SECONDS) for _ in calls)
    opener.let_open()
    assert len({call.exception(SECONDS) for call in calls}) == 1
    facade.close()


def test_error_keeps_its_type_and_shows_both_sides_of_the_call(thing: Thing) -> None:
    error = KeyError("lost")
    with pytest.raises(KeyError) as caught:
        thing.call(lambda t: t.fail(error))
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert caught.value is error
    assert names[0] == test_error_keeps_its_type_and_shows_both_sides_of_the_call.__name__
    assert names[-1] == "fail"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_error_that_would_end_a_loop_is_for_the_caller_only(
    thing: Thing, error: BaseException
) -> None:
    with pytest.raises(type(error)):
        thing.call(lambda t: t.fail(error))
    assert thing.call(lambda t: t.echo(1)) == 1


def test_context_variables_of_the_caller_are_seen(thing: Thing) -> None:
    request: contextvars.ContextVar[str] = contextvars.ContextVar("request")
    request.set("r-1")

    async def read(_: AsyncThing) -> str:
        return request.get()

    assert thing.call(read) == "r-1"


async def test_running_loop_is_refused_before_anything_is_opened(opener: Opener) -> None:
    with pytest.raises(ConfigurationError, match="AsyncThing"):
        Thing(opener).call(lambda t: t.echo(1))
    assert not opener.opening.is_set()


async def test_running_loop_is_refused_when_an_iteration_begins(opener: Opener) -> None:
    with pytest.raises(ConfigurationError, match="AsyncThing"):
        Thing(opener).count()


async def test_running_loop_is_refused_when_an_iteration_goes_on(opener: Opener) -> None:
    facade = Thing(opener)
    numbers = await asyncio.to_thread(facade.count)
    assert await asyncio.to_thread(next, numbers) == 0
    with pytest.raises(ConfigurationError, match="AsyncThing"):
        next(numbers)
    await asyncio.to_thread(facade.close)


async def test_worker_threads_of_a_running_loop_may_call(opener: Opener) -> None:
    facade = Thing(opener)
    calls = (asyncio.to_thread(facade.call, lambda t, n=n: t.echo(n)) for n in range(40))
    assert await asyncio.gather(*calls) == list(range(40))
    await asyncio.to_thread(facade.close)


def test_call_inside_a_call_is_refused(thing: Thing) -> None:
    async def nested(_: AsyncThing) -> None:
        thing.call(lambda t: t.echo(1))

    with pytest.raises(ConfigurationError, match="event loop is running"):
        thing.call(nested)


def test_many_threads_share_the_opening_after_a_failed_one(
    opener: Opener, pool: ThreadPoolExecutor
) -> None:
    opener.errors.append(ConnectionError("not yet"))
    facade = Thing(opener)
    with pytest.raises(ConnectionError, match="not yet"):
        facade.call(lambda t: t.echo(1))
    results = list(pool.map(lambda n: facade.call(lambda t: t.echo(n)), range(400)))
    facade.close()
    assert (results, len(opener.things)) == (list(range(400)), 1)


def test_wait_that_ends_too_early_leaves_nothing_behind() -> None:
    reply: Reply[None] = Reply()
    assert not reply.wait_up_to(0.001)
    assert not reply._waiters


def test_call_after_close_is_refused(opener: Opener) -> None:
    facade = Thing(opener)
    facade.close()
    with pytest.raises(FairlaneError, match="this Thing is closed"):
        facade.call(lambda t: t.echo(1))


def test_close_may_be_called_again_and_by_many_threads(
    thing: Thing, opener: Opener, pool: ThreadPoolExecutor
) -> None:
    list(pool.map(lambda _: thing.close(), range(40)))
    assert opener.closed.is_set()


def test_close_lets_a_running_call_end(
    thing: Thing, inner: AsyncThing, pool: ThreadPoolExecutor
) -> None:
    call = pool.submit(thing.call, lambda t: t.wait())
    assert inner.started.wait(SECONDS)
    closing = pool.submit(thing.close)
    inner.let_end()
    closing.result(SECONDS)
    assert call.result(SECONDS) == "ended"


def test_close_cancels_a_call_that_does_not_end(
    thing: Thing, inner: AsyncThing, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_thread, "GRACE", 0.01)
    call = pool.submit(thing.call, lambda t: t.wait())
    assert inner.started.wait(SECONDS)
    thing.close()
    assert isinstance(call.exception(SECONDS), FairlaneError)
    assert inner.notes == ["cancelled"]


def test_close_ends_an_opening(opener: Opener, pool: ThreadPoolExecutor) -> None:
    opener.is_held = True
    facade = Thing(opener)
    call = pool.submit(facade.call, lambda t: t.echo(1))
    assert opener.opening.wait(SECONDS)
    facade.close()
    assert isinstance(call.exception(SECONDS), FairlaneError)


def test_facade_that_nobody_holds_is_closed(opener: Opener) -> None:
    facade = Thing(opener)
    facade.call(lambda t: t.echo(1))
    is_gone = weakref.ref(facade)
    del facade
    gc.collect()
    assert is_gone() is None
    assert opener.closed.wait(SECONDS)


def test_interrupt_cancels_the_call(thing: Thing, inner: AsyncThing) -> None:
    with pytest.raises(KeyboardInterrupt):
        thing.call(lambda t: t.interrupt(t.wait))
    assert inner.notes == ["cancelled"]


def test_facade_stays_usable_after_an_interrupt(thing: Thing) -> None:
    with pytest.raises(KeyboardInterrupt):
        thing.call(lambda t: t.interrupt(t.wait))
    assert thing.call(lambda t: t.echo(1)) == 1


def test_interrupt_does_not_wait_for_ever_for_what_is_finished_first(
    thing: Thing, inner: AsyncThing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_thread, "HURRY", 0.01)
    with pytest.raises(KeyboardInterrupt):
        thing.call(lambda t: t.interrupt(t.wait_shielded))
    inner.let_end()
    thing.close()
    assert inner.notes == ["cancelled", "tidied up"]


def test_thread_that_an_interrupt_kept_from_starting_is_not_waited_for(
    opener: Opener, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def be_interrupted(_: object) -> None:
        raise KeyboardInterrupt

    facade = Thing(opener)
    with monkeypatch.context() as patch:
        patch.setattr(_thread.LoopThread, "start", be_interrupted)
        with pytest.raises(KeyboardInterrupt):
            facade.call(lambda t: t.echo(1))
    assert pool.submit(facade.call, lambda t: t.echo(2)).result(SECONDS) == 2
    facade.close()


def test_result_that_an_interrupt_keeps_from_the_caller_is_undone(
    thing: Thing, monkeypatch: pytest.MonkeyPatch
) -> None:
    undone: list[object] = []

    async def undo(_: AsyncThing, result: object) -> None:
        undone.append(result)

    wait, opening = Reply.wait, thing._open()._opening

    def wait_and_be_interrupted(reply: Reply[Any]) -> None:
        wait(reply)
        if reply is not opening:
            raise KeyboardInterrupt

    monkeypatch.setattr(Reply, "wait", wait_and_be_interrupted)
    with pytest.raises(KeyboardInterrupt):
        thing.call(lambda t: t.echo("lease"), undo=undo)
    assert undone == ["lease"]


def test_signal_handler_may_close_while_a_call_waits(
    thing: Thing, inner: AsyncThing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_thread, "GRACE", 0.01)
    before = signal.signal(signal.SIGINT, lambda *_: thing.close())
    try:
        with pytest.raises(FairlaneError, match="closed"):
            thing.call(lambda t: t.interrupt(t.wait))
    finally:
        signal.signal(signal.SIGINT, before)


def test_iteration_makes_only_what_is_asked_for(thing: Thing, inner: AsyncThing) -> None:
    numbers = thing.count()
    assert [next(numbers), next(numbers)] == [0, 1]
    assert inner.notes == ["made 0", "made 1"]


def test_iteration_ends(thing: Thing) -> None:
    assert list(thing.count()) == list(range(100))


def test_iteration_that_is_left_is_closed(thing: Thing, inner: AsyncThing) -> None:
    for _ in thing.count():
        break
    thing.close()
    assert inner.notes == ["made 0", "left"]


def test_iteration_after_close_is_refused(thing: Thing) -> None:
    numbers = thing.count()
    next(numbers)
    thing.close()
    with pytest.raises(FairlaneError, match="closed"):
        next(numbers)


def test_blocking_work_of_the_loop_runs_beside_it(thing: Thing) -> None:
    async def name(_: AsyncThing) -> str:
        return await asyncio.to_thread(lambda: threading.current_thread().name)

    assert thing.call(name) == "fairlane-command"


def test_threads_run_more_functions_than_they_are() -> None:
    threads = DaemonThreads(max_threads=2)
    results = [threads.submit(lambda n=n: n) for n in range(20)]
    assert [result.result(SECONDS) for result in results] == list(range(20))
    threads.close()


def test_threads_end_when_they_are_closed() -> None:
    threads = DaemonThreads()
    worker = threads.submit(threading.current_thread).result(SECONDS)
    threads.close()
    worker.join(SECONDS)
    assert not worker.is_alive()


def test_threads_pass_errors_on() -> None:
    threads = DaemonThreads()
    failed = threads.submit(lambda: 1 // 0)
    assert isinstance(failed.exception(SECONDS), ZeroDivisionError)
    threads.close()


def test_threads_leave_out_what_was_cancelled() -> None:
    threads = DaemonThreads(max_threads=1)
    may_go_on, runs = threading.Event(), []
    first = threads.submit(lambda: may_go_on.wait(SECONDS))
    second = threads.submit(lambda: runs.append("second"))
    second.cancel()
    may_go_on.set()
    first.result(SECONDS)
    threads.submit(lambda: runs.append("third")).result(SECONDS)
    threads.close()
    assert runs == ["third"]
