"""What is asked for of one type concerns no other: untested upstream. Fault 29."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fairlane import AsyncJobQueue, Job
from fairlane.jobs import Reclaimed
from fairlane.testing import ManualClock

Claimed = Callable[..., Awaitable[Job]]

WAYS: list[dict[str, Any]] = [
    {"strategy": strategy, "partitions": partitions, "hint": hint}
    for strategy, partitions in (("find_one_and_update", 4), ("update_one", 1))
    for hint in ("by_type", "by_priority", "adaptive")
]


@pytest.fixture(params=WAYS, ids=lambda way: f"{way['partitions']}-{way['hint']}")
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    options: dict[str, Any] = request.param
    return options


@pytest.fixture
async def mixed(queue: AsyncJobQueue) -> None:
    """Four jobs of each of three types; those of `a` are the most urgent."""
    for kind, priority in (("a", 9), ("b", 5), ("c", 0)):
        await queue.enqueue_many([kind] * 4, kind, priority=priority)


ASKED = {
    "one": (("b",), ["b"]),
    "two": (("c", "b"), ["b", "c"]),
    "one twice": (("c", "c"), ["c"]),
    "unknown": (("d",), []),
    "any": ((), ["a", "b", "c"]),
}
asked = pytest.mark.parametrize(("types", "expected"), ASKED.values(), ids=ASKED)


@pytest.mark.usefixtures("mixed")
@asked
async def test_claim_takes_the_types_it_names(
    queue: AsyncJobQueue, types: tuple[str, ...], expected: list[str]
) -> None:
    """No type means any."""
    found = []
    while (job := await queue.claim(*types)) is not None:
        found.append(job.type)
    assert sorted(found) == [kind for kind in expected for _ in range(4)]


@pytest.mark.usefixtures("mixed")
@asked
async def test_batch_takes_the_types_it_names(
    queue: AsyncJobQueue, types: tuple[str, ...], expected: list[str]
) -> None:
    found = [job.type for job in await queue.claim_many(50, *types)]
    assert sorted(found) == [kind for kind in expected for _ in range(4)]


@pytest.mark.usefixtures("mixed")
async def test_dequeue_is_claim(queue: AsyncJobQueue) -> None:
    job = await queue.dequeue("b", worker_id="w")
    assert job is not None
    assert (job.type, job.locked_by) == ("b", "w")


@pytest.mark.usefixtures("mixed")
async def test_counts_are_of_the_type(queue: AsyncJobQueue, claimed: Claimed) -> None:
    await queue.ack(await claimed("a"))
    await queue.fail(await claimed("a"))
    await claimed("a")
    await claimed("b")
    assert [await queue.size(kind) for kind in ("a", "b", "c", "d", None)] == [1, 3, 4, 0, 8]
    assert [await queue.in_flight(kind) for kind in ("a", "b", "c", None)] == [1, 1, 0, 2]
    assert [await queue.failed(kind) for kind in ("a", "b", None)] == [1, 0, 1]
    assert [await queue.total(kind) for kind in ("a", "d", None)] == [4, 0, 12]


@pytest.mark.usefixtures("mixed")
async def test_stats_are_told_by_type(queue: AsyncJobQueue, claimed: Claimed) -> None:
    await queue.ack(await claimed("a"))
    await claimed("b")
    stats = await queue.stats()
    told = {kind: (each.ready, each.processing, each.done) for kind, each in stats.by_type.items()}
    assert told == {"a": (3, 0, 1), "b": (3, 1, 0), "c": (4, 0, 0)}
    of_b = await queue.stats("b")
    assert (of_b.ready, of_b.processing, of_b.total, set(of_b.by_type)) == (3, 1, 4, {"b"})
    assert (await queue.stats("d")).total == 0


async def test_stats_tell_what_is_claimable_and_for_how_long(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock
) -> None:
    """One whose lease has run out is ready: a claim finds it. The delayed ones do not count."""
    assert (await queue.stats()).oldest_age is None
    await queue.enqueue("delayed", "t", delay=500)
    clock.advance(10)
    await queue.enqueue("ready", "t")
    await claimed("t")
    clock.advance(30)
    stats = await queue.stats()
    assert (stats.ready, stats.delayed, stats.processing) == (1, 1, 0)
    assert stats.oldest_age == pytest.approx(30)


@pytest.mark.usefixtures("mixed")
async def test_reclaim_of_one_type_leaves_the_others_alone(
    queue: AsyncJobQueue, clock: ManualClock
) -> None:
    """Fault 29: nothing that this program does not know is failed or dropped."""
    await queue.claim_many(12, lease=5)
    clock.advance(60)
    assert await queue.reclaim_stale(type="a") == Reclaimed(requeued=4, failed=0)
    assert [await queue.in_flight(kind) for kind in "abc"] == [0, 4, 4]
    assert await queue.reclaim_stale() == Reclaimed(requeued=8, failed=0)


@pytest.mark.usefixtures("mixed")
async def test_purge_of_one_type_leaves_the_others_alone(queue: AsyncJobQueue) -> None:
    await queue.ack_many(await queue.claim_many(12))
    assert await queue.purge("a") == 4
    assert await queue.purge("d") == 0
    assert await queue.purge() == 8


@pytest.mark.usefixtures("mixed")
async def test_redrive_of_one_type_leaves_the_others_alone(queue: AsyncJobQueue) -> None:
    for job in await queue.claim_many(12):
        await queue.fail(job)
    assert await queue.redrive(type="b") == 4
    assert [await queue.failed(kind) for kind in "abc"] == [4, 0, 4]


@pytest.mark.usefixtures("mixed")
async def test_types_are_claimed_at_the_same_time(queue: AsyncJobQueue) -> None:
    claims = [queue.claim(kind) for kind in "abc" for _ in range(6)]
    jobs = [job for job in await asyncio.gather(*claims) if job is not None]
    assert len({job.id for job in jobs}) == len(jobs) == 12
