"""What an operation costs, in commands to the server."""

from collections.abc import Callable
from typing import Any

import pytest

from fairlane import AsyncJobQueue, Job
from fairlane.jobs import NewJob

MakeQueue = Callable[..., AsyncJobQueue]

CLAIMS = {"find_one_and_update": ["findAndModify"], "update_one": ["update", "find"]}


@pytest.fixture(params=CLAIMS)
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"strategy": request.param}


@pytest.fixture(params=[0, None, 60], ids=lambda keep: f"keep {keep}")
def keep(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
async def opened(make_queue: MakeQueue, keep: Any, command_log: Any) -> AsyncJobQueue:
    """A queue that has learnt the server, the settings and the indexes."""
    queue = make_queue(keep_done=keep)
    await queue.total()
    command_log.take()
    return queue


async def claimed(queue: AsyncJobQueue, n: int, command_log: Any) -> list[Job]:
    await queue.enqueue_many(range(n), "t")
    jobs = await queue.claim_many(n, "t")
    assert len(jobs) == n
    command_log.take()
    return jobs


@pytest.mark.parametrize("options", [{}, {"unique_key": "k"}, {"delay": 5}], ids=str)
async def test_enqueue_takes_one_command(
    opened: AsyncJobQueue, command_log: Any, options: dict[str, Any]
) -> None:
    await opened.enqueue(1, "t", **options)
    assert command_log.take() == ["insert"]


async def test_enqueue_of_a_duplicate_takes_two_commands(
    opened: AsyncJobQueue, command_log: Any
) -> None:
    await opened.enqueue(1, "t", unique_key="k")
    command_log.take()
    await opened.enqueue(2, "t", unique_key="k")
    assert command_log.take() == ["insert", "find"]


@pytest.mark.parametrize("number", [1, 2, 500])
async def test_enqueue_of_many_takes_one_command(
    opened: AsyncJobQueue, command_log: Any, number: int
) -> None:
    items = [NewJob(each, unique_key=f"k{each}") for each in range(number)]
    enqueued = await opened.enqueue_many(items, "t")
    assert enqueued.created == number
    assert command_log.take() == ["insert"]


async def test_enqueue_of_nothing_takes_no_command(opened: AsyncJobQueue, command_log: Any) -> None:
    await opened.enqueue_many([], "t")
    await opened.ack_many([])
    assert command_log.take() == []


@pytest.mark.parametrize("types", [(), ("t",), ("t", "u")], ids=str)
async def test_claim_takes_the_commands_of_its_strategy(
    opened: AsyncJobQueue, command_log: Any, types: tuple[str, ...], way: dict[str, Any]
) -> None:
    await opened.enqueue_many(range(200), "t")
    command_log.take()
    assert await opened.claim(*types) is not None
    assert command_log.take() == CLAIMS[way["strategy"]]


async def test_claim_that_finds_nothing_takes_one_command(
    opened: AsyncJobQueue, command_log: Any, way: dict[str, Any]
) -> None:
    assert await opened.claim("t") is None
    assert command_log.take() == CLAIMS[way["strategy"]][:1]


async def test_claim_that_finds_nothing_asks_each_partition_once(
    make_queue: MakeQueue, command_log: Any, way: dict[str, Any]
) -> None:
    queue = make_queue(partitions=4)
    await queue.total()
    command_log.take()
    assert await queue.claim("t") is None
    assert command_log.take() == CLAIMS[way["strategy"]][:1] * 4


@pytest.mark.parametrize(("partitions", "most"), [(1, 3), (4, 4)])
async def test_claim_of_64_takes_four_commands_at_most(
    make_queue: MakeQueue, command_log: Any, partitions: int, most: int
) -> None:
    queue = make_queue(partitions=partitions)
    await queue.enqueue_many(range(100), "t")
    command_log.take()
    assert len(await queue.claim_many(64, "t")) == 64
    assert len(command_log.take()) == most


async def test_ack_takes_one_command(opened: AsyncJobQueue, command_log: Any, keep: Any) -> None:
    """Also where it deletes, and where it is refused."""
    (job,) = await claimed(opened, 1, command_log)
    assert await opened.ack(job, "result")
    assert not await opened.ack(job)
    assert command_log.take() == ["delete" if keep == 0 else "update"] * 2


@pytest.mark.parametrize("n", [2, 64])
async def test_ack_of_many_takes_two_commands_at_most(
    opened: AsyncJobQueue, command_log: Any, keep: Any, n: int
) -> None:
    jobs = await claimed(opened, n, command_log)
    assert await opened.ack_many(jobs) == n
    assert len(command_log.take()) == (2 if keep == 0 else 1)


@pytest.mark.parametrize("verb", ["nack", "fail", "release", "extend"])
async def test_other_settlements_take_one_command(
    opened: AsyncJobQueue, command_log: Any, verb: str
) -> None:
    (job,) = await claimed(opened, 1, command_log)
    await getattr(opened, verb)(job)
    assert command_log.take() == ["update"]


async def test_stats_take_one_command(opened: AsyncJobQueue, command_log: Any) -> None:
    await claimed(opened, 5, command_log)
    await opened.stats()
    assert command_log.take() == ["aggregate"]
