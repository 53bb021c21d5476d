"""What the reconciler decides: what it leaves alone, when it goes on, how long it pauses."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from fairlane.driver import Change, Document
from fairlane.lease import commands
from fairlane.lease.reconciler import BATCH, PAUSE, Reconciled, Reconciler, Rules

PARTITIONS = 4
NOW = 100.0
MISPLACED = commands.misplaced(PARTITIONS)


class Locks:
    """A collection that knows what the reconciler asks; `meanwhile` comes before its writes."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents = {each["_id"]: dict(each) for each in documents}
        self.scans: list[int] = []
        self.writes: list[list[Change]] = []
        self.meanwhile: Any = lambda documents: None

    async def find(self, match: Document, *, limit: int, **_: Any) -> list[Document]:
        good = match["partition"]["$nin"]
        after = match.get("_id", {}).get("$gt", "")
        found = [
            dict(self.documents[key])
            for key in sorted(self.documents)
            if key > after and self.documents[key].get("partition") not in good
        ]
        self.scans.append(len(found[:limit]))
        return found[:limit]

    async def update_each(self, changes: list[Change]) -> int:
        self.meanwhile(self.documents)
        self.writes.append(changes)
        return sum([self._update(match, update) for match, update in changes])

    def _update(self, match: Document, update: Document) -> bool:
        document = self.documents[match["_id"]]
        for field, wanted in match.items():
            value = wanted["$eq"] if isinstance(wanted, dict) else wanted
            if document.get(field) != value:
                return False
        document.update(update["$set"])
        return True

    def partitions(self) -> dict[str, Any]:
        return {key: each.get("partition") for key, each in self.documents.items()}


def lock(key: str, **fields: Any) -> Document:
    return {"_id": key, "partition": 9, "token": None, "available_at": 50.0, **fields}


def many(number: int, **fields: Any) -> list[Document]:
    return [lock(f"g{each:05}", **fields) for each in range(number)]


class Naps:
    def __init__(self) -> None:
        self.taken: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


@pytest.fixture
def naps() -> Naps:
    return Naps()


@pytest.fixture
def reconciler(naps: Naps) -> Reconciler:
    rules = Rules(partition_of=lambda key: 2, adopted=lambda lock: {"$set": {"version": 0}})
    return Reconciler(rules, rng=random.Random(7), sleep=naps)


async def run(reconciler: Reconciler, locks: Any) -> Reconciled:
    return await reconciler.run(locks, MISPLACED, now=lambda: NOW)


WRONG = [4, -1, 2.5, "2", None, [], {}, float("inf"), 2**40]


@pytest.mark.parametrize("partition", WRONG, ids=repr)
async def test_document_with_a_wrong_partition_gets_the_right_one(
    reconciler: Reconciler, partition: Any
) -> None:
    locks = Locks([lock("g", partition=partition)])
    done = await run(reconciler, locks)
    assert locks.partitions() == {"g": 2}
    assert done.adopted + done.moved == 1


async def test_document_without_a_partition_gets_what_it_lacks_as_well(
    reconciler: Reconciler,
) -> None:
    locks = Locks([{"_id": "g", "available_at": 0.0, "token": None}])
    assert await run(reconciler, locks) == Reconciled(adopted=1)
    assert locks.documents["g"]["version"] == 0


async def test_document_with_a_partition_gets_nothing_else(reconciler: Reconciler) -> None:
    locks = Locks([lock("g")])
    assert await run(reconciler, locks) == Reconciled(moved=1)
    assert "version" not in locks.documents["g"]


LEASES: dict[str, tuple[Document, bool]] = {
    # name: lock, whether it is to be moved
    "live": (lock("g", token="w:1", available_at=NOW + 0.1), False),
    "at its end": (lock("g", token="w:1", available_at=NOW), True),
    "expired": (lock("g", token="w:1", available_at=NOW - 1), True),
    "parked": (lock("g", available_at=NOW + 60), True),
    "another design's, live": (lock("g", partition=None, token="w", available_at=NOW + 9), True),
}


