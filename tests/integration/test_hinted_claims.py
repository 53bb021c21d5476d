"""Leases of plain documents by two indexes, on a server: named, missing, measured."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from pymongo.errors import OperationFailure
from pymongo.monitoring import (
    CommandFailedEvent,
    CommandListener,
    CommandStartedEvent,
    CommandSucceededEvent,
)
from pymongo.operations import IndexModel

from fairlane.driver import Collection, Driver
from fairlane.lease import commands
from fairlane.lease.hints import Hints, Index, by_explaining
from fairlane.lease.strategy import Leaser, Strategy

NOW = 100.0
PARTITIONS = 3
TYPES = ("mail", "report")
SORT = (("priority", -1), ("available_at", 1))
BY_TYPE: Index = (("partition", 1), ("type", 1), *SORT)
BY_PRIORITY: Index = (("partition", 1), *SORT)
NOWHERE: Index = (("partition", 1), ("nowhere", 1))

DOCUMENTS: list[dict[str, Any]] = [
    {
        "_id": number,
        "partition": number % PARTITIONS,
        "type": TYPES[number % 2],
        "priority": number % 5,
        "available_at": number * 1.0,
        "token": None,
        "attempts": 0,
        "epoch": 0,
    }
    for number in range(30)
]


class Recorder(CommandListener):
    """Keeps the hints of the claims that a client sent."""

    def __init__(self) -> None:
        self.hints: list[Any] = []

    def started(self, event: CommandStartedEvent) -> None:
        command = event.command
        if event.command_name == "findAndModify":
            self.hints.append(command.get("hint"))
        elif event.command_name == "update" and "sort" in command["updates"][0]:
            self.hints.append(command["updates"][0].get("hint"))

    def succeeded(self, event: CommandSucceededEvent) -> None:
        """Of no interest."""

    def failed(self, event: CommandFailedEvent) -> None:
        """Of no interest."""

    def take(self) -> list[Any]:
        """Return the hints as keys, None for a claim without one."""
        hints, self.hints = self.hints, []
        return [None if hint is None else tuple(hint.items()) for hint in hints]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


@pytest.fixture
def served(connect: Callable[..., Any], driver: str, recorder: Recorder) -> Driver:
    return Driver(connect(driver, event_listeners=[recorder]))


@pytest.fixture
async def leases(served: Driver, db_name: str) -> Collection:
    """Documents that are due, in three partitions, and two indexes that find them."""
    collection = served.collection(db_name, "leases")
    for index in (BY_TYPE, BY_PRIORITY):
        await collection.create_index(IndexModel(list(index)))
    await collection.insert(DOCUMENTS)
    return collection


@pytest.fixture(params=["find_one_and_update", "update_one"])
def strategy(request: pytest.FixtureRequest) -> Strategy:
    named: Strategy = request.param
    return named


@pytest.fixture
def leaser(served: Driver, strategy: Strategy) -> Leaser:
    return Leaser(served, strategy)


def due(partition: int) -> dict[str, Any]:
    return commands.due(partitions=[partition], now=NOW, among={"type": TYPES})


async def drained(leaser: Leaser, leases: Collection, hint: Index | None) -> list[int]:
    """Lease all documents of partition 1; return their ids as they came."""
    ids: list[int] = []
    while True:
        lease = await leaser.lease(
            leases, due(1), token=f"w:{len(ids)}", now=NOW, until=NOW + 30, sort=SORT, hint=hint
        )
        if lease is None:
            return ids
        ids.append(lease["_id"])


IN_ORDER = [
    document["_id"]
    for document in sorted(DOCUMENTS, key=lambda each: (-each["priority"], each["available_at"]))
    if document["partition"] == 1
]


@pytest.mark.parametrize("hint", [BY_TYPE, BY_PRIORITY, None])
async def test_hinted_leases_take_each_document_once_and_in_order(
    leaser: Leaser, leases: Collection, recorder: Recorder, hint: Index | None
) -> None:
    assert await drained(leaser, leases, hint) == IN_ORDER
    assert set(recorder.take()) == {hint}


async def test_nothing_is_lost_by_a_hint_to_a_missing_index(
    leaser: Leaser, leases: Collection, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    assert await drained(leaser, leases, NOWHERE) == IN_ORDER
    assert recorder.take() == [NOWHERE, *[None] * (len(IN_ORDER) + 1)]
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert await leases.count({"attempts": 1}) == len(IN_ORDER)
    assert await leases.count({"attempts": 0}) == len(DOCUMENTS) - len(IN_ORDER)


async def test_look_of_a_batch_goes_on_without_a_hint_to_a_missing_index(
    leaser: Leaser, leases: Collection, caplog: pytest.LogCaptureFixture
) -> None:
    hinted = [
        await leaser.look(leases, due(1), sort=SORT, limit=9, hint=hint)
        for hint in (BY_TYPE, NOWHERE, NOWHERE)
    ]
    assert hinted[0]
    assert hinted == [hinted[0]] * 3
    assert [each.levelname for each in caplog.records] == ["WARNING"]


async def test_missing_index_is_named_again_when_it_is_there_and_was_measured(
    leaser: Leaser, leases: Collection, recorder: Recorder
) -> None:
    hints = Hints((NOWHERE, BY_PRIORITY), by_explaining(leases, due, sort=SORT), period=0.0)
    assert not await hints.measure(PARTITIONS)
    await drained(leaser, leases, NOWHERE)
    await leases.create_index(IndexModel(list(NOWHERE)))
    recorder.take()
    assert await hints.measure(PARTITIONS)
    leaser.hint_again()
    await drained(leaser, leases, NOWHERE)
    assert recorder.take() == [NOWHERE]


@pytest.mark.parametrize("hint", [BY_TYPE, BY_PRIORITY])
async def test_explained_claim_tells_what_it_examined_and_leases_nothing(
    leases: Collection, hint: Index
) -> None:
    cost = await leases.explain(due(1), sort=SORT, hint=hint, max_time=1.0)
    assert cost is not None
    assert cost.keys > 0
    assert cost.documents > 0
    assert cost.milliseconds >= 0
    assert await leases.count({"token": None}) == len(DOCUMENTS)


async def test_explained_claim_by_a_missing_index_is_an_error(leases: Collection) -> None:
    with pytest.raises(OperationFailure, match="does not correspond to an existing index"):
        await leases.explain(due(1), sort=SORT, hint=NOWHERE, max_time=1.0)


async def test_round_on_a_server_measures_all_candidates(leases: Collection) -> None:
    hints = Hints((BY_TYPE, BY_PRIORITY), by_explaining(leases, due, sort=SORT))
    assert await hints.measure(PARTITIONS)
    assert hints.choice() in (BY_TYPE, BY_PRIORITY)


@pytest.mark.real_mongod
async def test_better_index_is_chosen(leases: Collection) -> None:
    """Only MongoDB examines what MongoDB does: by priority a rare type is found after a walk."""
    await leases.insert(
        [
            {**DOCUMENTS[0], "_id": number, "partition": 0, "type": "common"}
            for number in range(1_000, 2_000)
        ]
    )

    def rare(partition: int) -> dict[str, Any]:
        return commands.due(partitions=[0], now=NOW, among={"type": ["rare"]})

    hints = Hints((BY_PRIORITY, BY_TYPE), by_explaining(leases, rare, sort=SORT))
    assert await hints.measure(PARTITIONS)
    assert hints.choice() == BY_TYPE
