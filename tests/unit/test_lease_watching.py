"""One change stream for all who listen, whatever becomes of it (faults 54 and 55)."""

import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pymongo
import pytest
from growth import measured
from pymongo.errors import AutoReconnect, OperationFailure
from worker_fakes import in_virtual_time, now

from fairlane.driver import Changes, Document, Driver, copying
from fairlane.driver._watching import UNHURRIED
from fairlane.lease.watching import Member, Watch, watch_of

RESUMABLE = (AutoReconnect("away"), OperationFailure("cursor not found", 43))
LOST = (
    OperationFailure("history lost", 286),
    OperationFailure("fatal", 280),
    OperationFailure("invalid token", 260),
)
STANDALONE = OperationFailure("only supported on replica sets", 40573)


def change(at: Any = 0.0, coll: str = "locks", **fields: Any) -> Document:
    return {"ns": {"coll": coll}, "at": at, **fields}


class FakeServer:
    """Its streams bring what is in `happens`, in batches; a token is the number of batches so far.

    `refuses` is used up by the next openings, `breaks` by the next reads.
    """

    def __init__(self) -> None:
        self.opened: list[tuple[float, list[str], Document | None]] = []
        self.open_now = 0
        self.most_open = 0
        self.reads: list[float] = []
        self.refuses: deque[Exception] = deque()
        self.breaks: deque[Exception] = deque()
        self.is_silent = False
        self.token = 0
        self._batches: deque[list[Document]] = deque()
        self._happened = anyio.Event()

    def happens(self, *changes: Document) -> None:
        self._batches.append(list(changes))
        self._happened.set()

    def breaks_down(self, error: Exception) -> None:
        self.breaks.append(error)
        self._happened.set()

    async def next(self, seconds: float) -> Changes:
        self.reads.append(now())
        if self.is_silent:
            await anyio.sleep_forever()
        with anyio.move_on_after(seconds):
            while not self._batches and not self.breaks:
                self._happened = anyio.Event()
                await self._happened.wait()
        if self.breaks:
            raise self.breaks.popleft()
        documents = self._batches.popleft() if self._batches else []
        self.token += len(documents)
        is_over = {"operationType": "invalidate"} in documents
        return Changes(documents=[] if is_over else documents, token=self.mark, is_over=is_over)

    @property
    def mark(self) -> Document:
        return {"_data": self.token}

    def stream(self) -> "FakeStream":
        return FakeStream(self)


class FakeStream:
    def __init__(self, server: FakeServer) -> None:
        self._server = server
        self._is_open = False

    async def open(self, pipeline: Sequence[Document], after: Document | None) -> Changes:
        server = self._server
        server.opened.append((now(), pipeline[0]["$match"]["ns.coll"]["$in"], after))
        await anyio.lowlevel.checkpoint()
        if server.refuses:
            raise server.refuses.popleft()
        self._is_open = True
        server.open_now += 1
        server.most_open = max(server.most_open, server.open_now)
        return Changes(documents=[], token=server.mark, is_over=False)

    async def more(self, seconds: float) -> Changes:
        return await self._server.next(seconds)

    async def close(self) -> None:
        self._server.open_now -= self._is_open
        self._is_open = False


class Heard:
    """A sleeper who writes down what it hears."""

    def __init__(self) -> None:
        self.wakes: list[float] = []
        self.soon = 0
        self.states: list[bool] = []

    def wake(self, delay: float) -> None:
        self.wakes.append(delay)

    def look_soon(self) -> None:
        self.soon += 1

    def watched(self, is_watched: bool) -> None:
        self.states.append(is_watched)


class Scene:
    def __init__(self) -> None:
        self.server = FakeServer()
        self.watch = Watch(self.server.stream)

    @asynccontextmanager
    async def listening(self, *names: str) -> AsyncIterator[list[Heard]]:
        """Let one listen to each of these collections; yield when their stream is open."""
        heard = [Heard() for _ in names]
        async with anyio.create_task_group() as group:
            for name, each in zip(names, heard, strict=True):
                group.start_soon(self.watch.tell, member(name, each))
            await anyio.sleep(0.1)
            yield heard
            group.cancel_scope.cancel()


def member(name: str, heard: Heard, clock: Callable[[], float] = lambda: 1_000.0) -> Member:
    return Member(collection=name, sleeper=heard, clock=clock)


@pytest.mark.parametrize(
    ("at", "delay"), [(990.0, 0.0), (1_000.0, 0.0), (1_030.0, 30.0), ("never", 0.0), (None, 0.0)]
)
def test_change_tells_in_how_many_seconds_something_is_claimable(at: Any, delay: float) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()
        async with scene.listening("locks") as (heard,):
            heard.wakes.clear()
            scene.server.happens(change(at))
            await anyio.sleep(0.1)
        assert heard.wakes == [delay]

    scenario()


