"""What the doctor says of what it finds: its judgements are pure, its exit status is the worst."""

import json
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, NetworkTimeout, OperationFailure
from pymongo.operations import IndexModel
from pymongo.write_concern import WriteConcern
from typer.testing import CliRunner

from fairlane import schema
from fairlane.cli.app import app
from fairlane.cli.doctor import command
from fairlane.cli.doctor.examination import Note, failure
from fairlane.cli.doctor.finding import Finding, Status, worst
from fairlane.cli.doctor.probe import CLAIMERS, DOCUMENTS, Claims, judge_claims, write_concern
from fairlane.cli.doctor.reaching import unreached
from fairlane.cli.doctor.server import judge_server, judge_skew
from fairlane.cli.doctor.stored import judge_indexes, judge_settings
from fairlane.cli.doctor.strategy import judge_strategy
from fairlane.cli.target import Target
from fairlane.errors import ConfigurationError, ServerUnreachable
from fairlane.lease.strategy import Strategy

PRIMARY = {"setName": "rs0", "ismaster": True, "maxWireVersion": 25}
BUILD = {"version": "8.0.4"}
LOCKS = {"locks": schema.LOCK_INDEXES}


def refused_credentials() -> ConfigurationError:
    """Return what `connect` raises, as it raises it."""
    try:
        try:
            raise OperationFailure("Authentication failed.", 18)
        except OperationFailure:
            raise ConfigurationError("the server refused the credentials of 'bob'") from None
    except ConfigurationError as error:
        return error


@pytest.mark.parametrize(
    ("error", "steps"),
    [
        (ConfigurationError("bad URL"), ["configuration"]),
        (ServerUnreachable("nobody"), ["configuration", "connection"]),
        (AutoReconnect("it has gone"), ["configuration", "connection"]),
        (refused_credentials(), ["configuration", "connection", "authentication"]),
        (OperationFailure("who?", 13), ["configuration", "connection", "authentication"]),
    ],
)
def test_url_connection_and_credentials_are_told_apart(error: Any, steps: list[str]) -> None:
    findings = list(unreached(Target(), error))
    assert [finding.check for finding in findings] == steps
    assert [finding.status for finding in findings] == ["ok"] * (len(steps) - 1) + ["error"]
    assert findings[-1].advice


@pytest.mark.parametrize(
    ("hello", "build", "status", "said"),
    [
        (PRIMARY, BUILD, "ok", "version 8.0.4, replica set 'rs0'"),
        ({"msg": "isdbgrid", "ismaster": True, "maxWireVersion": 9}, BUILD, "ok", "sharded"),
        ({"ismaster": True, "maxWireVersion": 8}, BUILD, "warning", "standalone"),
        (PRIMARY, {**BUILD, "secantusVersion": "0.7.0b3"}, "warning", "SecantusDB 0.7.0b3"),
        ({**PRIMARY, "ismaster": False}, BUILD, "error", "replica set"),
        ({**PRIMARY, "maxWireVersion": 7}, {"version": "4.0.28"}, "error", "4.0.28"),
    ],
)
def test_server_is_judged_by_kind_and_version(
    hello: Mapping[str, Any], build: Mapping[str, Any], status: Status, said: str
) -> None:
    finding = judge_server(hello, build)
    assert finding.status == status
    assert said in finding.detail
    assert (finding.advice is None) == (status == "ok")


@pytest.mark.parametrize(
    ("skew", "error", "status", "said"),
    [
        (0.4, 0.001, "ok", "0.400 s ahead of"),
        (-0.9, 0.001, "ok", "0.900 s behind"),
        (300.0, 0.001, "warning", "300.000 s ahead of"),
        (-300.0, 0.001, "warning", "300.000 s behind"),
        (1.2, 0.5, "ok", "give or take 0.500 s"),  # a slow network tells no more
    ],
)
def test_skew_is_told_and_a_warning_above_a_second(
    skew: float, error: float, status: Status, said: str
) -> None:
    finding = judge_skew(skew, error)
    assert finding.status == status
    assert said in finding.detail
    assert finding.data == {"skew": skew, "error": error}


def test_database_without_anything_is_a_warning() -> None:
    assert judge_settings({}, 0.0).status == "warning"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (None, "messages: 1 partition"),
        ({"partitions": 8}, "messages: 8 partitions"),
        (
            {"partitions": 8, "former": 4, "switch_at": 130.0, "span": 8},
            "messages: 8 partitions in 30 s, 4 until then",
        ),
        (
            {"partitions": 4, "former": 8, "switch_at": 50.0, "span": 8},
            "messages: 4 partitions, claims still look into 8: pools, or repair, end that",
        ),
    ],
)
def test_settings_are_told_with_changes_under_way(
    document: Mapping[str, Any] | None, said: str
) -> None:
    finding = judge_settings({"messages": document}, 100.0)
    assert (finding.status, finding.detail) == ("ok", said)


def test_settings_that_make_no_sense_are_an_error() -> None:
    finding = judge_settings({"jobs": {"partitions": "many"}}, 100.0)
    assert finding.status == "error"
    assert "'many'" in finding.detail


def standing(models: Sequence[IndexModel]) -> list[dict[str, Any]]:
    """Return indexes as a server lists them."""
    return [{"v": 2, **schema.definition(model.document)} for model in models]


def test_indexes_that_are_there_are_all_right_with_others_beside_them() -> None:
    found = standing([*schema.LOCK_INDEXES, IndexModel([("mine", 1)])])
    finding = judge_indexes(LOCKS, {"locks": found})
    assert (finding.status, finding.detail) == ("ok", "all 2 are there")


