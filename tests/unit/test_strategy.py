"""Which command claims: what is found out about a server, what is kept of it, and for how long."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from bson.son import SON
from pymongo.errors import AutoReconnect, NotPrimaryError, OperationFailure

from fairlane import ConfigurationError
from fairlane.driver import Document
from fairlane.lease.strategy import STRATEGIES, Leaser, Strategy, checked_strategy
from fairlane.schema import STRINGS

TOKEN_INDEX = {"name": "token_1", "key": SON([("token", 1)]), "unique": True}
CLAIM_INDEX = {"name": "claim", "key": SON([("partition", 1), ("token", 1)])}
LEASED = {"_id": "g", "token": "w:1"}
UNAUTHORIZED = 13
UNKNOWN_FIELD = 40415


@dataclass
class Server:
    """A server, as driver and as collection: answers, and remembers what it was asked."""

    wire_version: int = 25
    is_known: bool = True
    is_atomic: bool = True
    indexes_there: list[Any] = field(default_factory=lambda: [CLAIM_INDEX, TOKEN_INDEX])
    due: int = 1_000
    read_back: Document | None = field(default_factory=lambda: dict(LEASED))
    failing: dict[str, Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    updates: list[tuple[Document, Any]] = field(default_factory=list)

    def _answer(self, command: str) -> None:
        self.asked.append(command)
        if command in self.failing:
            raise self.failing[command]

    async def server_time(self) -> float:
        self._answer("hello")
        self.is_known = True
        return 0.0

    async def has_atomic_sorted_updates(self) -> bool:
        self._answer("buildInfo")
        return self.is_atomic

    async def indexes(self) -> list[Any]:
        self._answer("listIndexes")
        return self.indexes_there

    async def find_one_and_update(self, *_: Any, **__: Any) -> Document | None:
        self._answer("findAndModify")
        return dict(LEASED)

    async def update_one(
        self, match: Document, update: Any, *, sort: Any = (), hint: object = None
    ) -> bool:
        self._answer("sorted update" if sort else "update")
        self.updates.append((match, update))
        self.due -= 1
        return self.due >= 0

    async def find_one(self, match: Document) -> Document | None:
        self._answer("find")
        return self.read_back

    def take(self) -> list[str]:
        asked, self.asked = self.asked, []
        return asked


class Lease:
    """A leaser with its server and its clock."""

    def __init__(self, server: Any, strategy: Strategy = "auto") -> None:
        self.now = 0.0
        self._server = server
        self.leaser = Leaser(server, strategy, monotonic=lambda: self.now)

    @property
    def strategy(self) -> str:
        return self.leaser.strategy

    async def __call__(self, **options: Any) -> Document | None:
        return await self.leaser.lease(
            *(self._server, {"partition": 0}),
            **{"token": "w:1", "now": 5.0, "until": 35.0, "sort": [("at", 1)], **options},
        )


SERVERS: dict[str, tuple[Server, str]] = {
    "MongoDB 8.0 with the index": (Server(), "update_one"),
    "MongoDB 7.0": (Server(wire_version=21), "find_one_and_update"),
    "one wire version too old": (Server(wire_version=24), "find_one_and_update"),
    "newer": (Server(wire_version=27), "update_one"),
    "without the index": (Server(indexes_there=[CLAIM_INDEX]), "find_one_and_update"),
    "with an index whose planner would not see that it fits": (
        Server(
            indexes_there=[
                {**TOKEN_INDEX, "partialFilterExpression": {"token": {"$type": "string"}}}
            ]
        ),
        "find_one_and_update",
    ),
    "with the index of the design": (
        Server(indexes_there=[{**TOKEN_INDEX, "partialFilterExpression": {"token": STRINGS}}]),
        "update_one",
    ),
    "without any index": (Server(indexes_there=[]), "find_one_and_update"),
    "SecantusDB": (Server(is_atomic=False, wire_version=27), "find_one_and_update"),
    "indexes not to be seen": (
        Server(failing={"listIndexes": OperationFailure("no", UNAUTHORIZED)}),
        "find_one_and_update",
    ),
}


@pytest.mark.parametrize(("server", "strategy"), SERVERS.values(), ids=SERVERS.keys())
async def test_auto_takes_sorted_updates_where_they_are_atomic_and_can_be_read_back(
    server: Server, strategy: str
) -> None:
    lease = Lease(server)
    assert lease.strategy == "auto"
    assert await lease() == LEASED
    assert lease.strategy == strategy
    assert ("sorted update" in server.take()) == (strategy == "update_one")


async def test_old_server_is_asked_nothing_more_than_it_said_in_its_greeting() -> None:
    server = Server(wire_version=24)
    await Lease(server)()
    assert server.take() == ["findAndModify"]


@pytest.mark.parametrize("server", [Server(), Server(wire_version=24), Server(indexes_there=[])])
async def test_answer_is_kept(server: Server) -> None:
    lease = Lease(server)
    await lease()
    server.take()
    for _ in range(3):
        await lease()
    assert not {"hello", "buildInfo", "listIndexes"} & set(server.take())


@pytest.mark.parametrize("command", ["buildInfo", "listIndexes"])
async def test_failure_to_find_out_is_not_kept(command: str) -> None:
    """Seed 001 kept the first failure: no claim worked until the process was started again."""
    server = Server(failing={command: AutoReconnect("gone")})
    lease = Lease(server)
    assert await lease() == LEASED
    assert lease.strategy == "auto"
    assert server.take()[-1] == "findAndModify"
    server.failing.clear()
    assert await lease() == LEASED
    assert lease.strategy == "update_one"


async def test_cancellation_while_finding_out_is_not_kept() -> None:
    class Stuck(Server):
        async def indexes(self) -> list[Any]:
            await asyncio.get_running_loop().create_future()
            return []

    stuck = Stuck()
    lease = Lease(stuck)
    task = asyncio.create_task(lease())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lease.strategy == "auto"


FAILOVERS: dict[str, tuple[Server, Server, str]] = {
    # name: the old primary, the new one, what claims then
    "to an older server": (Server(), Server(wire_version=21), "find_one_and_update"),
    "to a newer server": (Server(wire_version=21), Server(), "update_one"),
    "to another kind": (Server(), Server(is_atomic=False), "find_one_and_update"),
    "to a server without the index": (
        Server(),
        Server(indexes_there=[]),
        "find_one_and_update",
    ),
}


@pytest.mark.parametrize(("old", "new", "strategy"), FAILOVERS.values(), ids=FAILOVERS.keys())
async def test_after_a_failover_the_new_server_is_asked(
    old: Server, new: Server, strategy: str
) -> None:
    lease = Lease(old)
    await lease()
    old.failing = {"sorted update": NotPrimaryError("no"), "findAndModify": NotPrimaryError("no")}
    with pytest.raises(NotPrimaryError):
        await lease()
    lease.leaser.forget()  # what the driver adapter does at such an error
    vars(old).update({**vars(new), "is_known": False})
    old.take()
    assert await lease() == LEASED
    assert lease.strategy == strategy
    assert old.take()[0] == "hello"


async def test_rejected_sorted_update_is_made_up_for_by_the_command_that_all_know() -> None:
    server = Server(failing={"sorted update": OperationFailure("sort?", UNKNOWN_FIELD)})
    lease = Lease(server)
    assert await lease() == LEASED
    assert server.take()[-2:] == ["sorted update", "findAndModify"]


async def test_server_that_rejected_a_sorted_update_is_asked_again_after_a_minute() -> None:
    server = Server(failing={"sorted update": OperationFailure("sort?", UNKNOWN_FIELD)})
    lease = Lease(server)
    await lease()
    server.failing.clear()
    server.take()
    lease.now = 59.0
    await lease()
    assert server.take() == ["findAndModify"]
    lease.now = 60.0
    await lease()
    assert server.take() == ["hello", "buildInfo", "listIndexes", "sorted update", "find"]
    assert lease.strategy == "update_one"


async def test_lost_connection_ends_the_wait_after_a_rejection() -> None:
    server = Server(failing={"sorted update": OperationFailure("sort?", UNKNOWN_FIELD)})
    lease = Lease(server)
    await lease()
    server.failing.clear()
    lease.leaser.forget()
    await lease()
    assert lease.strategy == "update_one"


@pytest.mark.parametrize("code", [UNAUTHORIZED, 50, 112, 11000, 64])
async def test_error_that_is_no_rejection_is_the_caller_s(code: int) -> None:
    """The update may have been applied, or the other command would fail as well."""
    server = Server(failing={"sorted update": OperationFailure("no", code)})
    lease = Lease(server)
    with pytest.raises(OperationFailure):
        await lease()
    assert "findAndModify" not in server.take()


@pytest.mark.parametrize("server", [Server(wire_version=24), Server(is_atomic=False)])
async def test_named_strategy_is_used_without_asking(server: Server) -> None:
    lease = Lease(server, "update_one")
    assert lease.strategy == "update_one"
    await lease()
    assert server.take() == ["sorted update", "find"]


async def test_named_strategy_is_not_given_up_when_it_is_rejected() -> None:
    server = Server(failing={"sorted update": OperationFailure("sort?", UNKNOWN_FIELD)})
    with pytest.raises(OperationFailure, match="sort"):
        await Lease(server, "update_one")()


async def test_find_one_and_update_by_name_never_asks() -> None:
    server = Server()
    await Lease(server, "find_one_and_update")()
    assert server.take() == ["findAndModify"]


async def test_sorted_update_that_matches_nothing_is_a_miss_and_reads_nothing() -> None:
    server = Server(due=0)
    assert await Lease(server, "update_one")() is None
    assert server.take() == ["sorted update"]


async def test_lease_that_is_gone_when_it_is_read_back_is_no_miss() -> None:
    """It ran out, or a failover took it back: there was something due, and there may be more."""
    server = Server(read_back=None)
    assert await Lease(server, "update_one")() == {}


async def test_lease_that_cannot_be_read_back_is_given_back_by_its_token() -> None:
    server = Server(failing={"find": AutoReconnect("gone")})
    with pytest.raises(AutoReconnect):
        await Lease(server, "update_one")()
    assert server.take() == ["sorted update", "find", "update"]
    match, update = server.updates[-1]
    assert match == {"token": "w:1"}
    assert update["$set"] == {"token": None, "available_at": 5.0}


async def test_failure_to_give_it_back_hides_no_error() -> None:
    server = Server(failing={"find": OperationFailure("why"), "update": AutoReconnect("gone")})
    with pytest.raises(OperationFailure, match="why"):
        await Lease(server, "update_one")()


async def test_caller_may_read_back_more_than_the_document() -> None:
    async def read(match: Document) -> Document:
        return {"match": match, "more": True}

    found = await Lease(Server(), "update_one")(read_back=read)
    assert found == {"match": {"token": "w:1"}, "more": True}


@pytest.mark.parametrize("token", ["$$NOW:1", "$set:1", "w$:1"])
async def test_token_is_written_as_it_is(token: str) -> None:
    server = Server()
    await Lease(server, "update_one")(token=token)
    (_, update), *_ = server.updates
    assert isinstance(update, dict)  # not a pipeline, which would evaluate it
    assert update["$set"]["token"] == token


NEEDS: list[tuple[Strategy, Server, bool]] = [
    ("update_one", Server(wire_version=24), True),
    ("find_one_and_update", Server(), False),
    ("auto", Server(indexes_there=[]), True),
    ("auto", Server(wire_version=24), False),
    ("auto", Server(is_atomic=False), False),
]


@pytest.mark.parametrize(("strategy", "server", "is_needed"), NEEDS)
async def test_token_index_is_needed_where_leases_may_be_read_back(
    strategy: Strategy, server: Server, is_needed: bool
) -> None:
    assert await Lease(server, strategy).leaser.needs_token_index() == is_needed


async def test_server_that_said_nothing_yet_is_asked_before_the_indexes_are_made() -> None:
    server = Server(is_known=False)
    assert await Lease(server).leaser.needs_token_index()
    assert server.take() == ["hello", "buildInfo"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_strategies_are_known_by_name(strategy: str) -> None:
    assert checked_strategy(strategy) == strategy


@pytest.mark.parametrize("value", ["", "fastest", None, 1, ["auto"], {}])
def test_other_strategies_are_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="strategy must be one of"):
        checked_strategy(value)