@pytest.mark.parametrize(("document", "is_moved"), LEASES.values(), ids=LEASES.keys())
async def test_live_lease_is_never_moved(
    reconciler: Reconciler, document: Document, is_moved: bool
) -> None:
    locks = Locks([document])
    done = await run(reconciler, locks)
    assert (locks.partitions() == {"g": 2}) == is_moved
    assert done.left == (0 if is_moved else 1)
    assert bool(locks.writes) == is_moved


MEANWHILE: dict[str, Document] = {
    "claim": {"token": "w:1", "available_at": NOW + 30},
    "claim by a clock that went back": {"token": "w:1"},
    "settlement": {"available_at": NOW - 1},
    "other reconciler": {"partition": 1},
}


@pytest.mark.parametrize("changes", MEANWHILE.values(), ids=MEANWHILE.keys())
async def test_change_between_the_look_and_the_write_wins(
    reconciler: Reconciler, changes: Document
) -> None:
    locks = Locks([lock("g")])
    locks.meanwhile = lambda documents: documents["g"].update(changes)
    assert await run(reconciler, locks) == Reconciled(left=1)
    assert locks.documents["g"] == {**lock("g"), **changes}


async def test_extension_between_the_look_and_the_write_wins(reconciler: Reconciler) -> None:
    """A lease that had run out, and was extended before anybody else had it."""
    locks = Locks([lock("g", token="w:1")])
    locks.meanwhile = lambda documents: documents["g"].update(available_at=NOW + 30)
    assert (await run(reconciler, locks)).moved == 0


@pytest.mark.parametrize(
    ("number", "scans"),
    [(0, [0]), (1, [1]), (499, [499]), (500, [500, 0]), (501, [500, 1]), (1_200, [500, 500, 200])],
)
async def test_reconciler_goes_on_while_a_batch_is_full(
    reconciler: Reconciler, number: int, scans: list[int]
) -> None:
    locks = Locks(many(number))
    assert (await run(reconciler, locks)).moved == number
    assert locks.scans == scans
    assert all(len(batch) <= BATCH for batch in locks.writes)


async def test_reconciler_goes_on_though_others_did_the_work(reconciler: Reconciler) -> None:
    """Seed 001 went by the number changed: two instances that shared a batch both rested."""

    def share(documents: dict[str, Document]) -> None:
        for document in list(documents.values())[::2]:
            document["partition"] = 2

    locks = Locks(many(1_200))
    locks.meanwhile = share
    done = await run(reconciler, locks)
    assert (locks.scans[0], done.moved < BATCH * 2) == (BATCH, True)
    assert set(locks.partitions().values()) == {2}


async def test_reconciler_passes_leases_that_fill_a_batch(reconciler: Reconciler) -> None:
    """They stay misplaced, so looking again from the start would find them for ever."""
    leased = many(BATCH, token="w:1", available_at=NOW + 60)
    locks = Locks([*leased, lock("z")])
    assert await run(reconciler, locks) == Reconciled(moved=1, left=BATCH)


async def test_reconciler_pauses_between_batches_never_twice_the_same(
    reconciler: Reconciler, naps: Naps
) -> None:
    await run(reconciler, Locks(many(10 * BATCH)))
    assert len(naps.taken) == 10
    assert all(0.5 * PAUSE <= nap <= 1.5 * PAUSE for nap in naps.taken)
    assert len(set(naps.taken)) == 10


async def test_reconciler_that_finds_nothing_neither_writes_nor_pauses(
    reconciler: Reconciler, naps: Naps
) -> None:
    locks = Locks([lock("g", partition=each) for each in range(PARTITIONS)])
    done = await run(reconciler, locks)
    assert not done
    assert (locks.writes, naps.taken) == ([], [])
