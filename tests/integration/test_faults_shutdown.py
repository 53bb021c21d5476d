"""A pool that is cut at any step of the event loop, on a server and with its thread of renewals."""

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import AsyncMongoClient, MongoClient

import fairlane
from fairlane import AsyncMongoTransport, Lease, WorkerPool
from fairlane.worker._held import Held

Transport = AsyncMongoTransport[Any]
Server = MongoClient[dict[str, Any]]
Cut = Callable[[WorkerPool[Any], "asyncio.Task[None]"], object]

HOME = str(fairlane.__path__[0])
DRIVERS: dict[str, Any] = {"motor": AsyncIOMotorClient, "pymongo": AsyncMongoClient}
CUTS: dict[str, Cut] = {
    "cancel": lambda _, task: task.cancel(),
    "stop": lambda pool, _: pool.stop(),
}
LAST = 200
SAMPLE = sorted({*range(41), *range(0, LAST + 1, 7)})
CASES = [(cut, driver) for driver in ("motor", "pymongo") for cut in ("cancel", "stop")]
SHARES: list[tuple[str, str, Sequence[int]]] = [
    (*case, SAMPLE[number :: len(CASES)]) for number, case in enumerate(CASES)
]
DEADLINE = 6.0
"""Seconds that a pool may take to end once its drain is over, and threads to be gone."""


class CountingLoop(asyncio.SelectorEventLoop):
    """Does something at one of its steps: in each it waits for news and runs what is ready."""

    def __init__(self) -> None:
        super().__init__()
        self._step = 0
        self._plans: dict[int, Callable[[], object]] = {}
        self.stray: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.stray.append(context))

    def do_at(self, step: int, action: Callable[[], object]) -> None:
        self._plans[self._step + 1 + step] = action

    def _run_once(self) -> None:
        self._step += 1
        action = self._plans.pop(self._step, None)
        if action is not None:
            action()
        super()._run_once()  # type: ignore[misc]


@pytest.fixture
def renewed_in(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Let leases be renewed all the time; tell by which threads they were."""
    threads, renewed = set[int](), Held.renewed

    def noted(held: Held[Any], *arguments: Any, **options: Any) -> None:
        threads.add(threading.get_ident())
        renewed(held, *arguments, **options)

    monkeypatch.setattr(Held, "renewed", noted)
    soon = property(lambda held: held.safe_until - held.visibility + 0.005)
    monkeypatch.setattr(Held, "renew_at", soon)
    return threads


async def handle(lease: Lease[Any]) -> None:
    await asyncio.sleep(0.05 if lease.event % 3 else 0.001)


def tasks_of_the_pool() -> list[str]:
    """Leave out those of the driver, and of this test."""
    running: Iterator[Any] = (task.get_coro() for task in asyncio.all_tasks())
    return [each.__qualname__ for each in running if each.cr_code.co_filename.startswith(HOME)]


def threads_of_the_pool() -> list[str]:
    """Return those that are left; one that has told its pool of its end may take its time."""
    deadline = time.monotonic() + DEADLINE
    while True:
        names = [thread.name for thread in threading.enumerate()]
        left = [name for name in names if name.startswith(("fairlane", "AnyIO"))]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.001)


async def cut_at(step: int, cut: Cut, transport: Transport) -> None:
    """Begin with some messages, and with a pool that has just been made."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, CountingLoop)
    await transport.publish_many([(f"g{number % 3}", number) for number in range(9)])
    pool = WorkerPool(
        transport, handle, concurrency=3, claimers=2, poll_interval=0.005, drain_timeout=0
    )
    task = asyncio.create_task(pool.run())
    loop.do_at(step, lambda: cut(pool, task))
    ended, _ = await asyncio.wait([task], timeout=DEADLINE)

    assert ended, "it does not end"
    assert task.cancelled() or task.exception() is None
    assert (pool.health.state, pool.health.running, pool.health.leased) == ("stopped", 0, 0)
    assert tasks_of_the_pool() == []
    left = [(lock["token"], lock["attempts"]) for lock in await locks(transport)]
    assert set(left) <= {(None, 0)}
    await transport.clear()


async def locks(transport: Transport) -> list[Any]:
    return await transport._store.locks.find({}, sort=[("_id", 1)], limit=0)


@pytest.mark.parametrize(
    ("cut", "driver", "steps"),
    [
        *(pytest.param(*each, id=f"some-{each[0]}-{each[1]}") for each in SHARES),
        *(
            pytest.param(
                *(cut, driver, range(LAST + 1)),
                id=f"all-{cut}-{driver}",
                marks=[pytest.mark.whole_matrix, pytest.mark.timeout(300)],
            )
            for cut, driver in CASES
        ),
    ],
)
def test_pool_that_is_cut_at_any_step_ends_and_leaves_nothing(
    fairlane_url: str,
    janitor: Server,
    db_name: str,
    renewed_in: set[int],
    cut: str,
    driver: str,
    steps: Sequence[int],
) -> None:
    """Fault 41: neither leases, nor tasks, nor threads, nor errors that nobody has heard of."""

    async def scenario() -> None:
        client = DRIVERS[driver](fairlane_url)
        try:
            transport = Transport(client, db_name)
            for step in steps:
                await cut_at(step, CUTS[cut], transport)
                assert threads_of_the_pool() == [], f"cut at step {step}"
        finally:
            closing = client.close()
            await (closing or asyncio.sleep(0))

    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        runner.run(scenario())
        loop: Any = runner.get_loop()
    gc.collect()
    janitor.drop_database(db_name)
    assert loop.stray == []
    assert threading.get_ident() not in renewed_in
    assert renewed_in, "no cut came after a renewal"
