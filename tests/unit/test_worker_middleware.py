"""Middleware stands around every handler, and what it does counts as if the handler had done it."""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio
import pytest
from batch_fakes import BatchSource
from job_fakes import FakeQueue, Scene, endings
from worker_fakes import FakeSource, Record, busy, handled, in_virtual_time, nothing, raising

from fairlane import Fail, Job, JobContext, Jobs
from fairlane.errors import ConfigurationError
from fairlane.model import Lease
from fairlane.retry import Backoff, Reject, Retry, Snooze
from fairlane.worker import CallNext, Middleware, WorkerPool, current_job, current_lease

EXACT = Backoff(base=10.0, jitter=0.0)
user: ContextVar[str] = ContextVar("user", default="nobody")


class Steps:
    """Middleware that notes its turns, among those of others."""

    def __init__(self, name: str, steps: list[str]) -> None:
        self.name = name
        self.steps = steps

    async def __call__(self, work: Any, call_next: CallNext) -> Any:
        self.steps.append(f"into {self.name}")
        try:
            return await call_next(work)
        finally:
            self.steps.append(f"out of {self.name}")


async def skip(work: Any, call_next: CallNext) -> None:
    """Do not call the handler."""


async def passing(work: Any, call_next: CallNext) -> Any:
    return await call_next(work)


async def worked_off(
    handler: Callable[..., Any], *middleware: Middleware, until: str = "acked", **options: Any
) -> tuple[FakeSource, list[str]]:
    source, record = FakeSource(), Record()
    source.publish("g", "event")
    settings: dict[str, Any] = {"backoff": EXACT, "on_event": record, **options}
    async with WorkerPool(source, handler, middleware=middleware, **settings):
        await record.until(until)
    return source, record.kinds


@in_virtual_time
async def test_first_middleware_is_the_outermost() -> None:
    steps: list[str] = []

    async def handle(_: Lease[Any]) -> None:
        steps.append("handler")

    await worked_off(handle, Steps("first", steps), Steps("second", steps))
    assert steps == ["into first", "into second", "handler", "out of second", "out of first"]


@in_virtual_time
async def test_middleware_that_does_not_call_the_handler_acks() -> None:
    calls: list[Any] = []
    _, kinds = await worked_off(calls.append, skip)
    assert (kinds, calls) == (["claimed", "acked"], [])


@pytest.mark.parametrize(
    ("error", "ending"),
    [
        (ValueError("bad"), "nacked"),
        (Retry(5), "nacked"),
        (Snooze(0), "released"),
        (Reject("no"), "dead_lettered"),
        (SystemExit(), "nacked"),
    ],
)
@pytest.mark.parametrize("is_before", [True, False])
def test_error_of_a_middleware_is_handled_like_one_of_the_handler(
    error: BaseException, ending: str, is_before: bool
) -> None:
    async def fail(work: Any, call_next: CallNext) -> None:
        if not is_before:
            await call_next(work)
        raise error

    @in_virtual_time
    async def scenario() -> None:
        source, kinds = await worked_off(handled, passing, fail, until=ending)
        assert kinds[:3] == ["claimed", "handler_failed", ending]
        assert source.errors[:1] in (
            [],
            ["ValueError: bad"],
            ["Retry: retry in 5 s"],
            ["SystemExit"],
        )

    scenario()


@pytest.mark.parametrize("answer", [Reject("no"), Reject])
def test_answer_that_is_returned_counts_as_raised_further_out_too(answer: Any) -> None:
    seen: list[Exception] = []

    async def see(work: Any, call_next: CallNext) -> None:
        try:
            await call_next(work)
        except Reject as error:
            seen.append(error)
            raise

    async def returning(work: Any, call_next: CallNext | None = None) -> Any:
        return answer

    @in_virtual_time
    async def scenario() -> None:
        await worked_off(handled, see, returning, until="dead_lettered")  # of a middleware
        await worked_off(returning, see, until="dead_lettered")  # of the handler
        assert len(seen) == 2

    scenario()


@in_virtual_time
async def test_middleware_may_catch_an_error_of_the_handler() -> None:
    async def lenient(work: Any, call_next: CallNext) -> None:
        with contextlib.suppress(ValueError):
            await call_next(work)

    _, kinds = await worked_off(raising(ValueError("bad")), lenient)
    assert kinds == ["claimed", "acked"]


