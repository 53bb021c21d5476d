"""A claimer of many looks on until it has enough, and rests only when nothing is due anywhere."""

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mongomock_motor import AsyncMongoMockClient
from pymongo.errors import AutoReconnect

from fairlane import AsyncMongoTransport, Lease
from fairlane.driver import Driver
from fairlane.lease import batch, commands
from fairlane.lease.batch import WIDEST, Appetite, Spread, Wanted
from fairlane.lease.sweep import Sweep
from fairlane.testing import ManualClock

Transport = AsyncMongoTransport[Any]
Document = dict[str, Any]

# mongomock still calls datetime.utcnow().
pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utc:DeprecationWarning")

NOW = 1_000.0
WANTED = Wanted(now=NOW, until=NOW + 30, sort=commands.order_by("fair"), among={})


class Shelves:
    """A collection that answers a look: so many documents are due in each partition."""

    def __init__(self, layout: Sequence[int]) -> None:
        self._layout = layout
        self.looks: list[tuple[list[int], int]] = []

    async def look(self, match: Document, *, limit: int, **_: Any) -> list[Document]:
        where = match["partition"]
        partitions = where["$in"] if isinstance(where, dict) else [where]
        self.looks.append((partitions, limit))
        due = [(p, n) for n in range(max(self._layout)) for p in partitions if n < self._layout[p]]
        return [{"_id": key} for key in due[:limit]]


def candidates(layout: Sequence[int], n: int, *, seed: int = 7) -> tuple[list[Any], Shelves]:
    shelves = Shelves(layout)
    looks = Sweep(len(layout), rng=random.Random(seed)).looks()
    return asyncio.run(batch.candidates(shelves.look, WANTED, looks, n, Spread())), shelves


@given(
    layout=st.lists(st.integers(0, 5), min_size=1, max_size=80),
    n=st.integers(1, 100),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=300, deadline=None)
def test_candidates_are_as_many_as_are_wanted_if_so_many_are_due(
    layout: list[int], n: int, seed: int
) -> None:
    """Statement 60: wherever they are."""
    found, shelves = candidates(layout, n, seed=seed)
    assert len(found) == len(set(found)) == min(n, sum(layout))
    looked = [partition for partitions, _ in shelves.looks for partition in partitions]
    assert len(looked) == len(set(looked))
    if len(found) < n:
        assert sorted(looked) == list(range(len(layout)))


def test_no_look_follows_when_there_are_enough() -> None:
    _, shelves = candidates([5] * 4, 5)
    assert len(shelves.looks) == 1


def test_later_looks_are_for_what_is_missing() -> None:
    _, shelves = candidates([2] * 40, 100)
    assert [limit for _, limit in shelves.looks] == [100, 98, 34]
    assert [len(partitions) for partitions, _ in shelves.looks] == [1, 32, 7]


def test_nothing_due_is_found_by_a_look_into_all() -> None:
    found, shelves = candidates([0] * 40, 3)
    assert found == []
    assert sum(len(partitions) for partitions, _ in shelves.looks) == 40


# Leases of plain documents


@pytest.fixture
async def shelf() -> Any:
    """A collection with five due documents."""
    collection = Driver(AsyncMongoMockClient()).collection("db", "jobs")
    await collection.insert(
        [
            {"_id": n, "available_at": 0.0, "token": None, "attempts": 0, "epoch": 0}
            for n in range(5)
        ]
    )
    return collection


def reading(collection: Any) -> batch.ReadAll:
    async def read(match: Document) -> list[Document]:
        found: list[Document] = await collection.find(match, sort=[("_id", -1)], limit=0)
        return found

    return read


BIDS = {3: "w:3", 1: "w:1", 4: "w:4"}


async def test_leased_documents_come_in_the_order_of_their_bids(shelf: Any) -> None:
    leased = await batch.lease_all(shelf, WANTED, BIDS, read_back=reading(shelf))
    assert [row["_id"] for row in leased] == [3, 1, 4]
    assert [(row["token"], row["attempts"], row["epoch"]) for row in leased] == [
        ("w:3", 1, 1),
        ("w:1", 1, 1),
        ("w:4", 1, 1),
    ]
    assert {row["available_at"] for row in leased} == {NOW + 30}


