"""Settlements in one ordered bulk: what becomes of each where the server stops at a write."""

from collections.abc import Sequence
from typing import Any

import pytest
from pymongo import AsyncMongoClient, WriteConcern
from pymongo.errors import AutoReconnect, ClientBulkWriteException, OperationFailure

from fairlane.driver import Delete, Driver, Settled, Unit, Upsert

DUPLICATE, IMMUTABLE, UNAUTHORIZED = 11000, 66, 13


def stopped(place: int, code: int) -> ClientBulkWriteException:
    failed = {"idx": place, "code": code, "errmsg": "refused"}
    return ClientBulkWriteException({"writeErrors": [failed]}, False)


class Bulks:
    """A client whose server answers bulks so, and takes all that come after them."""

    codec_options = None
    write_concern = WriteConcern()

    def __init__(self, *answers: Exception) -> None:
        self.sizes: list[int] = []
        self._answers = list(answers)

    async def bulk_write(self, models: Sequence[Any], **_: Any) -> object:
        self.sizes.append(len(models))
        if self._answers:
            raise self._answers.pop(0)
        return object()


class Locks:
    """A collection in which the leases of these keys are lost."""

    namespace = "db.locks"

    def __init__(self, *lost: int) -> None:
        self._lost = lost
        self.deleted: list[int] = []

    async def update_and_tell(self, changes: Sequence[Any]) -> list[bool]:
        return [match["_id"] not in self._lost for match, _ in changes]

    async def delete_each(self, matches: Sequence[Any]) -> None:
        self.deleted += [match["_id"] for match in matches]


def settling(*answers: Exception) -> tuple[Driver, Bulks]:
    driver = Driver(AsyncMongoClient(connect=False))
    driver.client = bulks = Bulks(*answers)
    driver.has_cross_collection_bulk = True
    return driver, bulks


def units(locks: Any, number: int = 3) -> list[Unit]:
    """Return units of three writes each: the update, an upsert and a deletion."""
    return [
        Unit(
            locks,
            ({"_id": key}, {"$set": {"token": None}}),
            ([Upsert(locks, {"_id": key}, {})], [Delete(locks, {"_id": key})]),
        )
        for key in range(number)
    ]


async def test_settlements_and_their_clean_up_are_one_bulk() -> None:
    driver, bulks = settling()
    assert await driver.settle(units(Locks())) == [Settled(True)] * 3
    assert bulks.sizes == [9]


async def test_lost_lease_is_told_and_what_stands_behind_it_is_settled_in_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, bulks = settling(stopped(3, IMMUTABLE))
    locks: Any = Locks(2)
    monkeypatch.setattr(driver, "update_and_tell", lambda of, changes: of.update_and_tell(changes))
    settled = await driver.settle(units(locks, 5))
    assert [each.is_held for each in settled] == [True, False, False, True, True]
    assert bulks.sizes == [15, 4], "the clean-up of the last two is one bulk"


async def test_settlement_is_decided_before_its_clean_up_is_refused() -> None:
    driver, _ = settling(stopped(5, UNAUTHORIZED))
    settled = await driver.settle(units(Locks(), 2))
    assert [each.is_held for each in settled] == [True, True]
    assert settled[0].trouble is None
    assert isinstance(settled[1].trouble, OperationFailure)


async def test_refused_settlement_is_neither_held_nor_lost() -> None:
    driver, _ = settling(stopped(3, UNAUTHORIZED))
    first, second = await driver.settle(units(Locks(), 2))
    assert (first, second.is_held) == (Settled(True), False)
    assert isinstance(second.trouble, OperationFailure)


async def test_upsert_that_meets_another_one_is_sent_again_with_all_behind_it() -> None:
    driver, bulks = settling(stopped(4, DUPLICATE))
    assert await driver.settle(units(Locks())) == [Settled(True)] * 3
    assert bulks.sizes == [9, 5]


async def test_lost_connection_is_the_callers() -> None:
    driver, _ = settling(ClientBulkWriteException({"error": AutoReconnect("away")}, False))
    with pytest.raises(AutoReconnect, match="away"):
        await driver.settle(units(Locks()))


async def test_settlement_that_too_few_servers_have_is_not_told_as_done() -> None:
    """Also where a lost lease stands behind it in the same command."""
    failed = {"idx": 3, "code": IMMUTABLE, "errmsg": "refused"}
    concern = {"code": 64, "errmsg": "waiting for replication timed out"}
    details = {"writeErrors": [failed], "writeConcernErrors": [concern]}
    driver, _ = settling(ClientBulkWriteException(details, False))
    with pytest.raises(ClientBulkWriteException):
        await driver.settle(units(Locks()))
