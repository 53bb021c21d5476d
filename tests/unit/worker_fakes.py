"""A source in memory, exact about leases, and an event loop in which waiting takes no time."""

import asyncio
import functools
import selectors
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from fairlane.errors import LeaseLost
from fairlane.model import Lease
from fairlane.shield import finish
from fairlane.worker import Order, Sleeper, WorkerEvent

T = TypeVar("T")


class JumpingSelector(selectors.DefaultSelector):
    now = 1_000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("every task of this test waits for something that cannot happen")
        self.now += max(timeout, 0.0)
        return []


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Whenever nothing is left to do, the clock jumps to the next timer."""

    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def jump(self, seconds: float) -> None:
        self._jumping.now += seconds


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in virtual time; it must leave no task behind."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def checked() -> None:
            await test(*args, **kwargs)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(checked())

    return run


@dataclass(kw_only=True)
class Group:
    messages: deque[tuple[int, Any]]
    available_at: float = 0.0
    token: str | None = None
    priority: int = 0
    attempts: int = 0
    epoch: int = 0


@dataclass(kw_only=True)
class Fault:
    """What one call does wrong: it raises before it does anything or afterwards, hangs, is slow.

    A shielded call that hangs does not end at once when it is cancelled, as the transport's do.
    """

    before: BaseException | None = None
    after: BaseException | None = None
    hangs: bool = False
    is_shielded: bool = False
    delay: float = 0.0


class FakeSource:
    """The verbs of the transport over dictionaries; time is the event loop's.

    Every call lets other tasks run before and after it does its work. `faults[verb]` are used up
    in order, one for each call; `always[verb]` stays.
    """

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.dead: list[tuple[int, str]] = []
        self.acked: list[int] = []
        self.errors: list[str | None] = []
        self.calls: Counter[str] = Counter()
        self.claimed_at: list[float] = []
        self.floors: list[int] = []
        self.faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self.always: dict[str, Fault] = {}
        self.orders: set[str] = set()
        self.concurrent_claims = 0
        self.most_concurrent_claims = 0
        self._seq = 0
        self._called = anyio.Event()

    async def until_called(self, verb: str, times: int) -> None:
        while self.calls[verb] < times:
            await self._called.wait()

    def publish(self, group_id: str, event: Any = None, priority: int = 0) -> int:
        self._seq += 1
        fresh = Group(messages=deque(), priority=priority, epoch=self._seq << 20)
        self.groups.setdefault(group_id, fresh).messages.append((self._seq, event))
        return self._seq

    @property
    def leased(self) -> list[str]:
        return [name for name, group in self.groups.items() if group.token is not None]

    @property
    def is_drained(self) -> bool:
        return not self.groups

    async def claim(
        self,
        worker_id: str,
        visibility: float = 30.0,
        min_priority: int = 0,
        *,
        order: Order = "fair",
    ) -> Lease[Any] | None:
        self.claimed_at.append(now())
        self.floors.append(min_priority)
        self.orders.add(order)
        self.concurrent_claims += 1
        self.most_concurrent_claims = max(self.most_concurrent_claims, self.concurrent_claims)
        claimed: list[Lease[Any] | None] = []
        try:
            return await self._call(
                "claim",
                lambda: claimed.append(self._lease(worker_id, visibility, min_priority, order)),
                lambda: claimed[0],
            )
        except BaseException:
            if claimed and claimed[0]:
                self._give_back(claimed[0])
            raise
        finally:
            self.concurrent_claims -= 1

    async def ack(self, lease: Lease[Any]) -> bool:
        return await self._settle("ack", lease, lambda group: self._done(lease, group))

    async def nack(
        self, lease: Lease[Any], delay: float = 0.0, *, error: str | None = None
    ) -> bool:
        def park(group: Group) -> None:
            group.available_at = now() + delay
            self.errors.append(error)

        return await self._settle("nack", lease, park)

    async def release(self, lease: Lease[Any]) -> bool:
        def free(group: Group) -> None:
            group.available_at = now()
            group.attempts -= 1

        return await self._settle("release", lease, free)

    async def dead_letter(self, lease: Lease[Any], reason: str) -> bool:
        def bury(group: Group) -> None:
            self.dead.append((lease.seq, reason))
            self._advance(lease, group)

        return await self._settle("dead_letter", lease, bury)

    async def extend(self, lease: Lease[Any], visibility: float = 30.0) -> Lease[Any]:
        def move() -> Lease[Any]:
            group = self._held(lease)
            if group is None:
                raise LeaseLost(lease.group_id, lease.seq, lease.epoch)
            group.available_at = now() + visibility
            return replace(lease, expires_at=group.available_at)

        moved: list[Lease[Any]] = []
        return await self._call("extend", lambda: moved.append(move()), lambda: moved[0])

    def take_away(self, group_id: str) -> None:
        """Do what another worker does that finds the lease expired."""
        self.groups[group_id].token = "other:1"

    async def _settle(self, verb: str, lease: Lease[Any], change: Callable[[Group], None]) -> bool:
        answers: list[bool] = []

        def apply() -> None:
            group = self._held(lease)
            answers.append(group is not None)
            if group is not None:
                group.token = None
                change(group)

        return await self._call(verb, apply, lambda: answers[0])

    async def _call(self, verb: str, work: Callable[[], None], answer: Callable[[], T]) -> T:
        self.calls[verb] += 1
        self._called.set()
        self._called = anyio.Event()
        faults = self.faults[verb]
        fault = faults.popleft() if faults else self.always.get(verb, Fault())
        await anyio.lowlevel.checkpoint()
        if fault.hangs:
            forever = anyio.sleep_forever()
            await (finish(forever) if fault.is_shielded else forever)
        if fault.delay:
            await anyio.sleep(fault.delay)
        if fault.before is not None:
            raise fault.before
        work()
        await anyio.lowlevel.checkpoint()
        if fault.after is not None:
            raise fault.after
        return answer()

    def _lease(
        self, worker_id: str, visibility: float, min_priority: int, order: Order
    ) -> Lease[Any] | None:
        due = [
            (name, group)
            for name, group in self.groups.items()
            if group.available_at <= now() and group.priority >= min_priority
        ]
        if not due:
            return None
        by_priority = (lambda group: -group.priority) if order == "priority" else (lambda _: 0)
        name, group = min(due, key=lambda item: (by_priority(item[1]), item[1].available_at))
        group.attempts += 1
        group.epoch += 1
        group.token = f"{worker_id}:{group.epoch}"
        group.available_at = now() + visibility
        seq, event = group.messages[0]
        return Lease(
            group_id=name,
            seq=seq,
            event=event,
            token=group.token,
            priority=group.priority,
            attempt=group.attempts,
            epoch=group.epoch,
            expires_at=group.available_at,
        )

    def _held(self, lease: Lease[Any]) -> Group | None:
        group = self.groups.get(lease.group_id)
        return group if group is not None and group.token == lease.token else None

    def _give_back(self, lease: Lease[Any]) -> None:
        group = self._held(lease)
        assert group is not None
        group.token, group.available_at = None, 0.0
        group.attempts -= 1

    def _done(self, lease: Lease[Any], group: Group) -> None:
        self.acked.append(lease.seq)
        self._advance(lease, group)

    def _advance(self, lease: Lease[Any], group: Group) -> None:
        group.messages.popleft()
        group.attempts, group.available_at = 0, now()
        if not group.messages:
            del self.groups[lease.group_id]


class ManySource(FakeSource):
    """Leases several groups at once, and notes for how many it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[int] = []
        self.most_leased = 0

    async def claim_many(
        self,
        worker_id: str,
        n: int,
        visibility: float = 30.0,
        min_priority: int = 0,
        *,
        order: Order = "fair",
    ) -> list[Lease[Any]]:
        claimed: list[Lease[Any]] = []

        def lease_all() -> None:
            while len(claimed) < n:
                lease = self._lease(worker_id, visibility, min_priority, order)
                if lease is None:
                    return
                claimed.append(lease)
                self.most_leased = max(self.most_leased, len(self.leased))

        self.asked.append(n)
        self.floors.append(min_priority)
        self.orders.add(order)
        self.concurrent_claims += 1
        self.most_concurrent_claims = max(self.most_concurrent_claims, self.concurrent_claims)
        try:
            return await self._call("claim_many", lease_all, lambda: claimed)
        except BaseException:
            for lease in claimed:
                self._give_back(lease)
            raise
        finally:
            self.concurrent_claims -= 1