async def test_bid_for_what_another_one_has_leased_is_lost(shelf: Any) -> None:
    rival = {1: "rival:1"}
    await batch.lease_all(shelf, WANTED, rival, read_back=reading(shelf))
    leased = await batch.lease_all(shelf, WANTED, BIDS, read_back=reading(shelf))
    assert [row["_id"] for row in leased] == [3, 4]
    lost = await shelf.find_one({"_id": 1})
    assert (lost["token"], lost["attempts"]) == ("rival:1", 1)


async def test_nothing_is_read_when_all_bids_are_lost(shelf: Any) -> None:
    async def refuse(_: Document) -> list[Document]:
        raise AssertionError("there is nothing to read")

    late = Wanted(now=-1.0, until=29.0, sort=WANTED.sort, among={})
    assert await batch.lease_all(shelf, late, BIDS, read_back=refuse) == []


async def test_document_of_another_kind_by_now_is_not_leased(shelf: Any) -> None:
    await shelf.update_one({"_id": 3}, {"$set": {"kind": "b"}})
    await shelf.update_one({"_id": 1}, {"$set": {"kind": "a"}})
    wanted = Wanted(now=NOW, until=NOW + 30, sort=WANTED.sort, among={"kind": ["b", "c"]})
    leased = await batch.lease_all(shelf, wanted, BIDS, read_back=reading(shelf))
    assert [row["_id"] for row in leased] == [3]


@pytest.mark.parametrize("error", [AutoReconnect("away"), asyncio.CancelledError(), KeyError()])
async def test_leases_that_cannot_be_read_back_are_given_back(
    shelf: Any, error: BaseException
) -> None:
    async def fail(_: Document) -> list[Document]:
        raise error

    with pytest.raises(type(error)):
        await batch.lease_all(shelf, WANTED, BIDS, read_back=fail)
    left = await shelf.find({}, sort=[("_id", 1)], limit=0)
    assert {(row["token"], row["attempts"]) for row in left} == {(None, 0)}
    assert [row["available_at"] for row in left] == [0.0, NOW, 0.0, NOW, NOW]


async def test_only_what_is_held_is_given_back(shelf: Any) -> None:
    await batch.lease_all(shelf, WANTED, {1: "rival:1"}, read_back=reading(shelf))
    await batch.free_all(shelf, BIDS, now=NOW)
    held = await shelf.find_one({"_id": 1})
    assert (held["token"], held["attempts"]) == ("rival:1", 1)


async def test_giving_back_nothing_sends_nothing() -> None:
    nothing: Any = None
    await batch.free_all(nothing, {}, now=NOW)


# Claimers among others


class Rivals:
    """Other claimers: after each look they lease some of the groups that are due."""

    def __init__(self, transport: Transport, locks: Any, greed: Iterable[int]) -> None:
        self._locks = locks
        self._greed = iter(greed)
        store: Any = transport._store
        self._find: Callable[..., Any] = store.locks.find
        store.locks.find = self._look

    async def _look(self, match: Document, **options: Any) -> list[Document]:
        found: list[Document] = await self._find(match, **options)
        if "partition" in match:
            for row in found[: next(self._greed, 0)]:
                taken = {"token": "rival", "available_at": 1e9}
                await self._locks.update_one({"_id": row["_id"]}, {"$set": taken})
        return found


