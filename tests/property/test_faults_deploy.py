"""Deploys lose and repeat nothing (47): pools on the real transport in memory, in virtual time."""

import random
from itertools import count
from typing import Any

import anyio

from fairlane import Lease, WorkerPool
from fairlane.worker import WorkerEvent
from property.deploys import Said, complaints
from property.pools import Pools, in_virtual_time, now, stepwise
from property.wire import Call, Step

WORKERS = 4
GROUPS = 16
EACH = 12
"""Messages of each group."""
BETWEEN = 2.0
DEADLINE = 1.0
"""Seconds, as of handlers, which take 0.1 to 3."""
VISIBILITY = 600.0
"""Longer than all takes: what is not given back is missed."""


class Deployment:
    """Workers, of which one after the other is replaced; it writes down what they say."""

    def __init__(self, pools: Pools) -> None:
        self.log: list[Said] = []
        self.seconds: dict[int, float] = {}
        self._pools = pools
        self._numbers = count()

    async def worker(self) -> WorkerPool[Any]:
        name = f"w{next(self._numbers)}"

        def say(what: str, of: Lease[Any] | WorkerEvent, interrupted: int = 0) -> None:
            self.log.append(
                Said(
                    what=what,
                    worker=name,
                    at=now(),
                    group=of.group_id,
                    seq=of.seq,
                    attempt=of.attempt,
                    interrupted=interrupted,
                )
            )

        async def handle(lease: Lease[Any]) -> None:
            say("began", lease)
            try:
                await anyio.sleep(lease.event)
            except BaseException:
                say("stopped", lease)
                raise
            say("finished", lease, lease.interrupted)

        return await self._pools.pool(
            handle,
            concurrency=GROUPS,
            visibility=VISIBILITY,
            drain_timeout=DEADLINE,
            poll_interval=0.1,
            on_event=lambda event: say(event.kind, event),
        )

    async def roll(self, group: Any, *, until: int) -> None:
        """Replace the oldest worker again and again, until so many messages are acknowledged."""
        workers = [await self.worker() for _ in range(WORKERS)]
        for each in workers:
            group.start_soon(each.run)
        while sum(said.what == "acked" for said in self.log) < until:
            await anyio.sleep(BETWEEN)
            workers.append(await self.worker())
            group.start_soon(workers[-1].run)
            workers.pop(0).stop()
        for each in workers:
            each.stop()


@in_virtual_time
async def test_rolling_deploys_lose_and_repeat_nothing() -> None:
    """As told: a worker every 2 s, handlers of 0.1 to 3 s, and 1 s to end in."""
    pools, chance = Pools(), random.Random(47)
    transport = await pools.transport()
    names = [f"g{number % GROUPS}" for number in range(GROUPS * EACH)]
    seqs = await transport.publish_many([(name, chance.uniform(0.1, 3.0)) for name in names])
    deployment = Deployment(pools)

    async with anyio.create_task_group() as group:
        await deployment.roll(group, until=len(names))

    published = list(zip(names, seqs, strict=True))
    assert complaints(deployment.log, published) == []
    assert await pools.locks() == []
    stopped = [said for said in deployment.log if said.what == "stopped"]
    assert stopped, "no handler was cut"
    assert waits_for_another(deployment.log) <= 1.0


def waits_for_another(log: list[Said]) -> float:
    """Return the longest time from a release to the next claim of the group."""
    longest, released = 0.0, dict[str, float]()
    for said in log:
        if said.what == "released":
            released[said.group] = said.at
        elif said.what == "claimed" and said.group in released:
            longest = max(longest, said.at - released.pop(said.group))
    assert released == {}
    return longest


class SlowReply:
    """Lets the reply of a claim be late, once."""

    def __init__(self) -> None:
        self.applied = anyio.Event()

    async def __call__(self, step: Step, call: Call) -> Any:
        answer = await stepwise(step, call)
        if str(step) == "locks.find_one_and_update" and answer and not self.applied.is_set():
            self.applied.set()
            await anyio.sleep(0.5)
        return answer


@in_virtual_time
async def test_message_of_a_claim_under_way_at_a_stop_is_anothers_within_a_second() -> None:
    pools, slow = Pools(), SlowReply()
    begun: list[tuple[str, float, int, int]] = []

    def handler(name: str) -> Any:
        async def handle(lease: Lease[Any]) -> None:
            begun.append((name, now(), lease.attempt, lease.interrupted))

        return handle

    options: dict[str, Any] = {"visibility": VISIBILITY, "poll_interval": 0.1, "concurrency": 1}
    one = await pools.pool(handler("one"), slow, **options)
    other = await pools.pool(handler("other"), **options)
    await (await pools.transport()).publish("g", 1)
    async with one:
        await slow.applied.wait()
        stopped_at = now()
    async with other:
        await pools.until("acked")

    ((name, begun_at, *counted),) = begun
    assert (name, counted) == ("other", [1, 0])
    assert begun_at - stopped_at < 1.0


@in_virtual_time
async def test_message_at_work_in_a_batch_is_interrupted_and_those_before_it_are_settled() -> None:
    pools = Pools()
    transport = await pools.transport()
    await transport.publish_many([("g", event) for event in "abc"])
    begun = anyio.Event()

    async def handle(lease: Lease[Any]) -> None:
        lease.done(lease.messages[0])
        begun.set()
        await anyio.sleep_forever()

    async with await pools.pool(handle, batch=3, drain_timeout=0):
        await begun.wait()

    lease = await transport.claim("another", batch=3)
    assert lease is not None
    assert [message.event for message in lease.messages] == ["b", "c"]
    assert (lease.attempt, lease.interrupted) == (1, 1)
