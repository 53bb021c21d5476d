"""What `fairlane worker` is told to run: found, made into a pool, or refused with what to do."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from worker_fakes import FakeSource

from fairlane.cli.outcome import Refused
from fairlane.cli.worker.finding import Unimportable, find
from fairlane.cli.worker.making import made
from fairlane.worker import WorkerPool

Write = Callable[[str], str]

NUMBERS = count(1)


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Write a module of a name that no other test has; forget it afterwards."""
    path, modules = list(sys.path), set(sys.modules)

    def written(text: str) -> str:
        name = f"worker_module_{next(NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    yield written
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def new_pool(**options: Any) -> WorkerPool[Any]:
    return WorkerPool(FakeSource(), print, **options)


def test_the_module_is_looked_for_in_the_folder_that_is_told(write: Write, tmp_path: Path) -> None:
    name = write("class shop:\n    pool = 'a pool'")
    assert find(f"{name}:shop.pool", str(tmp_path)) == "a pool"


@pytest.mark.parametrize(
    "target", ["shop", "shop:", ":pool", "", "shop.py:pool", "./shop:pool", "shop:pool()", "a b:c"]
)
def test_what_is_not_module_and_attribute_is_refused(target: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="is not module:attribute"):
        find(target, str(tmp_path))


@pytest.mark.parametrize("name", ["no_such_module", "no_such_module.workers"])
@pytest.mark.usefixtures("write")
def test_a_module_that_is_not_there_is_named_with_the_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=f"no module 'no_such_module' in {tmp_path}"):
        find(f"{name}:pool", str(tmp_path))


def test_an_attribute_that_is_not_there_is_named(write: Write, tmp_path: Path) -> None:
    name = write("shop = 1")
    with pytest.raises(Refused, match=rf"'{name}' has no 'shop\.pool'"):
        find(f"{name}:shop.pool", str(tmp_path))


@pytest.mark.parametrize(
    "text", ["import no_such_module", "1 / 0", "raise SystemExit(3)", "def"], ids=str.split
)
def test_a_module_that_raises_shows_where_and_not_how_it_was_reached(
    text: str, write: Write, tmp_path: Path
) -> None:
    name = write(text)
    with pytest.raises(Unimportable, match=f"cannot import '{name}'") as caught:
        find(f"{name}:pool", str(tmp_path))
    assert caught.value.__cause__ is not None
    trace = caught.value.__cause__.__traceback__
    is_reached = text != "def"
    assert trace is not None
    assert (trace.tb_frame.f_code.co_filename == str(tmp_path / f"{name}.py")) is is_reached


@pytest.mark.filterwarnings("ignore:coroutine 'sleep' was never awaited:RuntimeWarning")
async def test_a_module_that_runs_a_loop_of_its_own_is_told_of_factories(
    write: Write, tmp_path: Path
) -> None:
    name = write("import asyncio\nasyncio.run(asyncio.sleep(0))")
    with pytest.raises(Unimportable, match="let an `async def`"):
        find(f"{name}:pool", str(tmp_path))


def plain() -> WorkerPool[Any]:
    return new_pool()


async def awaited() -> WorkerPool[Any]:
    return new_pool()


@asynccontextmanager
async def entered() -> AsyncIterator[WorkerPool[Any]]:
    yield new_pool()


async def awaited_and_entered() -> Any:
    return entered()


class Shop:
    def __call__(self) -> WorkerPool[Any]:
        return new_pool()


@pytest.mark.parametrize(
    "found", [new_pool(), plain, awaited, entered, awaited_and_entered, Shop(), lambda: entered()]
)
async def test_a_pool_and_every_kind_of_factory_gives_a_pool_that_does_not_run_yet(
    found: Any,
) -> None:
    async with made(found, "shop:pool") as pool:
        assert isinstance(pool, WorkerPool)
        for _ in range(5):
            await asyncio.sleep(0)
        assert pool.health.state == "stopped"


async def test_what_a_factory_has_opened_is_closed_after_the_pool() -> None:
    told = []

    @asynccontextmanager
    async def factory() -> AsyncIterator[WorkerPool[Any]]:
        yield new_pool()
        told.append("closed")

    async with made(factory, "shop:pool"):
        told.append("worked")
    assert told == ["worked", "closed"]


async def yielding() -> AsyncIterator[WorkerPool[Any]]:
    yield new_pool()


def with_argument(url: str) -> WorkerPool[Any]:
    raise AssertionError(url)


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (5, "is of type int; it must be a WorkerPool, or a function"),
        (lambda: 5, "has made a int; it must be a WorkerPool"),
        (lambda: None, "has made a NoneType"),
        (yielding, "yields: make it an `async def` under @asynccontextmanager"),
        (with_argument, "without arguments: missing a required argument: 'url'"),
        (WorkerPool, "without arguments"),
        (lambda: new_pool(signals=True), "signals=True: leave it out"),
        (new_pool(signals=True), "signals=True: leave it out"),
    ],
)
async def test_what_gives_no_pool_is_refused_with_what_to_do(found: Any, problem: str) -> None:
    with pytest.raises(Refused, match=problem):
        async with made(found, "shop:pool"):
            pass


async def test_what_a_refused_factory_has_opened_is_closed() -> None:
    told = []

    @asynccontextmanager
    async def factory() -> AsyncIterator[int]:
        try:
            yield 5
        finally:
            told.append("closed")

    with pytest.raises(Refused):
        async with made(factory, "shop:pool"):
            pass
    assert told == ["closed"]
