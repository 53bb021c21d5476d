"""The server is away for a while: not there at the start, gone, frozen, or behind a mute proxy.

Pools run as in an application, on clients with default options: a call waits half a minute for a
server, and an idle client looks at its server each ten seconds.
"""

import asyncio
import logging
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from uuid import uuid4

import pytest

from fairlane.testing import local_server
from integration.wire.outages import KINDS, Opened, backlog, opened, working
from integration.wire.proxy import Proxy

OUTAGE = 20.0
SOON = 5.0
VISIBILITY = 12.0
SHORT = 2.0
"""What was claimed when the server went, and nobody knows of, waits for the end of its lease."""
LONG = 30.0
LINES = 4
"""Warnings of one logger about one pool: it has two slots, and of each may tell twice."""
BOTH = ("own motor", "own pymongo")
FEW = ("own motor", "jobs pymongo")

Change = Callable[[], Awaitable[object]]


class Scene:
    """A server that goes away and comes back, and the pools on it.

    Attributes:
        pools: what they work on; they are at work when `work` was called long enough ago.
        is_over: ends them.
    """

    def __init__(self, name: str, url: str, go: Change, come: Change) -> None:
        self.name = name
        self.url = url
        self.pools: list[Opened] = []
        self.visibility = VISIBILITY
        self.is_away = False
        self.back_at = 0.0
        self.is_back = asyncio.Event()
        self.is_over = asyncio.Event()
        self._go = go
        self._come = come
        self._db_name = f"fairlane_test_{uuid4().hex[:12]}"

    async def prepare(self, kind: str) -> None:
        """Store what a pool of this kind is going to find."""
        await backlog(kind, self.url, self._database(kind))

    async def work(self, kind: str) -> None:
        """Open what a pool works on as an application would, and let it work until all is over."""
        opening = opened(kind, self.url, self._database(kind), self.is_back)
        async with opening as it, working(it, self.visibility, lambda: self.is_away):
            self.pools.append(it)
            await self.is_over.wait()

    async def leave(self) -> None:
        self.is_away = True
        await self._go()

    async def come_back(self) -> None:
        await self._come()
        self.is_away = False
        self.back_at = time.monotonic()
        self.is_back.set()

    def _database(self, kind: str) -> str:
        return f"{self._db_name}_{kind.replace(' ', '_')}"


@asynccontextmanager
async def killed() -> AsyncIterator[list[Scene]]:
    """A server that is gone, for those who have used it and for those who never have."""
    async with local_server(sync_on_commit=True) as server:
        url = server.url.partition("?")[0]
        yield [
            Scene("gone", url, in_thread(server.kill), in_thread(server.restart)),
            Scene("absent", url, nothing, nothing),
        ]


@asynccontextmanager
async def frozen() -> AsyncIterator[list[Scene]]:
    async with local_server() as server:
        url = server.url.partition("?")[0]
        yield [Scene("frozen", url, in_thread(server.pause), in_thread(server.resume))]


@asynccontextmanager
async def mute(server_url: str) -> AsyncIterator[list[Scene]]:
    """A proxy that accepts connections and answers nobody; then it ends them, and works."""
    async with Proxy.opened(server_url) as proxy:
        # Else the driver would go round the proxy.
        url = f"{proxy.url.partition('?')[0]}?directConnection=true"
        yield [Scene("mute", url, plainly(proxy.hush), plainly(proxy.speak))]


def in_thread(function: Callable[[], None]) -> Change:
    return lambda: asyncio.to_thread(function)


def plainly(function: Callable[[], None]) -> Change:
    async def call() -> None:
        function()

    return call


async def nothing() -> None:
    """The other scene on that server sees to it."""


@asynccontextmanager
async def at_work(kinds: Mapping[Scene, Sequence[str]]) -> AsyncIterator[None]:
    """Let pools begin to work; at the end all of their work is done, and they are stopped."""
    async with asyncio.TaskGroup() as tasks:
        for scene, some in kinds.items():
            for kind in some:
                await scene.prepare(kind)
                tasks.create_task(scene.work(kind))
        async with asyncio.timeout(LONG):
            for scene, some in kinds.items():
                while sum(it.witness.has_begun for it in scene.pools) < len(some):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        yield
        for scene in kinds:
            await end(scene)


async def end(scene: Scene) -> None:
    """Wait until all is done, whatever became of the acknowledgements, and stop the pools."""
    async with asyncio.timeout(LONG):
        for it in scene.pools:
            while not await it.is_drained():  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    scene.is_over.set()


def breaches(*scenes: Scene) -> list[object]:
    """Return what is wrong with what was handled."""
    witnesses = [it.witness for scene in scenes for it in scene.pools]
    return [each for one in witnesses for each in (*one.breaches, *one.missing)]


def resumed_in(*scenes: Scene) -> dict[str, float]:
    """Return how many seconds after the return of its server each pool claimed something."""
    return {
        f"{scene.name}: {it.witness.name}": it.witness.claims_after(scene.back_at)
        for scene in scenes
        for it in scene.pools
    }


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_pools_work_again_within_seconds_of_a_long_outage(
    fairlane_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Faults 38, 51 and 52, all kinds of outages at once, since each takes its time."""
    caplog.set_level(logging.INFO)
    async with killed() as (gone, absent), frozen() as (still,), mute(fairlane_url) as (silent,):
        working = {gone: KINDS, still: BOTH, silent: BOTH}
        for kind in KINDS:
            await absent.prepare(kind)
        async with at_work(working):
            more_threads = await through_an_outage(tuple(working), absent)

    told = Counter(record.name for record in caplog.records if record.levelno >= logging.WARNING)
    scenes = (*working, absent)
    assert breaches(*scenes) == []
    assert {name: late for name, late in resumed_in(*scenes).items() if late >= SOON} == {}
    for it in chain.from_iterable(scene.pools for scene in working):
        assert it.witness.states == ["starting", "ok", "degraded", "ok"]
        assert it.witness.ages[-1] > OUTAGE - 1
    assert {tuple(it.witness.states) for it in absent.pools} == {("starting", "ok")}
    assert {name for name in told if not name.startswith("fairlane.")} == set()
    assert max(told.values()) <= LINES * len(resumed_in(*scenes))
    assert [record for record in caplog.records if record.exc_info] == []
    assert more_threads <= 2


async def through_an_outage(scenes: Sequence[Scene], absent: Scene) -> int:
    """Let all servers go and come back, and the absent one's pools begin meanwhile.

    Return how many threads came to be in the second half.
    """
    for scene in scenes:
        await scene.leave()
    async with asyncio.TaskGroup() as tasks:
        beginnings = [tasks.create_task(absent.work(kind)) for kind in KINDS]
        await asyncio.sleep(OUTAGE / 2)
        threads = threading.active_count()
        await asyncio.sleep(OUTAGE / 2)
        more_threads = threading.active_count() - threads
        for scene in (*scenes, absent):
            await scene.come_back()
        async with asyncio.timeout(LONG):
            while len(absent.pools) < len(beginnings):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await end(absent)
    return more_threads


@pytest.mark.slow
async def test_pools_work_on_through_quick_restarts() -> None:
    """Fault 52's kind: each time the server is away for no longer than it takes to start."""
    async with killed() as (gone, _):
        gone.visibility = SHORT
        async with at_work({gone: FEW}):
            for _ in range(2):
                await gone.leave()
                await gone.come_back()

    assert breaches(gone) == []
    assert max(resumed_in(gone).values()) < SOON
