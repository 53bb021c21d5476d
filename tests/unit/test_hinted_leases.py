"""A lease that names an index: what becomes of it where there is none."""

import logging
from dataclasses import dataclass, field
from typing import Any

import pytest
from pymongo.errors import OperationFailure, WriteError

from fairlane.driver import Document
from fairlane.lease.hints import Index
from fairlane.lease.strategy import Leaser, Strategy, is_hint_refused

A: Index = (("partition", 1), ("type", 1))
B: Index = (("partition", 1), ("priority", -1))
LEASED = {"_id": "g", "token": "w:1"}
SORT = [("priority", -1)]
TOKEN_INDEX = {"key": {"token": 1}, "unique": True}

MONGODB = (
    'error processing query: ns=db.jobs limit=1Tree: $and\n    partition $eq 0\n    type $eq "{}"\n'
    "Sort: {{ priority: -1 }}\nProj: {{}}\n planner returned error :: caused by :: {}"
)
NO_INDEX = "hint provided does not correspond to an existing index"

REFUSALS = {
    "MongoDB": (2, MONGODB.format("mail", NO_INDEX)),
    "MongoDB without the query": (2, NO_INDEX),
    "SecantusDB": (2, "hint {'partition': 1} does not correspond to an existing index"),
    "MongoDB 4.2, findAndModify": (9, "Unrecognized field 'hint'"),
    "another server, update": (40415, "BSON field 'update.updates.hint' is an unknown field."),
    "another server": (303, "Feature not supported: hint"),
}
OTHERS = {
    "another bad value": (2, "bad sort specification"),
    "a value that is called so": (2, MONGODB.format("hint", "unknown operator: $lse")),
    "sort not known": (40415, "BSON field 'update.updates.sort' is an unknown field."),
    "not allowed": (13, "not authorized to use the hint"),
    "no code": (None, NO_INDEX),
    "no words": (2, ""),
}