async def drained(layout: list[int], n: int, greed: list[int]) -> tuple[list[Lease[Any]], int]:
    """Claim until a claim returns nothing; return the leases and how many groups are due then."""
    client: Any = AsyncMongoMockClient()
    clock = ManualClock(NOW)
    transport: Transport = AsyncMongoTransport(client, clock=clock, partitions=len(layout))
    where = [p for p, number in enumerate(layout) for _ in range(number)]
    await transport.publish_many([(f"g{number}", number) for number in range(len(where))])
    locks = client["fairlane"]["fairlane_locks"]
    for number, partition in enumerate(where):
        await locks.update_one({"_id": f"g{number}"}, {"$set": {"partition": partition}})
    await transport.stats()
    Rivals(transport, locks, greed)
    leases: list[Lease[Any]] = []
    while batch := await transport.claim_many("w", n):
        leases += batch
    return leases, await locks.count_documents({"available_at": {"$lte": NOW}})


@given(
    layout=st.lists(st.integers(0, 4), min_size=1, max_size=8),
    n=st.integers(2, 9),
    greed=st.lists(st.integers(0, 9), max_size=6),
)
@settings(max_examples=60, deadline=None)
def test_claimer_of_many_never_rests_while_any_partition_holds_due_work(
    layout: list[int], n: int, greed: list[int]
) -> None:
    """Statement 60: whatever others take from under its hands."""
    leases, still_due = asyncio.run(drained(layout, n, greed))
    assert still_due == 0
    groups = [lease.group_id for lease in leases]
    assert len(set(groups)) == len(groups)
    assert len({lease.token for lease in leases}) == len(groups)


# Claimers apart


def spread_after(*outcomes: tuple[int, int]) -> Spread:
    spread = Spread(rng=random.Random(7))
    for bids, won in outcomes:
        spread.note(bids=bids, won=won)
    return spread


def test_claimer_who_wins_bids_for_the_first_ones() -> None:
    spread = spread_after((4, 4))
    assert (spread.reach(4), spread.draw([0] * 4, 4)) == (4, [0, 1, 2, 3])


def test_claimer_who_loses_most_looks_twice_as_far() -> None:
    assert spread_after((4, 1), (4, 0)).reach(4) == 16


def test_claimer_who_loses_a_few_stays_as_it_is() -> None:
    assert spread_after((4, 0), (4, 3)).reach(4) == 8


def test_claimer_looks_no_further_than_the_widest() -> None:
    assert spread_after(*[(4, 0)] * 20).reach(1) == WIDEST


@pytest.mark.parametrize("won", [9, 10])
def test_claimer_who_wins_nearly_all_moves_back_step_by_step(won: int) -> None:
    assert spread_after((10, 0), (10, 0), (10, won)).reach(4) == 8


RANKS = st.lists(st.integers(0, 4), max_size=40).map(lambda ranks: sorted(ranks, reverse=True))


@given(RANKS, st.integers(1, 20))
def test_drawn_are_as_many_as_wanted_and_in_their_order(ranks: list[int], n: int) -> None:
    drawn = Spread().draw(ranks, n)
    assert len(drawn) == min(n, len(ranks))
    assert drawn == sorted(set(drawn))


@given(RANKS, st.integers(1, 20))
def test_no_bid_is_for_a_lower_priority_than_without_others(ranks: list[int], n: int) -> None:
    drawn = Spread().draw(ranks, n)
    assert [ranks[place] for place in drawn] == ranks[:n]


@given(st.integers(8, 40))
def test_first_quarter_is_always_bid_for(number: int) -> None:
    assert Spread().draw([0] * number, 8)[:2] == [0, 1]


def test_batch_that_came_too_late_is_halved_until_it_comes_in_time() -> None:
    appetite = Appetite()
    appetite.note(64, is_late=True)
    appetite.note(32, is_late=True)
    assert appetite.portion(64) == 16


def test_batch_that_is_halved_down_to_one_is_still_one() -> None:
    appetite = Appetite()
    appetite.note(1, is_late=True)
    assert appetite.portion(64) == 1


def test_batch_in_time_is_doubled_if_it_was_as_large_as_it_may_be() -> None:
    appetite = Appetite()
    appetite.note(64, is_late=True)
    appetite.note(5, is_late=False)
    assert appetite.portion(64) == 32
    appetite.note(32, is_late=False)
    assert appetite.portion(64) == 64
