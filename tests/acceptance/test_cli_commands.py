"""The operator's commands on a server: what they print, what they change, and what they leave."""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pymongo import MongoClient
from pymongo.operations import IndexModel
from typer.testing import CliRunner, Result

from fairlane import AsyncJobQueue, AsyncMongoTransport, MongoTransport, schema
from fairlane.cli.app import app
from fairlane.cli.doctor.examination import examine
from fairlane.cli.doctor.finding import Finding
from fairlane.cli.target import Target
from fairlane.testing import local_server

Run = Callable[..., Result]
Server = MongoClient[dict[str, Any]]


@pytest.fixture
def run(fairlane_url: str, db_name: str, janitor: Server) -> Iterator[Run]:
    """Type a command about a database of this test."""

    def typed(*arguments: str, typed: str | bytes = "", status: int = 0) -> Result:
        where = {"FAIRLANE_URL": fairlane_url, "FAIRLANE_DB": db_name, "FAIRLANE_PREFIX": None}
        result = CliRunner().invoke(app, arguments, input=typed, env=where)
        assert result.exit_code == status, result.output
        return result

    yield typed
    janitor.drop_database(db_name)


@pytest.fixture
async def filled(connect: Any, db_name: str) -> None:
    """Dead letters in two groups, failed jobs of two types, and one that is ready."""
    client = connect("pymongo")
    async with AsyncMongoTransport[Any](client, db_name) as transport:
        await transport.publish_many([("a", {"n": 1}), ("a", {"n": 2}), ("b", {"n": 3})])
        while lease := await transport.claim("w"):
            await transport.dead_letter(lease, "line 1\nline 2")
    async with AsyncJobQueue(client, db_name) as queue:
        await queue.enqueue({"to": "ann"}, "email")
        await queue.enqueue({"to": "bob"}, "thumb")
        while job := await queue.claim():
            await queue.fail(job, error="no such address")
        await queue.enqueue({"to": "cid"}, "email")


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_published_events_wait_in_order_and_are_counted(run: Run, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"group": "a", "event": 2}\n{"group": "b", "event": 3, "priority": 4}\n')
    assert run("publish", "a", '{"at": {"$date": "2026-12-01T00:00:00Z"}}').stdout == "1\n"
    assert objects(run("publish", "--input", str(events), "--json")) == [
        {"seq": 2, "group_id": "a"},
        {"seq": 3, "group_id": "b"},
    ]
    assert run("publish", "a", "-", typed='"four"').stdout == "4\n"
    (stats,) = objects(run("stats", "--json"))
    assert stats["jobs"] is None
    assert stats["messages"].items() >= {"groups": 2, "ready": 2, "messages": 4, "dead": 0}.items()
    assert stats["messages"]["ready_by_priority"] == {"4": 1, "0": 1}


def test_message_id_makes_a_repeated_publish_one_message(run: Run) -> None:
    first = run("publish", "a", "1", "--message-id", "m").stdout
    assert run("publish", "a", "1", "--message-id", "m").stdout == first
    assert "'m'" in run("publish", "b", "1", "--message-id", "m", status=1).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("stats",),
        ("stats", "--watch"),
        ("dead", "list"),
        ("dead", "show", "1"),
        ("dead", "redrive", "--all"),
        ("dead", "list", "--jobs"),
        ("repair",),
        ("doctor",),
    ],
    ids=" ".join,
)
def test_a_wrong_name_is_told_and_nothing_is_created(
    run: Run, janitor: Server, db_name: str, arguments: tuple[str, ...]
) -> None:
    result = run(*arguments, status=1)
    assert f"{db_name!r}, prefix 'fairlane'" in result.output
    assert janitor[db_name].list_collection_names() == []


def test_letter_that_stops_its_group_is_told_of_and_let_go_on(
    fairlane_url: str, db_name: str, run: Run
) -> None:
    with MongoTransport.from_url(fairlane_url, db_name, dead_head="stop") as transport:
        transport.publish("g", 1)
        for _ in range(2):
            _die(transport)
            (letter,) = objects(run("dead", "list", "--json"))
            assert "is stopping   True" in run("dead", "show", str(letter["seq"])).stdout
            run("dead", "redrive", str(letter["seq"]))
        assert letter["seq"] < 0  # it came back to the front before it died again
        _die(transport)
        assert "yes" in run("dead", "list").stdout
        assert json.loads(run("stats", "--json").stdout)["messages"]["stopped"] == 1
        run("dead", "resume", "g")
        assert not transport.resume("g")
    assert "is not stopped" in run("dead", "resume", "g", status=1).stderr


