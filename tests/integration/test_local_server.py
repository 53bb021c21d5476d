"""The life of a local server: it answers on entry and leaves nothing behind."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest
from pymongo import MongoClient
from pymongo.errors import ServerSelectionTimeoutError

from fairlane import FairlaneError, ServerUnreachable
from fairlane.testing import LocalServer, _server, local_server
from fairlane.testing._programs import Program, secantus


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the servers of a test put their temporary folders."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def ping(url: str) -> bool:
    with MongoClient[dict[str, Any]](url) as client:
        return bool(client.admin.command("ping")["ok"])


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def port_of(server: LocalServer) -> int:
    return int(server.url.split(":")[2].split("/")[0])


def test_answers_on_entry() -> None:
    with local_server() as server:
        assert ping(server.url)


async def test_answers_on_asynchronous_entry() -> None:
    async with local_server() as server:
        assert await anyio.to_thread.run_sync(ping, server.url)


def test_says_what_it_is() -> None:
    with LocalServer(secantus(plain=False, sync_on_commit=False)) as server:
        assert server.name == "SecantusDB 0.7.0b3 (repaired planner)"


def test_says_that_it_is_plain() -> None:
    with LocalServer(secantus(plain=True, sync_on_commit=False)) as server:
        assert server.name == "SecantusDB 0.7.0b3 (plain)"


def test_leaves_no_process_and_no_folder(folder: Path) -> None:
    with local_server() as server:
        pid = server.pid
        assert is_running(pid)
        assert list(folder.iterdir())

    assert not is_running(pid)
    assert not list(folder.iterdir())


def test_leaves_nothing_after_an_exception(folder: Path) -> None:
    with pytest.raises(LookupError), local_server() as server:
        raise LookupError

    assert not is_running(server.pid)
    assert not list(folder.iterdir())


async def test_leaves_nothing_when_cancelled_at_any_time(folder: Path) -> None:
    for delay in (0.0, 0.05, 0.2):
        with anyio.move_on_after(delay):
            async with local_server():
                await anyio.sleep_forever()

    assert not os.listdir(folder)


def test_two_run_beside_each_other() -> None:
    with local_server() as one, local_server() as other:
        assert one.url != other.url
        assert ping(one.url)
        assert ping(other.url)


def test_is_not_entered_twice() -> None:
    with local_server() as server, pytest.raises(FairlaneError, match="runs already"):
        server.__enter__()


def test_can_be_entered_again_after_its_end() -> None:
    server = local_server()
    with server:
        pass

    with server:
        assert ping(server.url)


def test_commands_need_a_running_server() -> None:
    with pytest.raises(FairlaneError, match="enter it with `with`"):
        local_server().kill()


def test_acknowledged_writes_survive_a_crash_with_sync_on_commit() -> None:
    with local_server(sync_on_commit=True) as server:
        url, pid = server.url, server.pid
        with MongoClient[dict[str, Any]](url) as client:
            for number in range(50):
                client.app.things.insert_one({"_id": number})
            server.kill()
            assert not is_running(pid)

            server.restart()

            assert server.url == url
            assert client.app.things.count_documents({}) == 50


def test_restart_ends_a_running_server_first() -> None:
    with local_server() as server:
        pid = server.pid

        server.restart()

        assert not is_running(pid)
        assert ping(server.url)


def test_a_paused_server_answers_when_it_is_resumed() -> None:
    with local_server() as server:
        server.pause()
        with pytest.raises(ServerSelectionTimeoutError):
            ping(f"{server.url}&serverSelectionTimeoutMS=200")

        server.resume()

        assert ping(server.url)


def test_a_paused_server_can_be_ended(folder: Path) -> None:
    with local_server() as server:
        server.pause()

    assert not is_running(server.pid)
    assert not list(folder.iterdir())


def test_a_configuration_lying_around_is_not_picked_up(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "secantusd.toml").write_text("[server]\nauth = true\n")
    monkeypatch.chdir(folder)

    with local_server() as server, MongoClient[dict[str, Any]](server.url) as client:
        client.app.things.insert_one({})


def test_a_start_that_fails_shows_the_last_words_of_the_server(folder: Path) -> None:
    script = "import sys; sys.exit('the disk is made of cheese')"
    program = Program(name="broken", command=(sys.executable, "-c", script))

    with pytest.raises(ServerUnreachable, match=r"status 1\n(.|\n)*made of cheese"):
        LocalServer(program).__enter__()

    assert not list(folder.iterdir())


def test_a_start_that_takes_too_long_is_given_up(folder: Path) -> None:
    script = "import time; print('thinking', flush=True); time.sleep(60)"
    program = Program(name="slow", command=(sys.executable, "-c", script))

    with pytest.raises(ServerUnreachable, match=r"within 0.3 s(.|\n)*thinking"):
        LocalServer(program, startup_timeout=0.3).__enter__()

    assert not list(folder.iterdir())


def test_a_port_taken_at_the_last_moment_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with local_server() as other:
        free = _server.free_port()
        ports = iter([port_of(other), free])
        monkeypatch.setattr(_server, "free_port", lambda: next(ports))

        with local_server() as server:
            assert port_of(server) == free


def test_says_that_its_keeper_was_ended_by_others() -> None:
    with local_server() as server:
        assert server._kept is not None
        keeper = server._kept._keeper
        keeper.terminate()
        keeper.wait()

        with pytest.raises(FairlaneError, match="ended by somebody else"):
            server.restart()


def test_importing_it_loads_no_server_code() -> None:
    script = "import fairlane.testing, sys; sys.exit('secantus' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