def test_a_missing_index_is_an_error_that_names_it() -> None:
    finding = judge_indexes(LOCKS, {"locks": standing(schema.LOCK_INDEXES[1:])})
    assert finding.status == "error"
    assert finding.data["missing"] == ["locks {'partition': 1, 'priority': -1, 'available_at': 1}"]
    assert "fairlane repair" in (finding.advice or "")


@pytest.mark.parametrize(
    "other",
    [
        {"hidden": True},
        {"unique": True},
        {"name": "another name"},
        {"key": {"priority": -1, "partition": 1, "available_at": 1}},
    ],
)
def test_an_index_that_is_defined_otherwise_is_an_error(other: dict[str, Any]) -> None:
    first, second = standing(schema.LOCK_INDEXES)
    finding = judge_indexes(LOCKS, {"locks": [{**first, **other}, second]})
    assert finding.status == "error"
    assert len(finding.data["different"]) == 1


@pytest.mark.parametrize(
    ("chosen", "may_update", "status", "said"),
    [
        ({}, True, "ok", "programs will use update_one"),
        ({"messages": "update_one"}, True, "ok", "messages by update_one"),
        ({"messages": "find_one_and_update"}, False, "ok", "messages by find_one_and_update"),
        ({"messages": "update_one", "jobs": "find_one_and_update"}, True, "warning", "better"),
    ],
)
def test_strategy_is_a_warning_where_the_better_one_lacks_its_index(
    chosen: Mapping[str, Strategy], may_update: bool, status: Status, said: str
) -> None:
    finding = judge_strategy(chosen, may_update=may_update)
    assert finding.status == status
    assert said in finding.detail


class Silent:
    """A collection whose writes nobody acknowledges."""

    async def insert(self, documents: object) -> None:
        raise NetworkTimeout("timed out")


async def test_a_write_that_no_majority_acknowledges_is_an_error() -> None:
    client = SimpleNamespace(write_concern=WriteConcern(w=1, j=True))
    deployment: Any = SimpleNamespace(driver=SimpleNamespace(client=client))
    silent: Any = Silent()
    finding = await write_concern(deployment, silent)
    assert finding.status == "error"
    assert finding.data["write_concern"] == {"w": "majority", "j": True}


def claims(*leased: int, attempts: int = 1) -> Claims:
    documents = [{"_id": number, "attempts": 1} for number in range(DOCUMENTS - 1)]
    documents.append({"_id": DOCUMENTS - 1, "attempts": attempts})
    return Claims(leased=leased, documents=documents, seconds=0.5)


@pytest.mark.parametrize(
    ("race", "status", "said"),
    [
        (claims(*range(DOCUMENTS)), "ok", f"({2 * DOCUMENTS} claims/s)"),
        # two claims returned one document
        (claims(*range(DOCUMENTS), 5), "error", "1 were leased more than once"),
        # two claims have written it, and one of them noticed
        (claims(*range(DOCUMENTS), attempts=2), "error", "1 were leased more than once"),
        (claims(*range(DOCUMENTS - 3)), "error", f"{DOCUMENTS - 3} leases were returned"),
    ],
)
def test_claims_are_atomic_if_each_document_was_leased_once(
    race: Claims, status: Status, said: str
) -> None:
    finding = judge_claims(race, "update_one")
    assert finding.status == status
    assert said in finding.detail
    assert f"{CLAIMERS} claimers" in finding.detail


@pytest.mark.parametrize(
    ("strategy", "said"),
    [("update_one", 'strategy="find_one_and_update"'), ("find_one_and_update", "no lease is safe")],
)
def test_advice_for_a_server_without_atomic_claims_names_the_other_one_if_there_is_one(
    strategy: str, said: str
) -> None:
    finding = judge_claims(claims(*range(DOCUMENTS), 5), strategy)
    assert said in (finding.advice or "")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (OperationFailure("not authorized", 13), "warning"),
        (OperationFailure("odd", 8), "error"),
        (AutoReconnect("it has gone"), "error"),
        (ConfigurationError("odd"), "error"),
    ],
)
def test_a_check_that_cannot_be_made_says_why(error: Exception, status: Status) -> None:
    finding = failure("indexes", error)
    assert (finding.check, finding.status) == ("indexes", status)
    assert str(error) in finding.detail
    assert finding.advice


def finding(status: Status) -> Finding:
    return Finding(check="clock", status=status, detail="\x1b[2J", advice="do", data={"a": 1})


@pytest.mark.parametrize(
    ("statuses", "expected", "number"),
    [
        (["ok", "ok"], "ok", 0),
        (["ok", "warning", "ok"], "warning", 1),
        (["warning", "error", "ok"], "error", 2),
    ],
)
def test_exit_status_is_that_of_the_worst_finding(
    monkeypatch: pytest.MonkeyPatch, statuses: list[Status], expected: Status, number: int
) -> None:
    async def examine(target: Target, note: Note, *, wanted: Strategy) -> None:
        for status in statuses:
            note(finding(status))

    monkeypatch.setattr(command, "examine", examine)
    assert worst(map(finding, statuses)) == expected
    run = CliRunner().invoke(app, ["doctor"])
    assert run.exit_code == number
    assert run.stdout.count(r"\x1b[2J") == len(statuses)
    run = CliRunner().invoke(app, ["doctor", "--json"])
    assert run.exit_code == number
    printed = json.loads(run.stdout)
    assert printed["status"] == expected
    assert [check["status"] for check in printed["checks"]] == statuses
    assert printed["checks"][0].keys() == {"check", "status", "detail", "advice", "data"}


def test_a_wrong_strategy_is_2() -> None:
    assert CliRunner().invoke(app, ["doctor", "--strategy", "hope"]).exit_code == 2