class CountingSource(FakeSource):
    """Is told of each release whether it is an interruption, as the transport is.

    The reply of a claim may be slow: `reply_delay` seconds.
    """

    def __init__(self, *, reply_delay: float = 0.0) -> None:
        super().__init__()
        self.interrupted: list[bool] = []
        self._reply_delay = reply_delay

    async def claim(self, *arguments: Any, **options: Any) -> Lease[Any] | None:
        lease = await super().claim(*arguments, **options)
        if self._reply_delay:
            await anyio.sleep(self._reply_delay)
        return lease

    async def release(self, lease: Lease[Any], *, interrupted: bool = False) -> bool:
        self.interrupted.append(interrupted)
        return await super().release(lease)


class AnnouncingSource(FakeSource):
    """Tells of its publishes, as the transport does."""

    def __init__(self) -> None:
        super().__init__()
        self.subscribers: list[Callable[[], None]] = []

    def publish(self, group_id: str, event: Any = None, priority: int = 0) -> int:
        seq = super().publish(group_id, event, priority)
        for callback in self.subscribers:
            callback()
        return seq

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self.subscribers.append(callback)
        return lambda: self.subscribers.remove(callback)


class WatchedSource(FakeSource):
    """Tells of what becomes claimable, as a change stream does, while `is_watched`."""

    def __init__(self) -> None:
        super().__init__()
        self.sleepers: list[Sleeper] = []
        self.is_watched = True
        self.watches = 0
        self.watching_fails_with: deque[Exception] = deque()

    def publish(self, group_id: str, event: Any = None, priority: int = 0) -> int:
        seq = super().publish(group_id, event, priority)
        self.tell(0.0)
        return seq

    def park(self, group_id: str, delay: float, priority: int = 0) -> None:
        """Publish to a group that is due in so many seconds, and tell nobody."""
        super().publish(group_id, priority=priority)
        self.groups[group_id].available_at = now() + delay

    def tell(self, delay: float) -> None:
        for sleeper in self.sleepers if self.is_watched else ():
            sleeper.wake(delay)

    def set_watched(self, is_watched: bool) -> None:
        self.is_watched = is_watched
        for sleeper in self.sleepers:
            sleeper.watched(is_watched)

    async def watch(self, sleeper: Sleeper) -> None:
        self.watches += 1
        await anyio.lowlevel.checkpoint()
        if self.watching_fails_with:
            raise self.watching_fails_with.popleft()
        self.sleepers.append(sleeper)
        sleeper.watched(self.is_watched)
        try:
            await anyio.sleep_forever()
        finally:
            self.sleepers.remove(sleeper)


