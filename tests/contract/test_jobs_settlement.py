"""How a lease ends: by its holder, once, and told. Fault 8; B6.17 to B6.20; A12.16 to A12.27."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fairlane import AsyncJobQueue, Job, LeaseLost, Outcome
from fairlane.errors import JobLost
from fairlane.testing import ManualClock

MakeQueue = Callable[..., AsyncJobQueue]
Claimed = Callable[..., Awaitable[Job]]
Stored = Callable[..., Awaitable[list[dict[str, Any]]]]
Settle = Callable[[AsyncJobQueue, Job], Awaitable[Any]]


async def extended(queue: AsyncJobQueue, job: Job) -> bool:
    try:
        await queue.extend(job, 500)
    except JobLost:
        return False
    return True


SETTLEMENTS: dict[str, Settle] = {
    "ack": lambda queue, job: queue.ack(job, "late"),
    "ack_many": lambda queue, job: queue.ack_many([job]),
    "nack": lambda queue, job: queue.nack(job),
    "nack with a delay": lambda queue, job: queue.nack(job, delay=9),
    "fail": lambda queue, job: queue.fail(job, error="late"),
    "release": lambda queue, job: queue.release(job),
    "extend": extended,
}
ENDINGS = [name for name in SETTLEMENTS if name != "extend"]

every_settlement = pytest.mark.parametrize("settle", SETTLEMENTS.values(), ids=SETTLEMENTS)


@pytest.fixture(params=["find_one_and_update", "update_one"])
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"strategy": request.param}


@every_settlement
@pytest.mark.parametrize("keep", [0, None], ids=["deleted", "kept"])
async def test_stale_holder_changes_nothing_after_a_take_over(
    make_queue: MakeQueue, clock: ManualClock, stored: Stored, settle: Settle, keep: Any
) -> None:
    """Fault 8, A12.27, and untested upstream: what it says is refused, whatever it is."""
    queue = make_queue(keep_done=keep, keep_failed=keep)
    await queue.enqueue(1, "t", max_attempts=9)
    stale = await queue.claim("t", worker_id="slow")
    clock.advance(30)
    fresh = await queue.claim("t", worker_id="next")
    assert stale is not None
    assert fresh is not None
    before = await stored()
    assert not await settle(queue, stale)
    assert await stored() == before
    assert await queue.ack(fresh)


@every_settlement
async def test_stale_holder_of_the_last_attempt_changes_nothing(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock, stored: Stored, settle: Settle
) -> None:
    """Fault 8: its nack would fail the job that another one works on after a redrive."""
    await queue.enqueue(1, "t", max_attempts=1)
    stale = await claimed()
    clock.advance(30)
    assert (await queue.reclaim_stale()).failed == 1
    await queue.redrive()
    fresh = await claimed()
    before = await stored()
    assert not await settle(queue, stale)
    assert await stored() == before
    assert await queue.ack(fresh)


@pytest.mark.parametrize("first", ENDINGS)
@pytest.mark.parametrize("second", SETTLEMENTS)
async def test_lease_settles_once(
    queue: AsyncJobQueue, claimed: Claimed, stored: Stored, first: str, second: str
) -> None:
    """B6.17 of ack, and any other two."""
    await queue.enqueue(1, "t", max_attempts=9)
    job = await claimed("t")
    assert await SETTLEMENTS[first](queue, job)
    before = await stored()
    assert not await SETTLEMENTS[second](queue, job)
    assert await stored() == before


@every_settlement
async def test_settlement_of_an_unknown_job_is_refused(
    queue: AsyncJobQueue, claimed: Claimed, stored: Stored, settle: Settle
) -> None:
    """B6.18 and B6.19: of a Job, as a bare id is a TypeError."""
    await queue.enqueue(1, "t", max_attempts=9)
    unknown = replace(await claimed("t"), id="unknown")
    before = await stored()
    assert not await settle(queue, unknown)
    assert await stored() == before


async def test_fail_of_a_done_job_is_refused(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """B6.20; and nack, which is untested upstream."""
    await queue.enqueue(1, "t")
    job = await claimed("t")
    await queue.ack(job)
    assert not await queue.fail(job)
    assert await queue.nack(job) is Outcome.LOST
    assert (await queue.stats()).done == 1


@every_settlement
async def test_purged_job_is_not_made_again(
    queue: AsyncJobQueue, claimed: Claimed, stored: Stored, settle: Settle
) -> None:
    """Fault 8."""
    await queue.enqueue(1, "t")
    job = await claimed("t")
    await queue.clear()
    assert not await settle(queue, job)
    assert await stored() == []


@every_settlement
async def test_holder_may_settle_late_while_nobody_has_taken_over(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock, settle: Settle
) -> None:
    await queue.enqueue(1, "t")
    job = await claimed("t")
    clock.advance(1_000)
    assert await settle(queue, job)


async def test_lost_lease_names_the_job(queue: AsyncJobQueue, claimed: Claimed) -> None:
    await queue.enqueue(1, "email")
    job = await claimed("email")
    await queue.ack(job)
    with pytest.raises(LeaseLost, match=f"job {job.id} of type 'email'.*nothing was changed"):
        await queue.extend(job)


async def test_lost_outcome_is_false_and_the_others_are_true() -> None:
    assert [bool(outcome) for outcome in Outcome] == [True, True, False]


async def test_extend_keeps_others_away(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock
) -> None:
    await queue.enqueue(1, "t")
    job = await queue.extend(await claimed("t", lease=10), timedelta(seconds=60))
    assert job.available_at == clock() + 60
    clock.advance(59.9)
    assert await queue.claim("t") is None
    clock.advance(0.1)
    assert await queue.claim("t") is not None


async def test_extend_without_a_duration_takes_that_of_the_queue(
    make_queue: MakeQueue, clock: ManualClock
) -> None:
    queue = make_queue(lease=45)
    await queue.enqueue(1, "t")
    job = await queue.claim("t", lease=10)
    assert job is not None
    assert (await queue.extend(job)).available_at == clock() + 45


async def test_extend_never_shortens_a_lease(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock
) -> None:
    """An extension that arrives late must not undo a later one."""
    await queue.enqueue(1, "t")
    job = await claimed("t", lease=100)
    assert (await queue.extend(job, 10)).available_at == clock() + 100
    clock.advance(99.9)
    assert await queue.claim("t") is None


async def test_holder_settles_with_the_job_as_it_was_before_an_extension(
    queue: AsyncJobQueue, claimed: Claimed
) -> None:
    """An extension changes no token: a lost reply must not lock the holder out."""
    await queue.enqueue(1, "t")
    job = await claimed("t")
    await queue.extend(job, 90)
    assert await queue.ack(job)


async def test_nack_keeps_the_error(queue: AsyncJobQueue, claimed: Claimed) -> None:
    """A12.17: what clears the lease leaves the attempts."""
    await queue.enqueue(1, "t")
    job = await claimed("t")
    await queue.nack(job, error="no route")
    seen = await queue.get(job.id)
    assert seen is not None
    assert (seen.state, seen.last_error, seen.attempts) == ("pending", "no route", 1)


async def test_long_error_is_cut(queue: AsyncJobQueue, claimed: Claimed) -> None:
    await queue.enqueue_many([1, 2], "t")
    for end in (queue.nack, queue.fail):
        job = await claimed("t")
        await end(job, error="é" * 9_000)
        seen = await queue.get(job.id)
        assert seen is not None
        assert seen.last_error == "é" * 4_000
        await queue.cancel(job.id)


async def test_ended_job_is_nothing_that_a_claim_could_find(
    queue: AsyncJobQueue, claimed: Claimed, clock: ManualClock, stored: Stored
) -> None:
    """A12.64: it has no partition, no time and no token; when it ended, and why, is kept."""
    await queue.enqueue_many([1, 2], "t")
    await queue.ack(await claimed("t"))
    await queue.fail(await claimed("t"), error="why")
    failed, done = sorted(await stored(), key=lambda job: job["state"], reverse=True)
    assert {"partition", "available_at", "token"}.isdisjoint({*failed, *done})
    assert {failed["done_at"], done["done_at"]} == {clock()}
    assert (failed["last_error"], "last_error" in done) == ("why", False)