@dataclass
class Order:
    kind: str


async def as_order(work: Lease[Any], call_next: CallNext) -> None:
    await call_next(replace(work, event={"kind": work.event}))


@in_virtual_time
async def test_event_may_be_replaced_before_it_is_converted() -> None:
    got: list[Any] = []

    async def handle(lease: Lease[Order]) -> None:
        got.append((lease.event, lease.lost.is_set()))

    source, _ = await worked_off(handle, as_order)
    assert got == [(Order("event"), False)]
    assert source.is_drained


@in_virtual_time
async def test_all_but_the_event_is_that_of_the_pools_own_lease() -> None:
    tokens: list[str] = []

    async def handle(lease: Lease[Any]) -> None:
        tokens.append(lease.token)

    async def forge(work: Lease[Any], call_next: CallNext) -> None:
        tokens.append(work.token)
        await call_next(replace(work, token="other"))

    source, _ = await worked_off(handle, forge)
    assert tokens[0] == tokens[1]
    assert source.acked == [1]


async def _batch(middleware: Middleware, handler: Callable[..., Any]) -> BatchSource:
    source, record = BatchSource(), Record()
    async with WorkerPool(source, handler, batch=4, on_event=record, middleware=[middleware]):
        while not endings(record):  # noqa: ASYNC110
            await anyio.sleep(1)
    return source


@in_virtual_time
async def test_replaced_event_is_that_of_the_first_message() -> None:
    got: list[Any] = []

    async def handle(lease: Lease[Any]) -> None:
        got.extend((lease.event, [each.event for each in lease.messages]))

    async def first(work: Lease[Any], call_next: CallNext) -> None:
        await call_next(replace(work, event="new"))

    async def all_of_them(work: Lease[Any], call_next: CallNext) -> None:
        messages = tuple(replace(each, event=each.event + "!") for each in work.messages)
        await call_next(replace(work, messages=messages))

    await _batch(first, handle)
    await _batch(all_of_them, handle)
    assert got == ["new", ["new", "e2", "e3", "e4"], "e1!", ["e1!", "e2!", "e3!", "e4!"]]


@in_virtual_time
async def test_lease_of_other_messages_is_refused() -> None:
    async def fewer(work: Lease[Any], call_next: CallNext) -> None:
        await call_next(replace(work, messages=work.messages[1:]))

    assert (await _batch(fewer, handled)).settled == [("nack", 0)]


@in_virtual_time
async def test_what_is_no_lease_is_refused() -> None:
    async def wrong(work: Lease[Any], call_next: CallNext) -> None:
        await call_next(work.event)

    source, _ = await worked_off(handled, wrong, until="nacked")
    assert source.errors == ["FairlaneError: call_next takes a Lease, not 'event'"]


async def twice(work: Any, call_next: CallNext) -> None:
    await call_next(work)
    await call_next(work)


async def forget_to_wait(work: Any, call_next: CallNext) -> None:
    call_next(work)  # type: ignore[unused-coroutine, unused-ignore]


async def leave_behind(work: Any, call_next: CallNext) -> None:
    left.append(asyncio.ensure_future(call_next(work)))
    await anyio.sleep(1)


left: list[asyncio.Future[Any]] = []