class ForeseeingSource(WatchedSource):
    """Knows besides when the next group is due; `looks` are the moments at which it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: list[float] = []

    async def next_due(self, min_priority: int = 0) -> float | None:
        self.looks.append(now())

        def due() -> float | None:
            times = [each.available_at for each in self.groups.values()]
            return max(0.0, min(times) - now()) if times else None

        found: list[float | None] = []
        return await self._call("next_due", lambda: found.append(due()), lambda: found[0])


class Record:
    """Listens to a pool, and wakes a test when something has happened."""

    def __init__(self) -> None:
        self.events: list[WorkerEvent] = []
        self._changed = anyio.Event()

    def __call__(self, event: WorkerEvent) -> None:
        self.events.append(event)
        self._changed.set()
        self._changed = anyio.Event()

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events]

    async def until(self, kind: str, times: int = 1) -> WorkerEvent:
        """Return the event that completes the count."""
        while self.kinds.count(kind) < times:
            await self._changed.wait()
        return [event for event in self.events if event.kind == kind][times - 1]


def now() -> float:
    return asyncio.get_running_loop().time()


def block(seconds: float) -> None:
    """Do what a blocking call does: time goes by, and no task runs meanwhile."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTimeLoop)
    loop.jump(seconds)


async def ticks(number: int) -> None:
    """Let every other task take this many steps."""
    for _ in range(number):
        await asyncio.sleep(0)


def nothing(*_: object) -> None:
    """A handler, or a listener, that has nothing to do."""


async def handled(*_: object) -> None:
    """A handler that succeeds at once."""


async def busy(*_: object) -> None:
    """A handler that never ends by itself."""
    await anyio.sleep_forever()


def raising(*errors: BaseException | None) -> Callable[[object], Awaitable[None]]:
    """Return a handler that raises these in turn; None, and the end of them, is success."""
    left = deque(errors)

    async def handle(_: object) -> None:
        error = left.popleft() if left else None
        if error is not None:
            raise error

    return handle