@in_virtual_time
async def test_ack_only_lets_a_pool_look_soon() -> None:
    scene = Scene()

    async with scene.listening("locks") as (heard,):
        heard.wakes.clear()
        scene.server.happens(change(done=[7]))
        await anyio.sleep(0.1)

    assert (heard.wakes, heard.soon) == ([], 1)


@in_virtual_time
async def test_each_hears_of_its_own_collection() -> None:
    scene = Scene()

    async with scene.listening("locks", "jobs") as (of_locks, of_jobs):
        of_locks.wakes.clear()
        of_jobs.wakes.clear()
        scene.server.happens(change(coll="jobs"))
        await anyio.sleep(0.1)

    assert (of_locks.wakes, of_jobs.wakes) == ([], [0.0])


@in_virtual_time
async def test_fifty_who_listen_share_one_stream() -> None:
    scene = Scene()

    async with scene.listening(*["locks"] * 50) as heard:
        scene.server.happens(change(1_005.0))
        await anyio.sleep(100)

    assert (len(scene.server.opened), scene.server.open_now) == (1, 0)
    assert all(each.wakes[-1] == 5.0 for each in heard)
    assert not any(each.states[-1] for each in heard)


@in_virtual_time
async def test_stream_goes_on_where_it_was_when_its_reader_leaves() -> None:
    scene = Scene()
    heard = Heard()

    async with anyio.create_task_group() as group:
        async with scene.listening("locks"):
            group.start_soon(scene.watch.tell, member("locks", heard))
            scene.server.happens(change(), change())
            await anyio.sleep(1)
        await anyio.sleep(1)
        scene.server.happens(change(1_009.0))
        await anyio.sleep(1)
        group.cancel_scope.cancel()

    assert [after for _, _, after in scene.server.opened] == [None, {"_data": 2}]
    assert (scene.server.most_open, heard.wakes[-1]) == (1, 9.0)


@in_virtual_time
async def test_whoever_joins_looks_for_what_others_have_been_told_before() -> None:
    scene = Scene()

    async with scene.listening("locks"), scene.listening("locks") as (late,):
        await anyio.sleep(1)

    assert (late.wakes, late.states[0]) == ([0.0], True)


@in_virtual_time
async def test_stream_that_nobody_reads_any_more_begins_anew_for_the_next() -> None:
    scene = Scene()

    for _ in range(2):
        async with scene.listening("locks"):
            await anyio.sleep(1)

    assert [after for _, _, after in scene.server.opened] == [None, None]


@in_virtual_time
async def test_collection_that_is_new_to_the_stream_makes_it_wider() -> None:
    scene = Scene()

    async with scene.listening("locks"), scene.listening("jobs") as (heard,):
        scene.server.happens(change(1_003.0, coll="jobs"))
        await anyio.sleep(1)

    assert [names for _, names, _ in scene.server.opened] == [["locks"], ["jobs", "locks"]]
    assert heard.wakes[-1] == 3.0
    assert scene.server.most_open == 1


@pytest.mark.parametrize("error", RESUMABLE)
def test_broken_stream_goes_on_where_it_was(error: Exception) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()
        async with scene.listening("locks") as (heard,):
            scene.server.happens(change())
            await anyio.sleep(1)
            scene.server.breaks_down(error)
            await anyio.sleep(5)
        assert [after for _, _, after in scene.server.opened] == [None, {"_data": 1}]
        assert heard.states == [True, False, True, False, False]
        assert heard.wakes == [0.0, 0.0]  # when it began, and for the change

    scenario()


@pytest.mark.parametrize("error", LOST)
def test_stream_whose_history_is_lost_begins_anew_and_lets_all_look(error: Exception) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()
        async with scene.listening("locks") as (heard,):
            scene.server.happens(change(1_001.0))
            await anyio.sleep(1)
            heard.wakes.clear()
            scene.server.breaks_down(error)
            await anyio.sleep(5)
        assert [after for _, _, after in scene.server.opened] == [None, None]
        assert heard.wakes == [0.0]

    scenario()


@in_virtual_time
async def test_token_that_is_refused_is_not_tried_again() -> None:
    scene = Scene()

    async with scene.listening("locks"):
        scene.server.refuses.append(OperationFailure("no such token", 9))
        scene.server.breaks_down(AutoReconnect("away"))
        await anyio.sleep(10)

    assert [after for _, _, after in scene.server.opened] == [None, {"_data": 0}, None]