def _die(transport: MongoTransport[Any]) -> None:
    lease = transport.claim("w")
    assert lease is not None
    assert transport.dead_letter(lease, "because")


@pytest.mark.usefixtures("filled")
def test_dead_letters_are_listed_shown_and_redriven(run: Run) -> None:
    listed = objects(run("dead", "list", "--json"))
    assert [(each["seq"], each["group_id"]) for each in listed] == [(1, "a"), (2, "a"), (3, "b")]
    assert objects(run("dead", "show", "2", "--json")) == [listed[1]]
    assert "reason        line 1\nline 2\n" in run("dead", "show", "2").stdout
    assert r"line 1\nline 2" in run("dead", "list", "--group", "b").stdout
    assert "there are more than 2" in run("dead", "list", "--limit", "2").stderr
    assert (
        "no dead letter 2 of group 'b'" in run("dead", "show", "2", "--group", "b", status=1).stderr
    )
    assert run("dead", "redrive", "--group", "b").stdout == "1\n"
    again = run("dead", "redrive", "1", "3", status=1)
    assert (again.stdout, "no dead letter 3" in again.stderr) == ("1\n", True)
    assert objects(run("dead", "redrive", "--all", "--json")) == [{"redriven": 1}]
    assert "there is no dead letter" in run("dead", "list").stderr
    (stats,) = objects(run("stats", "--json"))
    assert (stats["messages"]["messages"], stats["messages"]["dead"]) == (3, 0)


@pytest.mark.usefixtures("filled")
def test_failed_jobs_are_listed_shown_and_redriven(run: Run) -> None:
    (email,) = objects(run("dead", "list", "--type", "email", "--json"))
    assert len(objects(run("dead", "list", "--jobs", "--json"))) == 2  # and not what is ready
    assert email.items() >= {"last_error": "no such address", "attempts": 1}.items()
    (shown,) = objects(run("dead", "show", email["id"], "--jobs", "--json"))
    assert (shown["payload"], shown["state"]) == ({"to": "ann"}, "failed")
    assert "token" not in shown
    run("dead", "show", email["id"], "--type", "thumb", status=1)
    assert run("dead", "redrive", email["id"], "--jobs").stdout == "1\n"
    run("dead", "redrive", email["id"], "--jobs", status=1)
    assert run("dead", "redrive", "--jobs", "--all").stdout == "1\n"
    (stats,) = objects(run("stats", "--json"))
    assert (stats["jobs"]["ready"], stats["jobs"]["failed"]) == (3, 0)


def test_repair_makes_a_message_claimable_whose_publisher_died(
    run: Run, janitor: Server, db_name: str
) -> None:
    run("publish", "a", "1")
    janitor[db_name].fairlane_locks.delete_many({})
    janitor[db_name].fairlane_messages.update_many({}, {"$inc": {"published_at": -100.0}})
    (done,) = objects(run("repair", "--json"))
    assert (done["messages"]["repaired"], done["jobs"]) == (1, None)
    assert objects(run("stats", "--json"))[0]["messages"]["ready"] == 1


def findings(result: Result) -> dict[str, dict[str, Any]]:
    return {check["check"]: check for check in json.loads(result.stdout)["checks"]}


@pytest.mark.usefixtures("filled")
def test_doctor_finds_all_well_but_the_kind_of_server_and_touches_nothing(
    run: Run, janitor: Server, db_name: str
) -> None:
    def snapshot() -> dict[str, list[dict[str, Any]]]:
        database = janitor[db_name]
        return {name: list(database[name].find()) for name in database.list_collection_names()}

    before = snapshot()
    found = findings(run("doctor", "--json", status=1))
    assert snapshot() == before
    assert list(found)[-1] == "atomicity"
    assert {name for name, each in found.items() if each["status"] != "ok"} <= {"server"}
    assert found["atomicity"]["data"].items() >= {"claims": 48, "shared": 0}.items()
    assert abs(found["clock"]["data"]["skew"]) < 1.0
    assert found["indexes"]["detail"] == "all 11 are there"


