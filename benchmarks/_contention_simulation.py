"""Claimers drain ready documents from a server that resolves conflicts optimistically."""

import random
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from benchmarks._contention_engine import Engine, Process, Queue, Station

__all__ = ("Costs", "Outcome", "Workload", "estimate", "simulate")

T = TypeVar("T")
Steps: TypeAlias = Generator[tuple[Station, float], None, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Who claims what.

    Attributes:
        claimers: how many claim at once.
        depth: ready documents at the start, spread evenly.
        partitions: equal, separate index ranges.
        processes: client processes that the claimers are spread over.
        pool: connections of each process.
        reads_back: each claim is followed by a read of the claimed document.
        stays: a claimed document stays in the range, so that later claims walk past it.
        counts: rest after as many misses in a row as there are partitions, and not only after
            a miss of each one since the last claim.
        restarts: after a conflict a claim walks the range anew instead of going on from there.
    """

    claimers: int
    depth: int
    partitions: int
    processes: int = 1
    pool: int = 100
    reads_back: bool = True
    stays: bool = False
    counts: bool = False
    restarts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What things cost, in seconds; on the server of core time, which all its work shares.

    Attributes:
        cores: of the server.
        command: server time of each command before it looks at the data.
        walk: for each claimed document that is passed in the range.
        view: time after which a walk renews its view of the data.
        work: from the view to the write: others may change the document in between.
        write: from the write to the commit: others who want the document conflict.
        conflict: of giving up the write and the view, besides the back-off.
        client: time of the client process for each command; it does one thing at a time.
        round_trip: on the network, for each command.
    """

    cores: float
    command: float
    walk: float
    view: float
    work: float
    write: float
    conflict: float
    client: float
    round_trip: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What happened, until every claimer had found every partition empty.

    Attributes:
        seconds: until the last claimer rested.
        drained: until the last claim.
        conflicts, misses, commands: how many, in all.
        claims: how often each document was claimed; all ones, or the model is wrong.
    """

    seconds: float
    drained: float
    conflicts: int
    misses: int
    commands: int
    claims: bytes


_READY, _WRITTEN, _CLAIMED = range(3)


class _Partition:
    """An index range in order, and the first document that is not claimed."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.states = bytearray(size)
        self.claims = bytearray(size)
        self.first = 0

    def head(self, position: int) -> int:
        """Return where a view taken now shows the first ready document, or the size."""
        position = max(position, self.first)
        while position < self.size and self.states[position] == _CLAIMED:
            position += 1
        return position

    def commit(self, position: int) -> None:
        self.states[position] = _CLAIMED
        self.claims[position] += 1
        self.first = self.head(self.first)


class _Client:
    """A process: one thing at a time, and a bounded number of commands on their way."""

    def __init__(self, engine: Engine, pool: int) -> None:
        self._engine = engine
        self._free_at = 0.0
        self.pool = Queue(engine, pool)

    def delay(self, cost: float) -> float:
        """Take the next free stretch of the process's time; return the seconds to its end."""
        self._free_at = max(self._free_at, self._engine.now) + cost
        return self._free_at - self._engine.now


class _Simulation:
    def __init__(self, workload: Workload, costs: Costs, seed: int) -> None:
        self.workload = workload
        self.costs = costs
        self.walk = costs.walk if workload.stays else 0.0
        self.random = random.Random(seed)
        self.engine = Engine(costs.cores)
        count = workload.partitions
        self.partitions = [
            _Partition(len(range(number, workload.depth, count))) for number in range(count)
        ]
        self.clients = [_Client(self.engine, workload.pool) for _ in range(workload.processes)]
        self.drained = 0.0
        self.conflicts = self.misses = self.commands = 0

    def run(self) -> Outcome:
        for number in range(self.workload.claimers):
            client = self.clients[number % self.workload.processes]
            self.engine.ready.append(self._claimer(client))
        self.engine.run()
        return Outcome(
            seconds=self.engine.now,
            drained=self.drained,
            conflicts=self.conflicts,
            misses=self.misses,
            commands=self.commands,
            claims=b"".join(bytes(partition.claims) for partition in self.partitions),
        )

    def _claimer(self, client: _Client) -> Process:
        missed: list[int] = []
        for number in self._sweep():
            if (yield from self._attempt(client, self.partitions[number])):
                missed.clear()
                continue
            self.misses += 1
            missed.append(number)
            if self._may_rest(missed):
                return

    def _sweep(self) -> Iterator[int]:
        order = list(range(self.workload.partitions))
        while True:
            self.random.shuffle(order)
            yield from order

    def _may_rest(self, missed: list[int]) -> bool:
        partitions = self.workload.partitions
        if len(missed) < partitions or self.workload.counts:
            return len(missed) >= partitions
        return len(set(missed)) == partitions

    def _attempt(self, client: _Client, partition: _Partition) -> Steps[bool]:
        yield from self._send(client)
        is_claimed = yield from self._claim(partition)
        client.pool.leave()
        if is_claimed and self.workload.reads_back:
            yield from self._send(client)
            client.pool.leave()
        return is_claimed

    def _send(self, client: _Client) -> Steps[None]:
        self.commands += 1
        yield client.pool, 1
        wait = client.delay(self._about(self.costs.client)) + self.costs.round_trip
        yield self.engine.timer, wait
        yield self.engine.cores, self._about(self.costs.command)

    def _claim(self, partition: _Partition) -> Steps[bool]:
        position, in_a_row, loser = 0, 0, -1
        while True:
            head = yield from self._look(partition, position)
            if head == partition.size:
                return False
            if partition.states[head] == _READY:
                break
            in_a_row = in_a_row + 1 if head == loser else 1
            loser = head
            position = 0 if self.workload.restarts else head
            yield from self._back_off(in_a_row)
        partition.states[head] = _WRITTEN
        yield self.engine.cores, self._about(self.costs.write)
        partition.commit(head)
        self.drained = self.engine.now
        return True

    def _look(self, partition: _Partition, position: int) -> Steps[int]:
        """Walk to the first document that a view shows ready, renewing the view on the way."""
        costs, cores = self.costs, self.engine.cores
        while True:
            head = partition.head(position)
            walk = (head - position) * self.walk
            if walk <= (stretch := costs.view * cores.speed):
                break
            yield cores, stretch
            position += int(stretch / self.walk)
        yield cores, walk + self._about(costs.work)
        return head

    def _back_off(self, in_a_row: int) -> Steps[None]:
        self.conflicts += 1
        yield self.engine.cores, self._about(self.costs.conflict)
        if pause := _pause(in_a_row):
            yield self.engine.timer, pause

    def _about(self, cost: float) -> float:
        """Scatter a cost by a half, so that claimers do not march in step."""
        return cost * (0.5 + self.random.random())


def _pause(in_a_row: int) -> float:
    """Return the seconds that mongod sleeps after so many conflicts on one document."""
    if in_a_row < 4:
        return 0.0
    if in_a_row < 10:
        return 0.001
    return 0.005 if in_a_row < 100 else 0.01


def simulate(workload: Workload, costs: Costs, *, seed: int = 1) -> Outcome:
    """Drain the documents; the same arguments give the same outcome."""
    return _Simulation(workload, costs, seed).run()


def estimate(workload: Workload, costs: Costs, *, scale: int = 1, seed: int = 1) -> Outcome:
    """Simulate with a fraction of the documents, and scale the outcome up again.

    Walks keep their cost, because each of the fewer documents on the way costs more. The sweeps
    at the end depend on claimers and partitions only, so their time and misses stay as they are.
    """
    fewer = replace(workload, depth=max(1, workload.depth // scale))
    outcome = simulate(fewer, replace(costs, walk=costs.walk * scale), seed=seed)
    return replace(
        outcome,
        seconds=outcome.seconds + outcome.drained * (scale - 1),
        drained=outcome.drained * scale,
        conflicts=outcome.conflicts * scale,
        commands=(outcome.commands - outcome.misses) * scale + outcome.misses,
    )