@in_virtual_time
async def test_stream_of_a_dropped_database_begins_anew() -> None:
    scene = Scene()

    async with scene.listening("locks") as (heard,):
        scene.server.happens({"operationType": "invalidate"})
        await anyio.sleep(5)
        scene.server.happens(change(1_002.0))
        await anyio.sleep(1)

    assert [after for _, _, after in scene.server.opened] == [None, None]
    assert heard.wakes[-1] == 2.0


@in_virtual_time
async def test_silent_connection_is_given_up_and_replaced_within_thirty_seconds() -> None:
    scene = Scene()

    async with scene.listening("locks") as (heard,):
        await anyio.sleep(7)
        scene.server.is_silent = True
        died_at = now()
        await anyio.sleep(29)
        scene.server.is_silent = False
        after_thirty_seconds = heard.states.copy()

    assert after_thirty_seconds == [True, False, True]
    assert scene.server.opened[1][0] - died_at < 30
    assert scene.server.most_open == 1


@in_virtual_time
async def test_stream_that_opens_and_never_answers_is_made_again_and_again() -> None:
    scene = Scene()
    scene.server.is_silent = True

    async with scene.listening("locks"):
        await anyio.sleep(300)

    assert 10 <= len(scene.server.opened) <= 25
    assert scene.server.most_open == 1


@in_virtual_time
async def test_idle_stream_asks_once_in_ten_seconds() -> None:
    scene = Scene()

    async with scene.listening("locks"):
        await anyio.sleep(1_000)

    assert 99 <= len(scene.server.reads) <= 101


@in_virtual_time
async def test_flood_of_changes_is_read_a_few_times_a_second() -> None:
    scene = Scene()

    async with scene.listening("locks"):
        scene.server.reads.clear()
        for _ in range(10_000):
            scene.server.happens(*[change()] * 30)
        await anyio.sleep(10)

    assert len(scene.server.reads) <= 41


@in_virtual_time
async def test_failing_opening_is_tried_with_back_off_and_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scene = Scene()
    scene.server.refuses.extend([AutoReconnect("away")] * 50)

    with caplog.at_level(logging.INFO, logger="fairlane"):
        async with scene.listening("locks") as (heard,):
            await anyio.sleep(600)

    gaps = [b[0] - a[0] for a, b in zip(scene.server.opened, scene.server.opened[1:], strict=False)]
    assert (max(gaps) <= 10, True in heard.states) == (True, True)
    assert len(scene.server.opened) == 51
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    "error", [STANDALONE, OperationFailure("unknown stage", 40324), OperationFailure("no", 13)]
)
def test_server_without_change_streams_is_named_once_and_never_asked_again(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()
        scene.server.refuses.append(error)
        async with anyio.create_task_group() as group:
            for _ in range(5):  # all of them end
                group.start_soon(scene.watch.tell, member("locks", Heard()))
        async with scene.listening("locks") as (heard,):
            await anyio.sleep(100)
        assert (len(scene.server.opened), True in heard.states) == (1, False)

    with caplog.at_level(logging.INFO, logger="fairlane"):
        scenario()

    (entry,) = caplog.records
    assert "only poll" in entry.getMessage()


@pytest.mark.parametrize("options", [{}, {"socketTimeoutMS": 500, "timeoutms": 500}])
async def test_limits_of_the_client_do_not_hold_for_the_wait_for_changes(
    options: Document,
) -> None:
    url = "mongodb://127.0.0.1:1/?socketTimeoutMS=500&timeoutMS=500"
    async with pymongo.AsyncMongoClient[Document](url, connect=False, **options) as client:
        opens = copying(client, "pymongo", **UNHURRIED)
        assert opens is not None
        async with opens() as copy:
            assert (copy.options.timeout, copy.options.pool_options.socket_timeout) == (None, None)


async def test_all_transports_of_a_client_share_the_watch_of_a_database() -> None:
    async with (
        pymongo.AsyncMongoClient[Document]("mongodb://127.0.0.1:1", connect=False) as client,
        pymongo.AsyncMongoClient[Document]("mongodb://127.0.0.1:1", connect=False) as other,
    ):
        first, second = watch_of(Driver(client), "app"), watch_of(Driver(client), "app")
        others = [watch_of(Driver(client), "app2"), watch_of(Driver(other), "app")]

    assert first is second
    assert first not in others


def test_thousand_listeners_that_come_and_go_leave_nothing() -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()
        async with scene.listening("locks"):
            with measured() as growth:
                for _ in range(1_000):
                    async with scene.listening("locks"):
                        assert scene.server.open_now == 1
            growth.assert_flat(1_000, of=1_000)

    scenario()