def test_doctor_finds_the_index_that_is_missing_and_repair_creates_it(
    run: Run, janitor: Server, db_name: str
) -> None:
    run("publish", "a", "1")
    janitor[db_name].fairlane_messages.drop_index("group_id_1__id_1")
    found = findings(run("doctor", "--json", status=2))["indexes"]
    assert (found["status"], found["data"]["missing"]) == (
        "error",
        ["messages {'group_id': 1, '_id': 1}"],
    )
    forced = findings(run("doctor", "--json", "--strategy", "update_one", status=2))["indexes"]
    assert "locks {'token': 1}" in forced["data"]["missing"]
    run("repair", "--no-indexes")
    assert findings(run("doctor", "--json", status=2))["indexes"]["status"] == "error"
    run("repair")
    assert findings(run("doctor", "--json", status=1))["indexes"]["status"] == "ok"


def test_an_index_in_the_way_is_shown_by_doctor_and_refused_by_repair(
    run: Run, janitor: Server, db_name: str
) -> None:
    run("publish", "a", "1")
    locks = janitor[db_name].fairlane_locks
    (name,) = (each["name"] for each in locks.list_indexes() if "partition" in each["key"])
    locks.drop_index(name)
    keys = list(schema.LOCK_INDEXES[0].document["key"].items())
    locks.create_indexes([IndexModel(keys, sparse=True, name=name)])
    assert findings(run("doctor", "--json", status=2))["indexes"]["data"]["different"]
    assert "stands in the way" in run("repair", status=2).stderr


def test_doctor_says_which_settings_make_no_sense(run: Run, janitor: Server, db_name: str) -> None:
    run("publish", "a", "1")
    counters = janitor[db_name].fairlane_counters
    counters.update_one({"_id": "settings"}, {"$set": {"partitions": "many"}})
    assert "'many'" in findings(run("doctor", "--json", status=2))["settings"]["detail"]
    assert "'many'" in run("stats", status=2).stderr


class Findings(dict[str, Finding]):
    def note(self, finding: Finding) -> None:
        self[finding.check] = finding


async def test_who_may_not_write_is_told_so_and_nothing_is_left(
    fairlane_url: str, db_name: str, janitor: Server, fail_command: Any
) -> None:
    found = Findings()
    await fail_command("insert", errorCode=13)
    await examine(Target(url=fairlane_url, db_name=db_name), found.note)
    assert found["write concern"].status == "warning"
    assert "readWrite" in (found["write concern"].advice or "")
    assert "atomicity" not in found
    assert janitor[db_name].list_collection_names() == []


@pytest.mark.parametrize("offset", [-300.0, 300.0])
async def test_doctor_reports_how_far_this_machines_clock_is_off(
    fairlane_url: str, db_name: str, offset: float
) -> None:
    found = Findings()
    target = Target(url=fairlane_url, db_name=db_name)
    await examine(target, found.note, wall=lambda: time.time() + offset)
    assert found["clock"].status == "warning"
    assert found["clock"].data["skew"] == pytest.approx(offset, abs=1.0)
    assert "NTP" in (found["clock"].advice or "")
    assert found["atomicity"].status == "ok"


@pytest.mark.parametrize(
    ("url", "check"),
    [
        ("mongodb://bob:s3cr3t@{}", "authentication"),
        ("mongodb://bob:s3cr3t@{}x", "configuration"),
        ("mongodb://bob:s3cr3t@{}/?w=0", "configuration"),
        ("mongodb://bob:s3cr3t@127.0.0.1:1", "connection"),
    ],
)
def test_what_is_wrong_on_the_way_to_the_server_is_told_without_the_password(
    run: Run, fairlane_url: str, url: str, check: str
) -> None:
    there = (
        "--url",
        url.format(urlsplit(fairlane_url).netloc.rpartition("@")[2]),
        "--timeout",
        "0.3",
    )
    result = run("doctor", "--json", *there, status=2)
    assert list(findings(result))[-1] == check
    refused = run("stats", *there, status=1 if check == "connection" else 2)
    assert len(refused.stderr.splitlines()) == 1
    assert "s3cr3t" not in result.output + refused.output


@pytest.fixture(scope="module")
def plain_url() -> Iterator[str]:
    if os.environ.get("FAIRLANE_TEST_URL"):
        pytest.skip("FAIRLANE_TEST_URL names the one server to test")
    with local_server(plain=True) as server:
        if not server.name.startswith("SecantusDB"):
            pytest.skip("mongod is on the PATH: its claims are atomic")
        yield server.url


def test_doctor_finds_claims_that_are_not_atomic(run: Run, plain_url: str) -> None:
    racing = ("doctor", "--json", "--url", plain_url, "--strategy")
    found = findings(run(*racing, "update_one", status=2))["atomicity"]
    assert (found["status"], found["data"]["shared"] > 0) == ("error", True)
    assert findings(run(*racing, "auto", status=1))["atomicity"]["status"] == "ok"