@pytest.mark.parametrize(("code", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refused_hint_is_told_by_code_and_cause(code: int, message: str) -> None:
    assert is_hint_refused(code, message)


@pytest.mark.parametrize(("code", "message"), OTHERS.values(), ids=OTHERS.keys())
def test_other_error_is_not_taken_for_a_refused_hint(code: int | None, message: str) -> None:
    assert not is_hint_refused(code, message)


@dataclass
class Server:
    """A MongoDB 8.0, as driver and as collection, with these claim indexes."""

    indexes_there: set[Index] = field(default_factory=lambda: {A, B})
    failing: dict[str, Exception] = field(default_factory=dict)
    sent: list[tuple[str, Index | None]] = field(default_factory=list)
    wire_version: int = 25
    is_known: bool = True

    async def server_time(self) -> float:
        self.is_known = True
        return 0.0

    async def has_atomic_sorted_updates(self) -> bool:
        return True

    async def indexes(self) -> list[Any]:
        return [TOKEN_INDEX]

    async def find_one_and_update(self, *_: Any, hint: Index | None, **__: Any) -> Document:
        return self._answer("findAndModify", hint, OperationFailure)

    async def update_one(self, *_: Any, hint: Index | None, **__: Any) -> bool:
        return bool(self._answer("update", hint, WriteError))

    async def find_one(self, match: Document) -> Document:
        return dict(LEASED)

    def _answer(self, name: str, hint: Index | None, kind: type[OperationFailure]) -> Document:
        self.sent.append((name, hint))
        if hint is not None and hint not in self.indexes_there:
            message = MONGODB.format("mail", NO_INDEX)
            raise kind(message, 2, {"code": 2, "errmsg": message})
        if name in self.failing:
            raise self.failing[name]
        return dict(LEASED)

    def take(self) -> list[tuple[str, Index | None]]:
        sent, self.sent = self.sent, []
        return sent


class Lease:
    """A leaser with its server."""

    def __init__(self, strategy: Strategy = "auto", **server: Any) -> None:
        driver: Any = Server(**server)
        self.server: Any = driver
        self.leaser = Leaser(driver, strategy, monotonic=lambda: 0.0)

    async def __call__(self, hint: Index | None = A) -> Document | None:
        return await self.leaser.lease(
            self.server,
            {"partition": 0},
            token="w:1",
            now=5.0,
            until=35.0,
            sort=SORT,
            hint=hint,
        )


COMMANDS: list[tuple[Strategy, str]] = [
    ("find_one_and_update", "findAndModify"),
    ("update_one", "update"),
    ("auto", "update"),
]
by_each_strategy = pytest.mark.parametrize(("strategy", "command"), COMMANDS)


@by_each_strategy
async def test_lease_names_its_index(strategy: Strategy, command: str) -> None:
    lease = Lease(strategy)
    assert await lease(B) == LEASED
    assert lease.server.take() == [(command, B)]


@by_each_strategy
async def test_lease_by_a_missing_index_goes_on_without_naming_it(
    strategy: Strategy, command: str
) -> None:
    lease = Lease(strategy, indexes_there={B})
    assert await lease(A) == LEASED
    assert lease.server.take() == [(command, A), (command, None)]


@by_each_strategy
async def test_missing_index_is_not_named_again(strategy: Strategy, command: str) -> None:
    lease = Lease(strategy, indexes_there={B})
    await lease(A)
    lease.server.take()
    await lease(A)
    await lease(B)
    assert lease.server.take() == [(command, None), (command, B)]


async def test_missing_index_makes_nobody_distrust_sorted_updates() -> None:
    lease = Lease("auto", indexes_there=set())
    await lease(A)
    assert lease.leaser.strategy == "update_one"


async def test_one_warning_for_each_missing_index(caplog: pytest.LogCaptureFixture) -> None:
    lease = Lease(indexes_there=set())
    for hint in (A, A, B, B, A):
        await lease(hint)
    warned = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert warned == [f"leases go without the hint {dict(hint)}: {NO_INDEX}" for hint in (A, B)]


async def test_one_warning_where_claims_under_way_are_refused_together(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each of them had named the index before the first one was refused."""
    lease = Lease("find_one_and_update", indexes_there=set())

    class Late(Server):
        async def find_one_and_update(self, *_: Any, hint: Index | None, **__: Any) -> Document:
            if hint is not None and len(self.sent) < 3:
                self.sent.append(("findAndModify", hint))
                await lease(hint)
            return self._answer("findAndModify", hint, OperationFailure)

    lease.server = Late(indexes_there=set())
    await lease(A)
    assert len(caplog.records) == 1


@pytest.mark.parametrize("again", ["forget", "hint_again"])
async def test_index_is_named_again_after_a_failover_or_when_it_was_measured(again: str) -> None:
    lease = Lease("find_one_and_update", indexes_there={B})
    await lease(A)
    lease.server.indexes_there.add(A)
    getattr(lease.leaser, again)()
    lease.server.take()
    await lease(A)
    assert lease.server.take() == [("findAndModify", A)]


async def test_sorted_update_that_is_rejected_as_well_is_still_distrusted() -> None:
    rejected = OperationFailure("BSON field 'update.updates.sort' is an unknown field.", 40415)
    lease = Lease("auto", indexes_there=set(), failing={"update": rejected})
    assert await lease(A) == LEASED
    assert lease.server.take() == [("update", A), ("update", None), ("findAndModify", None)]


async def test_rejected_sorted_update_does_not_bring_a_missing_index_back() -> None:
    rejected = OperationFailure("BSON field 'update.updates.sort' is an unknown field.", 40415)
    lease = Lease("auto", indexes_there=set(), failing={"update": rejected})
    await lease(A)
    lease.server.take()
    await lease(A)
    assert lease.server.take() == [("findAndModify", None)]


async def test_hinted_lease_by_a_rejected_sorted_update_keeps_its_hint() -> None:
    rejected = OperationFailure("BSON field 'update.updates.sort' is an unknown field.", 40415)
    lease = Lease("auto", failing={"update": rejected})
    assert await lease(A) == LEASED
    assert lease.server.take() == [("update", A), ("findAndModify", A)]


@by_each_strategy
async def test_other_error_of_a_hinted_lease_is_the_caller_s(
    strategy: Strategy, command: str
) -> None:
    lease = Lease(strategy, failing={command: OperationFailure("no", 112)})
    with pytest.raises(OperationFailure, match="no"):
        await lease(A)
    assert lease.server.take() == [(command, A)]
