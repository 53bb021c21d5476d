"""Which program is started, and what is refused before anything starts."""

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from fairlane import ConfigurationError
from fairlane.testing import LocalServer, _programs, local_server


@pytest.fixture
def empty_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")


STAND_IN = """#!{python}
import pathlib, runpy, sys
value = dict(zip(sys.argv[1:], sys.argv[2:], strict=False))
initiated = pathlib.Path(value["--dbpath"], "initiated")
address = value["--bind_ip"] + ":" + value["--port"]
wanted = {{"_id": value["--replSet"], "members": [{{"_id": 0, "host": address}}]}}

def initiate(command, context):
    if initiated.exists():
        return {{"ok": 0.0, "code": 23, "errmsg": "already initialized"}}
    if command["replSetInitiate"] != wanted:
        return {{"ok": 0.0, "code": 93, "errmsg": "bad configuration"}}
    initiated.touch()
    return {{"ok": 1.0}}

import secantus.commands
secantus.commands._HANDLERS["replSetInitiate"] = initiate
sys.argv[1:] = ["--plain", "--port", value["--port"], "--folder", value["--dbpath"]]
runpy.run_module("fairlane.testing._secantus", run_name="__main__")
"""


@pytest.fixture
def mongod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `mongod` on the PATH that understands MongoDB's command line and is another server."""
    program = tmp_path / "mongod"
    program.write_text(STAND_IN.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return program


def test_mongod_on_the_path_comes_first(mongod: Path) -> None:
    program = _programs.choose(plain=False, sync_on_commit=False)

    assert program.command[0] == str(mongod)


def test_mongod_is_started_as_a_replica_set_of_one() -> None:
    program = _programs.mongod("/usr/bin/mongod")

    assert program.command[:9] == (
        *("/usr/bin/mongod", "--dbpath", "{folder}", "--port", "{port}"),
        *("--bind_ip", "127.0.0.1", "--replSet", "fairlane"),
    )
    assert program.replica_set == "fairlane"


def test_mongod_allows_fail_points_and_leaves_no_socket_file() -> None:
    command = _programs.mongod("mongod").command

    assert "enableTestCommands=1" in command
    assert "--nounixsocket" in command


@pytest.mark.usefixtures("mongod")
def test_mongod_is_initiated_once_and_named_with_its_version() -> None:
    with local_server() as server:
        server.restart()

        assert re.fullmatch(r"mongod \d.*", server.name)


@pytest.mark.usefixtures("empty_path")
def test_options_reach_the_launcher() -> None:
    program = _programs.choose(plain=True, sync_on_commit=True)

    assert program.command[-2:] == ("--plain", "--sync-on-commit")


@pytest.mark.usefixtures("empty_path")
def test_a_machine_without_a_server_is_told_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(_programs, "version", version)

    with pytest.raises(ConfigurationError, match=r"pip install 'fairlane\[server\]'.*") as caught:
        local_server()
    assert "`mongod` on the PATH" in str(caught.value)


@pytest.mark.usefixtures("empty_path")
def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_programs, "version", lambda name: "0.8.0")

    with pytest.raises(ConfigurationError, match=r"secantusdb==0\.7\.0b3 only, not 0\.8\.0"):
        local_server()


def test_the_launcher_refuses_another_version(tmp_path: Path) -> None:
    info = tmp_path / "secantusdb-0.8.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: secantusdb\nVersion: 0.8.0\n")

    ended = subprocess.run(
        [sys.executable, "-m", "fairlane.testing._secantus", "--port", "1", "--folder", tmp_path],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 2
    assert "secantusdb==0.7.0b3 only, not 0.8.0" in ended.stderr


def test_the_url_finds_a_new_primary_fast() -> None:
    with LocalServer(_programs.secantus(plain=False, sync_on_commit=False)) as server:
        assert "heartbeatFrequencyMS=500" in server.url
        assert "retryWrites" not in server.url
