"""The worker pool, as an application sees it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

import anyio

from fairlane import checks
from fairlane.checks import Seconds
from fairlane.errors import ConfigurationError
from fairlane.jobs import AsyncJobQueue, Jobs
from fairlane.model import E
from fairlane.retry import Backoff, RetryPolicy
from fairlane.worker import _signals
from fairlane.worker._calling import Handler
from fairlane.worker._health import Health, Vitals
from fairlane.worker._hooks import Guard, Hook
from fairlane.worker._jobs import JobHooks
from fairlane.worker._middleware import Middleware, checked_middleware
from fairlane.worker._run import Run
from fairlane.worker._settings import Settings
from fairlane.worker._sources import Parts, checked_parts, opener
from fairlane.worker._switch import Switch
from fairlane.worker.events import Listener, Reporter
from fairlane.worker.source import Order, Source

if TYPE_CHECKING:
    from anyio.abc import TaskGroup


__all__ = ("WorkerPool",)

BACKOFF = Backoff(base=1.0, cap=300.0)


class WorkerPool(Generic[E]):
    """Handle the messages of a source, many groups at once, each group by one handler at a time.

    A handler that returns has acknowledged its message. An exception delivers the message again
    after `backoff`, on the last attempt it moves the message to the dead letters. `Retry(delay)`
    does the same with a delay of the handler's choice; it counts as an attempt, and `Snooze(delay)`
    does not. `Reject(reason)` moves the message to the dead letters at once. One of these three
    that is returned counts as raised. Deliveries whose worker died count as well, and so does a
    handler that is cancelled, or cancels itself, while the pool is not.

    While a handler works its lease is renewed every third of `visibility`. If the lease is lost, or
    cannot be renewed until a sixth of it is left, the handler is cancelled before another worker
    can start, and nothing is settled. A plain function runs in a thread, which cannot be
    cancelled: then its result is discarded, and its slot stays taken until it returns. One that
    is still at work when the pool ends keeps its lease, which runs out by itself: given back, the
    group would have two holders.

    Leases are renewed in a thread of its own, through a client that is copied from the source's: a
    handler that blocks the event loop, or uses up the connections, loses none. The log says which
    one blocks. Where a source cannot be copied (a `Source` of your own without `separate`, an
    in-process fake) the renewals share the event loop with the handlers.

    Example:
        ```python
        async def handle(lease: Lease) -> None:
            print(lease.group_id, lease.event)

        await WorkerPool(transport, handle, concurrency=50).run()
        ```

    With an `AsyncJobQueue` and a `Jobs` registry instead it runs jobs, of the registered types and
    of no others: `WorkerPool(queue, jobs, concurrency=32)`. Lease, attempts, back-off and priority
    are those of each type and job; the arguments for messages must be left out.

    Args:
        source: where leases come from: an `AsyncMongoTransport`, any `Source`, or an
            `AsyncJobQueue`.
        handler: `async def handle(lease)`, or `def handle(lease)`, which runs in a thread;
            for a queue of jobs a `Jobs` registry. An argument annotated as `Lease[Order]`, with
            a dataclass or a model of pydantic or msgspec, gets events that are made such; one that
            cannot be moves its message to the dead letters.
        concurrency: how many handlers work at once (10). Nothing is claimed without a free one.
        claimers: how many claims may be under way at once; they share the slots. One, which leases
            groups for all free slots together, is right unless claims take longer than handlers.
        worker_id: names this pool in lease tokens; made of host and process if not given.
        visibility: seconds after which somebody else gets the message when this process dies.
        min_priority: leave groups below this priority (0 to 4) alone.
        order: "fair" serves the group that waits longest; "priority" serves higher priorities
            first and falls back to lower ones when there are none.
        batch: messages of one group that a handler gets together at most, in order:
            `lease.messages`. Returning acknowledges all; see `Lease.done` for what a failure does.
        max_attempts: deliveries of one message before it moves to the dead letters.
        backoff: a `Backoff`, which says when a failed message is delivered again, or a dict of them
            by exception type, in which None means the dead letters at once.
        poll_interval: seconds between two looks for work when there is none (up to a fifth
            longer). Publishes through the same source, and handlers that end, are seen at once, and
            so is what others publish while a change stream tells of it: then a pool of a transport
            looks less and less often, each ten seconds or ten intervals at least.
        drain_timeout: seconds that running handlers may still take after `stop()`. Those left are
            cancelled (a thread is left alone) and their leases given back: that is counted as
            `Lease.interrupted` or `Job.interrupted`, and not as an attempt.
        signals: let SIGINT and SIGTERM call `stop()`; a second one cancels the handlers.
        on_event: called in the event loop with a `WorkerEvent` for each thing that happens.
        middleware: each an `async def middleware(work, call_next)` around every handler, the first
            one outermost; `work` is the `Lease`, or the `JobContext`. See `Middleware`.
        guard: of jobs: `guard(job)` returns an async context manager in which the handler runs. If
            it cannot be entered, the job is given back for a second or `poll_interval`, whichever
            is longer, and no attempt is counted.
        on_exhausted: of jobs: `on_exhausted(job)` hears of each that failed because its attempts
            were used up, also where a claim of this pool finds it so (`reclaim_stale` tells
            nobody). Its errors are logged.
        lanes: of transports: slots by floor. `{3: 8, 0: 24}` are 24 slots for all groups, and 8
            beside them for groups of priority 3 or more, which get free ones of those as well, in
            turn. They say what `concurrency` and `min_priority` are.

    Raises:
        ConfigurationError: an argument is not allowed.
    """

    def __init__(
        self,
        source: Source[E] | AsyncJobQueue | Parts,
        handler: Handler[Any] | Jobs,
        *,
        concurrency: int | None = None,
        claimers: int = 1,
        worker_id: str | None = None,
        visibility: Seconds = 30.0,
        min_priority: int = 0,
        order: Order = "fair",
        lanes: Mapping[int, int] | None = None,
        batch: int = 1,
        max_attempts: int = 5,
        backoff: RetryPolicy = BACKOFF,
        poll_interval: Seconds = 1.0,
        drain_timeout: Seconds = 30.0,
        signals: bool = False,
        on_event: Listener | None = None,
        middleware: Sequence[Middleware] = (),
        guard: Guard | None = None,
        on_exhausted: Hook | None = None,
    ) -> None:
        self._settings = Settings.checked(
            concurrency=concurrency,
            lanes=lanes,
            claimers=claimers,
            worker_id=worker_id,
            visibility=visibility,
            min_priority=min_priority,
            order=order,
            batch=batch,
            max_attempts=max_attempts,
            backoff=backoff,
            poll_interval=poll_interval,
            drain_timeout=drain_timeout,
            signals=signals,
        )
        hooks = JobHooks(
            guard=checks.optional_function("guard", guard, "job"),
            on_exhausted=checks.optional_function("on_exhausted", on_exhausted, "job"),
        )
        around = checked_middleware(middleware)
        self._open_source = opener(source, handler, self._settings, hooks, around)
        self._report = Reporter(_checked_listener(on_event), self._settings.worker_id)
        self._vitals = Vitals(poll_interval=self._settings.poll_interval)
        self._stop = Switch()
        self._cut = Switch()
        self._ended: anyio.Event | None = None
        self._background: TaskGroup | None = None
        self._entered = 0

    @classmethod
    def together(
        cls, *parts: tuple[Any, Any], shares: Sequence[float] | None = None, **options: Any
    ) -> "WorkerPool[Any]":
        """Return a pool that serves several sources, which share its slots.

        Each is given with its handlers: `together((transport, handle), (queue, jobs))`. While all
        have work they hold as many slots as `shares` say, such as `(3, 1)`, or equally many; one
        without work lends its own. Options are those of the class.
        """
        return WorkerPool(checked_parts(parts, shares), cls._no_handler, **options)

    @staticmethod
    def _no_handler(_: Any) -> None:
        """Stand for the handlers that come with the parts."""

    @property
    def worker_id(self) -> str:
        return self._settings.worker_id

    @property
    def signals(self) -> bool:
        """Whether SIGINT and SIGTERM stop the pool by its own handlers."""
        return self._settings.signals

    @property
    def drain_timeout(self) -> float:
        """Seconds that running handlers may still take after `stop()`."""
        return self._settings.drain_timeout

    @property
    def health(self) -> Health:
        """How the pool is doing now; safe to read from any thread."""
        return self._vitals.snapshot()

    async def run(self) -> None:
        """Work until `stop()`; the pool may be run again afterwards.

        Returns when all is settled or given back: `drain_timeout` after `stop()`, plus the time of
        the last settlements: at most six seconds with an `AsyncMongoTransport` whose server does
        not answer. Errors of the source do not end it: see `health`. Run while it runs already, it
        waits for the same end. Cancelled, it cancels the handlers and gives their leases back
        first, which are counted as `interrupted`.

        Raises:
            ConfigurationError: the source says that its settings are wrong.
            pymongo.errors.OperationFailure: the server refused the login at the start.
            FairlaneError: something outside has cancelled a task of the pool, but not `run()`.
        """
        if self._ended is not None:
            await self._ended.wait()
            return
        with self._life():
            run = Run(
                self._open_source(),
                self._settings,
                vitals=self._vitals,
                report=self._report,
            )
            await run.live(self._stop, self._cut)

    def stop(self) -> None:
        """Begin to drain: claim no more, let running handlers end.

        Safe at any time, from any thread and from signal handlers; a second call changes nothing.
        Called before `run()`, it lets the next `run()` return at once.
        """
        self._stop.throw()

    async def __aenter__(self) -> Self:
        """Run in the background. A `run()` that fails cancels the body and raises at its end."""
        self._entered += 1
        if self._entered == 1:
            self._background = await anyio.create_task_group().__aenter__()
            self._background.start_soon(self.run)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Drain; when the body was cancelled, cancel the handlers at once."""
        self._entered -= 1
        background = self._background
        if self._entered or background is None:
            return
        self._background = None
        self.stop()
        try:
            if isinstance(error, asyncio.CancelledError):
                await background.__aexit__(kind, error, traceback)
            else:  # told of the error, the group would cancel the handlers instead of draining
                await background.__aexit__(None, None, None)
        except BaseExceptionGroup as group:
            raise _only(group) from None
        finally:
            self._stop.reset()

    @contextmanager
    def _life(self) -> Iterator[None]:
        self._ended = ended = anyio.Event()
        self._vitals.start()
        try:
            with _signals.handled(self._signalled) if self._settings.signals else nullcontext():
                yield
        finally:
            self._vitals.stop()
            self._ended = None
            ended.set()

    def _signalled(self) -> None:
        (self._cut if self._stop.is_on else self._stop).throw()


def _checked_listener(listener: Listener | None) -> Listener | None:
    if listener is None:
        return None
    if not callable(listener) or checks.is_async(listener):
        raise ConfigurationError("on_event must be a plain function of one WorkerEvent")
    return listener


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return what went wrong, without the wrapping of the task group if it is one thing."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
