"""The operator's commands as processes: signals, pipes, and servers that are not there."""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from fairlane.cli.publish import CHUNK

FAIRLANE = [sys.executable, "-m", "fairlane"]
SECONDS = 45

Server = MongoClient[dict[str, Any]]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def environment(fairlane_url: str, db_name: str, janitor: Server) -> Iterator[dict[str, str]]:
    """Name a database that holds one message which nobody claims."""
    where = {"FAIRLANE_URL": fairlane_url, "FAIRLANE_DB": db_name, "FAIRLANE_PREFIX": "p"}
    janitor[db_name].p_messages.insert_one({"_id": 1, "group_id": "g", "event": 1})
    janitor[db_name].p_locks.insert_one({"_id": "g", "available_at": 0.0, "token": None})
    yield {**os.environ, **where, "TERM": "xterm"}
    janitor.drop_database(db_name)


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    """Start a command with pipes; end what a failed test leaves."""
    started: list[subprocess.Popen[str]] = []

    def open_process(*arguments: str, **options: Any) -> "subprocess.Popen[str]":
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        process = subprocess.Popen([*FAIRLANE, *arguments], env=environment, text=True, **pipes)
        started.append(process)
        return process

    yield open_process
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_watch_in_good_order(
    start: Start, number: signal.Signals, status: int
) -> None:
    watching = start("stats", "--watch", "--json", "--interval", "0.1")
    assert watching.stdout is not None
    first, second = (json.loads(watching.stdout.readline()) for _ in range(2))
    assert first["messages"]["ready"] == second["messages"]["ready"] == 1
    watching.send_signal(number)
    _, errors = watching.communicate(timeout=SECONDS)
    assert (watching.returncode, errors) == (status, "")


def test_the_live_table_gives_the_terminal_back(start: Start) -> None:
    mine, its = pty.openpty()
    watching = start("stats", "--watch", "--interval", "0.1", stdout=its)
    os.close(its)
    shown = b""
    while b"oldest" not in shown:
        shown += os.read(mine, 65_536)
    watching.send_signal(signal.SIGINT)
    _, errors = watching.communicate(timeout=SECONDS)
    shown += os.read(mine, 65_536)
    os.close(mine)
    assert (watching.returncode, errors) == (0, "")
    hidden, shown_again = shown.rfind(b"\x1b[?25l"), shown.rfind(b"\x1b[?25h")
    assert -1 < hidden < shown_again


def test_a_reader_that_has_gone_ends_the_watch_quietly(start: Start) -> None:
    watching = start("stats", "--watch", "--interval", "0.1")
    assert watching.stdout is not None
    watching.stdout.readline()
    watching.stdout.close()
    assert watching.stderr is not None
    assert watching.stderr.read() == ""
    assert watching.wait(SECONDS) == 141


def test_a_reader_that_has_gone_does_not_keep_a_file_from_being_published(
    start: Start, janitor: Server, db_name: str, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"group": "g", "event": 1}\n' * (CHUNK + 1))
    publishing = start("publish", "--input", str(events), "--prefix", "other")
    assert publishing.stdout is not None
    publishing.stdout.close()
    assert publishing.stderr is not None
    assert publishing.stderr.read() == ""
    assert publishing.wait(SECONDS) == 0
    assert janitor[db_name].other_messages.count_documents({}) == CHUNK + 1


def test_a_server_that_is_not_there_is_named_without_a_traceback(start: Start) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        asking = start("stats", "--url", f"mongodb://bob:s3cr3t@{address}", "--timeout", "0.3")
        output, errors = asking.communicate(timeout=SECONDS)
    assert (asking.returncode, output, len(errors.splitlines())) == (1, "", 1)
    assert errors.startswith(f"fairlane stats: no server at mongodb://{address} within 0.3 s")


def test_ctrl_c_in_the_doctors_race_leaves_no_collection(
    start: Start, janitor: Server, db_name: str
) -> None:
    probing = start("doctor")
    assert probing.stdout is not None
    for line in probing.stdout:
        if "write concern" in line:
            break
    probing.send_signal(signal.SIGINT)
    probing.communicate(timeout=SECONDS)
    assert probing.returncode in (1, 130)  # it may have been quicker
    names = janitor[db_name].list_collection_names()
    assert [name for name in names if "doctor" in name] == []
