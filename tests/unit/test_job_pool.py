"""What a worker pool does with jobs, on a queue in memory and in virtual time."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio import from_thread
from job_fakes import Scene, endings
from pydantic import BaseModel
from worker_fakes import VirtualTimeLoop, in_virtual_time, now

from fairlane import (
    Backoff,
    ConfigurationError,
    Discard,
    Fail,
    FairlaneError,
    Job,
    JobContext,
    JobLost,
    Reject,
    Retry,
    WorkerPool,
)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def handle(ctx: JobContext, params: Any) -> None:
    """Succeed at once."""


@in_virtual_time
async def test_return_ends_the_job_as_done() -> None:
    """A12.28."""
    scene = Scene()
    assert await scene.outcome() == ["acked"]
    assert scene.side.job("work-0").state == "done"


@in_virtual_time
async def test_error_is_a_retry_after_the_backoff_of_the_type() -> None:
    scene = Scene()
    assert await scene.outcome(ValueError("bad"), retry=Backoff(base=50, jitter=0)) == ["nacked"]
    assert scene.side.job("work-0").last_error == "ValueError: bad"
    assert scene.side.stored["work-0"].due_at - now() > 45


@in_virtual_time
async def test_retry_says_its_own_delay() -> None:
    scene = Scene()
    assert await scene.outcome(Retry(7)) == ["nacked"]
    assert scene.record.events[-1].delay == 7


@in_virtual_time
async def test_three_attempts_are_three_executions_and_the_last_failure_ends_the_job() -> None:
    """A12.53, and C1.11: at the last failure, not at the next claim."""
    scene = Scene()
    endings = await scene.outcome(*[ValueError("bad")] * 5, times=3)
    assert endings == ["nacked", "nacked", "dead_lettered"]
    assert scene.side.job("work-0").state == "failed"
    assert scene.side.job("work-0").attempts == 3


@in_virtual_time
async def test_success_on_the_third_attempt_is_a_success() -> None:
    """A12.57 and A12.42."""
    scene = Scene()
    endings = await scene.outcome(ValueError(), ValueError(), times=3)
    assert endings == ["nacked", "nacked", "acked"]


@pytest.mark.parametrize("error", [Reject("never"), Fail("never")])
def test_rejection_lets_the_job_fail_at_once(error: Exception) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()
        assert await scene.outcome(error) == ["dead_lettered"]
        assert scene.side.job("work-0").last_error == "never"

    scenario()


@in_virtual_time
async def test_discarded_job_ends_and_is_never_run_again() -> None:
    """C1.1: there dismiss wrote nothing, and the job was run as a stale one for ever."""
    scene = Scene()
    assert await scene.outcome(Discard()) == ["acked"]
    assert scene.side.job("work-0").state == "done"


ANSWERS: dict[str, tuple[Any, str]] = {
    "retry": (Retry(3), "nacked"),
    "discard": (Discard(), "acked"),
    "fail": (Fail(), "dead_lettered"),
    "none": (None, "nacked"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_on_error_decides(name: str) -> None:
    answer, ending = ANSWERS[name]

    @in_virtual_time
    async def scenario() -> None:
        scene, asked = Scene(), list[tuple[str, int]]()

        async def on_error(error: Exception, ctx: JobContext) -> Any:
            asked.append((str(error), ctx.attempt))
            return answer

        assert await scene.outcome(ValueError("bad"), on_error=on_error) == [ending]
        assert asked == [("bad", 1)]

    scenario()


@pytest.mark.parametrize("answer", [RuntimeError("a bug"), asyncio.CancelledError(), "retry"])
def test_on_error_that_fails_itself_leaves_the_default_and_is_logged(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """C1.5: there nothing was written then."""

    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()

        def on_error(error: Exception, ctx: JobContext) -> Any:
            if isinstance(answer, BaseException):
                raise answer
            return answer

        assert await scene.outcome(ValueError("bad"), on_error=on_error) == ["nacked"]

    scenario()
    assert any("on_error" in entry.message for entry in caplog.records)


RETURNED: dict[str, tuple[Any, str]] = {
    "retry": (Retry(7), "nacked"),
    "fail": (Fail("bad"), "dead_lettered"),
    "class": (Reject, "dead_lettered"),
    "discard": (Discard(), "acked"),
}


@pytest.mark.parametrize("name", RETURNED)
def test_answer_that_a_handler_returns_counts_as_raised(name: str) -> None:
    """As a result it would be lost: the job would be done."""

    @in_virtual_time
    async def scenario() -> None:
        scene, (answer, ending) = Scene(), RETURNED[name]

        @scene.jobs.event("work")
        async def work(ctx: JobContext, params: Any) -> Any:
            return answer

        scene.side.add("work")
        async with scene.pool():
            with anyio.fail_after(60):
                await scene.record.until(ending)
        told = [event for event in scene.record.events if event.kind == "handler_failed"]
        assert len(told) == 1

    scenario()


async def test_answer_that_a_plain_handler_returns_counts_as_raised(scene: Scene) -> None:
    scene.jobs.event("work")(lambda ctx, params: Fail("bad"))
    scene.side.add("work")
    async with scene.pool():
        with anyio.fail_after(10):
            await scene.record.until("dead_lettered")


@pytest.mark.parametrize("answer", [Fail, Discard, Retry])
def test_on_error_may_return_the_class_of_its_answer_as_raise_takes_it(answer: Any) -> None:
    @in_virtual_time
    async def scenario() -> None:
        ending = {Fail: "dead_lettered", Discard: "acked", Retry: "nacked"}[answer]
        asked = await Scene().outcome(ValueError(), on_error=lambda error, ctx: answer)
        assert asked == [ending]

    scenario()


def test_wrong_answer_of_on_error_is_logged_with_its_job(caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def scenario() -> None:
        await Scene().outcome(ValueError("bad"), on_error=lambda error, ctx: "later")

    with caplog.at_level(logging.ERROR, logger="fairlane.worker._jobs"):
        scenario()
    (line,) = [each.message for each in caplog.records if "on_error" in each.message]
    assert "job work-0 of type 'work'" in line
    assert "not 'later'" in line


@in_virtual_time
async def test_on_error_is_not_asked_about_an_answer_of_the_handler() -> None:
    scene, asked = Scene(), list[Any]()
    assert await scene.outcome(
        Retry(1), Discard(), times=2, on_error=lambda error, ctx: asked.append(error)
    ) == ["nacked", "acked"]
    assert asked == []


class Sum(BaseModel):
    a: int
    b: int


@in_virtual_time
async def test_handler_gets_its_payload_as_the_model_makes_it() -> None:
    """A12.41."""
    scene, sums = Scene(), list[int]()

    @scene.jobs.event("sum", payload=Sum)
    async def add(ctx: JobContext, params: Sum) -> None:
        sums.append(params.a + params.b)

    scene.side.add("sum", {"a": "5", "b": 25})
    async with scene.pool():
        await scene.record.until("acked")
    assert sums == [30]


@in_virtual_time
async def test_payload_that_is_invalid_by_now_lets_the_job_fail() -> None:
    scene, calls = Scene(), list[Any]()
    scene.jobs.event("sum", payload=Sum)(lambda ctx, params: calls.append(params))
    key = scene.side.add("sum", {"a": 1})
    async with scene.pool():
        await scene.record.until("dead_lettered")
    assert calls == []
    assert "Sum refused it" in (scene.side.job(key).last_error or "")


@in_virtual_time
async def test_type_that_nobody_registered_is_left_alone() -> None:
    scene = Scene()
    scene.jobs.event("work")(handle)
    other, mine = scene.side.add("other", priority=9), scene.side.add("work")
    async with scene.pool():
        await scene.record.until("acked")
        await anyio.sleep(5)
    assert (scene.side.job(other).attempts, scene.side.job(mine).state) == (0, "done")


@in_virtual_time
async def test_cap_of_two_lets_exactly_two_run_at_once_and_all_in_the_end() -> None:
    """A12.72."""
    scene, running, most = Scene(), 0, 0

    @scene.jobs.event("work", max_concurrency=2)
    async def work(ctx: JobContext, params: Any) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(1)
        running -= 1

    for _ in range(5):
        scene.side.add("work")
    async with scene.pool(concurrency=5, claimers=3):
        await scene.record.until("acked", times=5)
    assert most == 2
    assert all(stored.job.attempts == 1 for stored in scene.side.stored.values())


@in_virtual_time
async def test_claims_are_filtered_only_while_a_type_is_at_its_cap() -> None:
    """A12.9: the claim tells the queue, which then names the index by type."""
    scene, go = Scene(), anyio.Event()

    @scene.jobs.event("capped", max_concurrency=1)
    async def capped(ctx: JobContext, params: Any) -> None:
        await go.wait()

    scene.jobs.event("free")(handle)
    scene.side.add("capped", priority=1)
    scene.side.add("capped")
    async with scene.pool(concurrency=8):
        await scene.record.until("claimed")
        await anyio.sleep(3)
        go.set()
        await scene.record.until("acked", times=2)
        await anyio.sleep(3)
    asked = [(tuple(demand.leases), demand.is_filtered) for demand, _ in scene.side.demands]  # type: ignore[union-attr]
    assert asked[0] == (("capped", "free"), False)
    assert (("free",), True) in asked
    assert asked[-1] == (("capped", "free"), False)


@in_virtual_time
async def test_nothing_is_asked_while_every_type_is_at_its_cap() -> None:
    scene, go = Scene(), anyio.Event()

    @scene.jobs.event("capped", max_concurrency=1)
    async def capped(ctx: JobContext, params: Any) -> None:
        await go.wait()

    scene.side.add("capped")
    async with scene.pool(concurrency=8):
        await scene.record.until("claimed")
        await anyio.sleep(0.5)
        before = scene.side.calls["claim"]
        await anyio.sleep(20)
        assert scene.side.calls["claim"] == before
        go.set()


@in_virtual_time
async def test_each_type_is_leased_for_as_long_as_it_says() -> None:
    """A12.73 to A12.75: by default as the queue says."""
    scene = Scene()
    scene.jobs.event("long", lease=300)(handle)
    scene.jobs.event("usual")(handle)
    scene.side.add("long")
    async with scene.pool():
        await scene.record.until("acked")
    demand, _ = scene.side.demands[0]
    assert demand is not None
    assert demand.leases == {"long": 300.0, "usual": 30.0}


@in_virtual_time
async def test_long_handler_keeps_its_lease() -> None:
    """A12.73, with renewals in the background."""
    scene = Scene()

    @scene.jobs.event("work", lease=3)
    async def work(ctx: JobContext, params: Any) -> None:
        await anyio.sleep(20)

    scene.side.add("work")
    async with scene.pool():
        await scene.record.until("acked")
    assert endings(scene.record) == ["acked"]
    assert scene.side.calls["extend"] >= 15


@in_virtual_time
async def test_lost_lease_cancels_the_handler_and_tells_on_stale_once() -> None:
    """A12.43 and A12.92: nothing is written after it."""
    scene, told = Scene(), list[tuple[str, bool]]()

    def on_stale(ctx: JobContext) -> None:
        told.append((ctx.job.id, ctx.lease_lost.is_set()))

    @scene.jobs.event("work", lease=3, on_stale=on_stale)
    async def work(ctx: JobContext, params: Any) -> None:
        await anyio.sleep_forever()

    key = scene.side.add("work")
    async with scene.pool():
        await scene.record.until("claimed")
        scene.side.take_away(key)
        await scene.record.until("lease_lost")
    assert told == [(key, True)]
    assert scene.side.job(key).token == "other:1"
    assert not {"ack", "retry", "fail", "release"} & scene.side.calls.keys()


@in_virtual_time
async def test_lease_lost_before_the_settlement_tells_on_stale_too() -> None:
    scene, told = Scene(), list[str]()

    @scene.jobs.event("work", on_stale=lambda ctx: told.append(ctx.job.id))
    async def work(ctx: JobContext, params: Any) -> None:
        scene.side.take_away(ctx.job.id)

    key = scene.side.add("work")
    async with scene.pool():
        await scene.record.until("lease_lost")
    assert told == [key]


def test_errors_of_on_stale_are_logged_and_the_pool_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()

        async def on_stale(ctx: JobContext) -> None:
            raise RuntimeError("a bug")

        @scene.jobs.event("work", on_stale=on_stale)
        async def work(ctx: JobContext, params: Any) -> None:
            if params:
                scene.side.take_away(ctx.job.id)

        scene.side.add("work", True, priority=1)
        scene.side.add("work", False)
        async with scene.pool(concurrency=1):
            await scene.record.until("acked")

    scenario()
    assert "on_stale raised" in [entry.message for entry in caplog.records]


@in_virtual_time
async def test_stale_job_frees_its_cap() -> None:
    """A12.7."""
    scene = Scene()

    @scene.jobs.event("work", lease=3, max_concurrency=1)
    async def work(ctx: JobContext, params: Any) -> None:
        if params:
            await anyio.sleep_forever()

    first = scene.side.add("work", True, priority=1)
    scene.side.add("work", False)
    async with scene.pool():
        await scene.record.until("claimed")
        scene.side.take_away(first)
        await scene.record.until("acked")
    assert endings(scene.record) == ["lease_lost", "acked"]


@pytest.mark.parametrize("attempts", [2, 3])
def test_exhausted_job_is_told_of_once_also_when_a_claim_finds_it(attempts: int) -> None:
    """A12.53, A12.55 and A12.60: with 3 of 3 used up it is not executed again."""

    @in_virtual_time
    async def scenario() -> None:
        scene, told, runs = Scene(), list[Job](), 0

        @scene.jobs.event("work")
        async def work(ctx: JobContext, params: Any) -> None:
            nonlocal runs
            runs += 1
            raise ValueError("bad")

        key = scene.side.add("work", attempts=attempts)
        async with scene.pool(on_exhausted=told.append):
            await scene.record.until("dead_lettered")
        assert [(job.id, job.state) for job in told] == [(key, "failed")]
        assert runs == 3 - attempts
        assert scene.side.job(key).attempts == 3

    scenario()


@in_virtual_time
async def test_on_exhausted_is_not_told_of_a_job_that_was_failed_on_purpose() -> None:
    """A12.57, for the other ends of a job."""
    scene, told = Scene(), list[Job]()

    @scene.jobs.event("work")
    async def work(ctx: JobContext, params: Any) -> None:
        raise params

    for error in (Fail(), Discard()):
        scene.side.add("work", error)
    async with scene.pool(on_exhausted=told.append):
        await scene.record.until("dead_lettered")
        await scene.record.until("acked")
    assert told == []


def test_throwing_on_exhausted_leaves_the_job_failed(caplog: pytest.LogCaptureFixture) -> None:
    """A12.58."""

    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()

        def on_exhausted(job: Job) -> None:
            raise RuntimeError("a bug")

        scene.jobs.event("work")(handle)
        key = scene.side.add("work", attempts=3)
        async with scene.pool(on_exhausted=on_exhausted):
            await scene.record.until("dead_lettered")
        assert scene.side.job(key).state == "failed"

    scenario()
    assert "on_exhausted raised" in [entry.message for entry in caplog.records]


class Gate:
    """A guard that refuses so often, and notes who is inside."""

    def __init__(self, refusals: int = 0, *, fails_on_exit: bool = False) -> None:
        self.refusals = refusals
        self.fails_on_exit = fails_on_exit
        self.steps: list[str] = []

    @asynccontextmanager
    async def __call__(self, job: Job) -> AsyncIterator[None]:
        if self.refusals:
            self.refusals -= 1
            raise RuntimeError("no room")
        self.steps.append("in")
        try:
            yield
        finally:
            self.steps.append("out")
        if self.fails_on_exit:
            raise RuntimeError("a bug")


@in_virtual_time
async def test_refused_job_is_given_back_for_a_while_and_no_attempt_is_counted() -> None:
    """A8."""
    scene, attempts, times = Scene(), list[int](), list[float]()

    @scene.jobs.event("work")
    async def work(ctx: JobContext, params: Any) -> None:
        attempts.append(ctx.attempt)
        times.append(now())

    started = now()
    scene.side.add("work")
    async with scene.pool(guard=Gate(2), poll_interval=0.1):
        await scene.record.until("acked")
    assert attempts == [1]
    assert endings(scene.record) == ["released", "released", "acked"]
    assert 2.0 <= times[0] - started < 3.0


@pytest.mark.parametrize("error", [None, ValueError("bad")])
def test_guard_is_left_after_the_handler_whatever_it_did(error: Exception | None) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene, gate = Scene(), Gate()

        @scene.jobs.event("work")
        async def work(ctx: JobContext, params: Any) -> None:
            gate.steps.append("work")
            if error is not None:
                raise error

        scene.side.add("work")
        async with scene.pool(guard=gate):
            await scene.record.until("acked" if error is None else "nacked")
        assert gate.steps == ["in", "work", "out"]

    scenario()


def test_guard_that_fails_on_the_way_out_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()
        scene.jobs.event("work")(handle)
        scene.side.add("work")
        async with scene.pool(guard=Gate(fails_on_exit=True)):
            await scene.record.until("acked")

    scenario()
    assert any("guard" in entry.message for entry in caplog.records)


@in_virtual_time
async def test_context_extends_the_lease_and_says_when_it_is_lost() -> None:
    scene, seen = Scene(), list[Any]()

    @scene.jobs.event("work", lease=3)
    async def work(ctx: JobContext, params: Any) -> None:
        await ctx.extend(100)
        seen.append(scene.side.stored[ctx.job.id].due_at - now())
        scene.side.take_away(ctx.job.id)
        with pytest.raises(JobLost):
            await ctx.extend()
        seen.append(ctx.lease_lost.is_set())
        await ctx.lease_lost.wait()

    scene.side.add("work")
    async with scene.pool():
        await scene.record.until("lease_lost")
    assert seen == [100.0, True]


@in_virtual_time
async def test_extended_handler_may_block_the_loop_for_so_long() -> None:
    scene = Scene()

    @scene.jobs.event("work", lease=3)
    async def work(ctx: JobContext, params: Any) -> None:
        await ctx.extend(60)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualTimeLoop)
        loop.jump(50)
        await anyio.sleep(0.1)

    scene.side.add("work")
    async with scene.pool():
        await scene.record.until("acked")
    assert endings(scene.record) == ["acked"]


@in_virtual_time
async def test_context_is_over_when_the_job_is_settled() -> None:
    scene, contexts = Scene(), list[JobContext]()

    @scene.jobs.event("work")
    async def work(ctx: JobContext, params: Any) -> None:
        contexts.append(ctx)

    scene.side.add("work")
    async with scene.pool():
        await scene.record.until("acked")
    with pytest.raises(FairlaneError, match="settled"):
        await contexts[0].extend()


def test_lines_of_a_job_tell_which_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """A12.91, in what is logged; the context is an argument."""

    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()

        @scene.jobs.event("work")
        async def work(ctx: JobContext, params: Any) -> None:
            ctx.logger.warning("hello", extra={"step": 3})

        scene.side.add("work", id="a")
        async with scene.pool():
            await scene.record.until("acked")

    scenario()
    (entry,) = [each for each in caplog.records if each.message == "hello"]
    shown = entry.__dict__
    assert [shown[name] for name in ("job_id", "job_type", "attempt", "step")] == [
        "a",
        "work",
        1,
        3,
    ]


async def test_plain_handler_runs_in_a_thread_and_may_extend(scene: Scene) -> None:
    threads: list[int] = []

    @scene.jobs.event("work")
    def work(ctx: JobContext, params: Any) -> None:
        threads.append(threading.get_ident())
        from_thread.run(ctx.extend, 60)

    scene.side.add("work")
    async with scene.pool():
        await scene.record.until("acked")
    assert threads != [threading.get_ident()]
    assert scene.side.calls["extend"] == 1


@in_virtual_time
async def test_stopped_pool_gives_a_running_job_back_uncounted() -> None:
    scene = Scene()

    @scene.jobs.event("work", keep_history=60)
    async def work(ctx: JobContext, params: Any) -> None:
        await anyio.sleep_forever()

    key = scene.side.add("work")
    async with scene.pool(drain_timeout=1):
        await scene.record.until("claimed")
    assert endings(scene.record) == ["released"]
    assert (scene.side.job(key).attempts, scene.side.job(key).interrupted) == (0, 1)
    assert [row.outcome for row in scene.side.rows] == ["interrupted"]


@in_virtual_time
async def test_recurring_job_is_rescheduled_after_its_run() -> None:
    """A12.48."""
    scene, runs = Scene(), list[Any]()

    @scene.jobs.recurring("clean", every="1h")
    async def clean(ctx: JobContext) -> None:
        runs.append(ctx.scheduled_at)

    key = scene.side.add_recurring("clean", now())
    async with scene.pool():
        await scene.record.until("acked")
    assert len(runs) == 1
    assert scene.side.calls["reschedule"] == 1
    assert scene.side.job(key).state == "pending"


@in_virtual_time
async def test_recurring_job_is_retried_and_goes_on_with_its_next_run_in_the_end() -> None:
    """A12.30, A12.56 and A12.82: it never fails for good, and nobody hears of exhaustion."""
    scene, told = Scene(), list[Job]()

    @scene.jobs.recurring("clean", every="1h", max_attempts=2)
    async def clean(ctx: JobContext) -> None:
        raise ValueError("bad")

    key = scene.side.add_recurring("clean", now())
    async with scene.pool(on_exhausted=told.append):
        await scene.record.until("acked")
    assert endings(scene.record) == ["nacked", "acked"]
    assert (scene.side.job(key).state, scene.side.job(key).attempts) == ("pending", 0)
    assert scene.side.job(key).last_error == "ValueError: bad"
    assert told == []


@pytest.mark.parametrize("error", [Fail("no"), Reject("no"), Discard("no")])
def test_recurring_job_that_gives_up_goes_on_with_its_next_run(error: Exception) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()

        @scene.jobs.recurring("clean", every="1h")
        async def clean(ctx: JobContext) -> None:
            raise error

        key = scene.side.add_recurring("clean", now())
        async with scene.pool():
            await scene.record.until("acked")
        assert scene.side.job(key).state == "pending"

    scenario()


@in_virtual_time
async def test_run_whose_workers_all_died_is_left_for_the_next_one() -> None:
    scene, runs = Scene(), list[int]()
    scene.jobs.recurring("clean", every="1h")(lambda ctx: runs.append(1))
    key = scene.side.add_recurring("clean", now(), attempts=3)
    async with scene.pool():
        await scene.record.until("acked")
    assert runs == []
    assert scene.side.calls["reschedule"] == 1
    assert scene.side.job(key).state == "pending"


@pytest.mark.parametrize(
    ("misfire", "late", "number"), [("skip", 61, 0), ("skip", 59, 1), ("coalesce", 61, 1)]
)
def test_run_that_is_too_late_is_left_out_by_skip_alone(
    misfire: Any, late: int, number: int
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        scene, runs = Scene(), list[int]()

        @scene.jobs.recurring("clean", every="1h", misfire=misfire)
        async def clean(ctx: JobContext) -> None:
            runs.append(1)

        scene.side.add_recurring("clean", now() - late)
        async with scene.pool():
            await scene.record.until("acked")
        assert len(runs) == number

    scenario()


@in_virtual_time
async def test_record_of_a_recurring_job_that_is_an_event_job_by_now_fails() -> None:
    """C1.6: there it was claimed again and again, and nothing was written."""
    scene, told = Scene(), list[Job]()
    scene.jobs.event("clean")(handle)
    key = scene.side.add_recurring("clean", now())
    async with scene.pool(on_exhausted=told.append):
        await scene.record.until("dead_lettered")
    assert scene.side.job(key).state == "failed"
    assert told == []


@in_virtual_time
async def test_definitions_are_stored_before_the_first_claim_and_again_by_each_run() -> None:
    scene = Scene()
    scene.jobs.event("work")(handle)
    scene.side.opening_fails_with = [ConnectionError("server away")]
    pool = scene.pool(claimers=3)
    for _ in range(2):
        scene.side.add("work")
        async with pool:
            await scene.record.until("acked", times=len(scene.side.opened) + 1)
    assert scene.side.opened == [("work",), ("work",)]


@in_virtual_time
async def test_history_has_a_row_for_each_execution() -> None:
    """A12.76 and A12.77."""
    scene, left = Scene(), [ValueError("bad")]

    @scene.jobs.event("work", keep_history=60)
    async def work(ctx: JobContext, params: Any) -> int:
        await anyio.sleep(2)
        if left:
            raise left.pop()
        return 42

    key = scene.side.add("work")
    async with scene.pool(worker_id="w"):
        await scene.record.until("acked")
    shown = [
        (row.job_id, row.attempt, row.outcome, row.error, row.result) for row in scene.side.rows
    ]
    assert shown == [
        (key, 1, "retry", "ValueError: bad", None),
        (key, 2, "success", None, 42),
    ]
    assert [(row.worker_id, row.type, round(row.duration or 0)) for row in scene.side.rows] == [
        ("w", "work", 2)
    ] * 2


@in_virtual_time
async def test_history_tells_of_a_stale_execution() -> None:
    """A12.78 and A12.45."""
    scene = Scene()

    @scene.jobs.event("work", lease=3, keep_history=60)
    async def work(ctx: JobContext, params: Any) -> None:
        await anyio.sleep_forever()

    key = scene.side.add("work")
    async with scene.pool():
        await scene.record.until("claimed")
        scene.side.take_away(key)
        await scene.record.until("lease_lost")
    assert [row.outcome for row in scene.side.rows] == ["stale"]


@in_virtual_time
async def test_no_history_is_written_unless_it_is_asked_for() -> None:
    scene = Scene()
    await scene.outcome()
    assert scene.side.calls["record"] == 0


@in_virtual_time
async def test_event_tells_which_job_it_is_about() -> None:
    scene = Scene()
    await scene.outcome()
    event = scene.record.events[-1]
    assert (event.job_id, event.job_type, event.group_id) == ("work-0", "work", "")


BAD_POOLS: dict[str, dict[str, Any]] = {
    "visibility": {"visibility": 5},
    "max_attempts": {"max_attempts": 3},
    "min_priority": {"min_priority": 1},
    "guard": {"guard": "gate"},
    "on_exhausted": {"on_exhausted": lambda: None},
}


@pytest.mark.parametrize("name", BAD_POOLS)
async def test_argument_that_says_nothing_about_jobs_is_refused(scene: Scene, name: str) -> None:
    scene.jobs.event("work")(handle)
    with pytest.raises(ConfigurationError, match=f"^{name} "):
        scene.pool(**BAD_POOLS[name])


async def test_queue_needs_a_registry_that_is_not_empty(scene: Scene) -> None:
    with pytest.raises(ConfigurationError, match="no job is registered"):
        scene.pool()
    with pytest.raises(ConfigurationError, match="WorkerPool"):
        WorkerPool(scene.queue, handle)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="WorkerPool"):
        WorkerPool(object(), scene.jobs)  # type: ignore[arg-type]


def test_idle_pool_asks_once_for_each_poll_interval() -> None:
    """A12.4."""

    @in_virtual_time
    async def scenario() -> None:
        scene = Scene()
        scene.jobs.event("work")(handle)
        async with scene.pool(concurrency=20, poll_interval=1):
            await anyio.sleep(10)
        assert 8 <= scene.side.calls["claim"] <= 12

    scenario()


def test_failure_is_logged_with_its_job(caplog: pytest.LogCaptureFixture) -> None:
    @in_virtual_time
    async def scenario() -> None:
        await Scene().outcome(ValueError("bad"))

    with caplog.at_level(logging.ERROR):
        scenario()
    (entry,) = caplog.records
    assert "job work-0 of type 'work', attempt 1: ValueError: bad" in entry.message
    assert entry.__dict__["job_id"] == "work-0"


@in_virtual_time
async def test_pool_sees_to_it_that_its_recurring_jobs_are_there() -> None:
    """Somebody may have ended one, or an older program, which has it as an event job."""
    scene = Scene()

    @scene.jobs.recurring("clean", every="1h")
    async def _(ctx: JobContext) -> None:
        """Has nothing to do."""

    @scene.jobs.event("work")
    async def _(ctx: JobContext, params: Any) -> None:
        """Is no recurring job."""

    async with scene.pool():
        await anyio.sleep(200)
    assert scene.side.opened[0] == ("clean", "work")
    assert set(scene.side.opened[1:]) == {("clean",)}