@pytest.mark.parametrize(
    ("middleware", "problem"),
    [(twice, "once"), (forget_to_wait, "must await"), (leave_behind, "must await")],
)
def test_call_that_is_not_waited_for_has_failed(middleware: Middleware, problem: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        handler = busy if middleware is leave_behind else handled
        source, kinds = await worked_off(handler, middleware, until="nacked")
        assert kinds == ["claimed", "handler_failed", "nacked"]
        assert problem in (source.errors[0] or "")
        for each in left:
            each.cancel()
        await asyncio.wait(left) if left else None
        left.clear()

    scenario()


async def swallow(work: Any, call_next: CallNext) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await call_next(work)


async def wait_long_in_a_task(work: Any, call_next: CallNext) -> None:
    with contextlib.suppress(TimeoutError, asyncio.CancelledError):
        await asyncio.wait_for(asyncio.create_task(call_next(work)), 100)


async def swallow_later(work: Any, call_next: CallNext) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await call_next(work)
        await asyncio.sleep(0)


async def swallow_before(work: Any, call_next: CallNext) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await anyio.sleep_forever()


@pytest.mark.parametrize("middleware", [passing, swallow, swallow_before, wait_long_in_a_task])
def test_work_that_a_shutdown_cancels_is_given_back_whatever_middleware_swallows(
    middleware: Middleware,
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, kinds = await worked_off(
            busy, passing, middleware, until="claimed", drain_timeout=1
        )
        assert kinds == ["claimed", "released"]
        assert source.groups["g"].attempts == 0

    scenario()


@pytest.mark.parametrize("middleware", [passing, swallow])
def test_lost_lease_is_not_settled_whatever_middleware_swallows(middleware: Middleware) -> None:
    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        source.publish("g")
        async with WorkerPool(source, busy, on_event=record, middleware=[middleware]):
            await record.until("claimed")
            source.take_away("g")
            await record.until("lease_lost")
            source.groups.clear()
        assert record.kinds == ["claimed", "lease_lost"]

    scenario()


async def cancel_itself(_: Lease[Any]) -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def cancel_itself_and_wait(lease: Lease[Any]) -> None:
    await cancel_itself(lease)
    await anyio.sleep(1)


async def wait_in_a_task(work: Any, call_next: CallNext) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.create_task(call_next(work)), 1)


async def give_up_waiting(work: Any, call_next: CallNext) -> None:
    with anyio.move_on_after(1):
        await call_next(work)


@pytest.mark.parametrize(
    ("handler", "middleware"),
    [
        (cancel_itself, swallow),
        (cancel_itself, swallow_later),
        (cancel_itself_and_wait, swallow),
        (cancel_itself, passing),
        (busy, give_up_waiting),
        (busy, wait_in_a_task),
    ],
)
def test_handler_that_was_cancelled_has_failed_though_middleware_returns(
    handler: Callable[..., Any], middleware: Middleware
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        _, kinds = await worked_off(handler, middleware, until="nacked")
        assert kinds == ["claimed", "handler_failed", "nacked"]

    scenario()


async def test_handler_in_a_thread_sees_what_middleware_has_set() -> None:
    """The middleware itself runs in the event loop."""
    seen: list[Any] = []

    async def log_in(work: Lease[Any], call_next: CallNext) -> None:
        user.set(f"user of {work.event}")
        seen.append(threading.current_thread() is threading.main_thread())
        await call_next(work)

    def handle(lease: Lease[Any]) -> None:
        seen.extend([user.get(), current_lease() is lease, threading.current_thread().name])

    await worked_off(handle, log_in)
    assert seen[:3] == [True, "user of event", True]
    assert seen[3] != threading.main_thread().name


@pytest.mark.parametrize("concurrency", [1, 4])
def test_what_middleware_sets_does_not_leak_to_other_messages(concurrency: int) -> None:
    seen: list[str] = []

    async def log_in(work: Lease[Any], call_next: CallNext) -> None:
        seen.append(user.get())
        user.set("somebody")
        await call_next(work)

    @in_virtual_time
    async def scenario() -> None:
        source, record = FakeSource(), Record()
        for number in range(8):
            source.publish(f"g{number % 4}")
        async with WorkerPool(
            source, handled, concurrency=concurrency, on_event=record, middleware=[log_in]
        ):
            await record.until("acked", times=8)
        assert seen == ["nobody"] * 8

    scenario()


@in_virtual_time
async def test_current_lease_is_known_to_handler_and_middleware_and_nowhere_else() -> None:
    seen: list[Any] = []

    async def see(work: Lease[Any], call_next: CallNext) -> None:
        seen.append(current_lease() is work)
        await call_next(work)
        seen.append(current_lease() is work)

    async def handle(lease: Lease[Order]) -> None:
        seen.append(current_lease() is lease)
        seen.append((await asyncio.create_task(_current_event()), current_job()))

    await worked_off(handle, see, as_order)
    assert seen == [True, True, (Order("event"), None), True]
    assert current_lease() is None


async def _current_event() -> Any:
    lease = current_lease()
    return lease and lease.event


async def of_one(work: Any) -> None: ...


def plain(work: Any, call_next: CallNext) -> None: ...


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (passing, "middleware must be a list of functions"),
        ("passing", "middleware must be a list of functions"),
        (None, "middleware must be a list of functions"),
        (["passing"], r"middleware\[0\] must be a function, not 'passing'"),
        ([passing, plain], r"middleware\[1\] must be an `async def`"),
        ([of_one], r"middleware\[0\] must be callable as .*\(work, call_next\)"),
        ([Steps], r"middleware\[0\] must be a function: make an instance of Steps"),
    ],
)
def test_what_is_no_middleware_is_refused_at_once(value: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        WorkerPool(FakeSource(), handled, middleware=value)


@pytest.mark.parametrize("value", [(), [passing], (Steps("s", []), partial(passing)), [skip, skip]])
def test_functions_and_objects_that_are_called_may_be_middleware(value: Any) -> None:
    assert WorkerPool(FakeSource(), nothing, middleware=value).health.state == "stopped"


class Gate:
    def __init__(self, steps: list[str]) -> None:
        self.steps = steps

    def __call__(self, job: Job) -> Any:
        return self._inside()

    @contextlib.asynccontextmanager
    async def _inside(self) -> Any:
        self.steps.append("into the guard" if current_job() else "unknown job")
        try:
            yield
        finally:
            self.steps.append("out of the guard")


async def _job(
    handler: Callable[..., Awaitable[Any]] | Callable[..., Any],
    *middleware: Middleware,
    keep: float | None = None,
    payload: Any = None,
    **options: Any,
) -> Scene:
    scene = Scene()
    scene.jobs.event("work", keep_history=keep)(handler)
    scene.side.add("work", payload)
    async with scene.pool(middleware=middleware, **options):
        while not endings(scene.record):  # noqa: ASYNC110
            await anyio.sleep(0.1)
    return scene


@in_virtual_time
async def test_guard_of_a_job_stands_around_its_middleware() -> None:
    steps: list[str] = []

    async def handle(ctx: JobContext, params: Any) -> None:
        steps.append("handler" if current_job() is ctx and current_lease() is None else "unknown")

    await _job(handle, Steps("middleware", steps), guard=Gate(steps))
    assert steps == [
        *("into the guard", "into middleware", "handler"),
        *("out of middleware", "out of the guard"),
    ]


@in_virtual_time
async def test_middleware_of_a_job_gets_its_context_and_hands_its_result_on() -> None:
    got: list[Any] = []

    async def see(work: JobContext, call_next: CallNext) -> Any:
        got.append(work.job.payload)
        return await call_next(work)

    async def handle(ctx: JobContext, params: Any) -> str:
        return "result"

    scene = await _job(handle, see, keep=60, payload=7)
    assert got == [7]
    assert scene.side.rows[-1].result == "result"


@in_virtual_time
async def test_error_of_a_middleware_fails_its_job() -> None:
    async def refuse(work: JobContext, call_next: CallNext) -> Any:
        return Fail("closed")

    scene = await _job(handled, refuse)
    assert scene.side.job("work-0").last_error == "closed"


@in_virtual_time
async def test_what_is_no_context_is_refused() -> None:
    async def wrong(work: JobContext, call_next: CallNext) -> None:
        await call_next(work.job)

    scene = await _job(handled, wrong)
    assert "call_next takes the JobContext" in (scene.side.job("work-0").last_error or "")


async def test_job_in_a_thread_knows_itself() -> None:
    seen: list[bool] = []
    await _job(lambda ctx, params: seen.append(current_job() is ctx), passing, guard=Gate([]))
    assert seen == [True]


@in_virtual_time
async def test_middleware_stands_around_all_parts_of_a_pool() -> None:
    source, queue, jobs, record, seen = FakeSource(), FakeQueue(), Jobs(), Record(), list[str]()
    source.publish("g")
    jobs.event("work")(handled)
    queue.side.add("work")

    async def see(work: Lease[Any] | JobContext, call_next: CallNext) -> None:
        seen.append(type(work).__name__)
        await call_next(work)

    parts = ((source, handled), (queue, jobs))
    async with WorkerPool.together(*parts, middleware=[see], on_event=record):
        await record.until("acked", times=2)
    assert sorted(seen) == ["JobContext", "Lease"]
