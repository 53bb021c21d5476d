"""`fairlane demo` as a person runs it: a process, its output, its status, what it leaves."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest

DEMO = [sys.executable, "-m", "fairlane", "demo"]
KEYS = {
    *("published", "processed", "groups", "out_of_order", "overlapping", "lost", "redelivered"),
    *("dead", "workers", "processes", "seconds", "publish_per_s", "process_per_s"),
    *("p50_ms", "p95_ms", "p99_ms", "server", "driver", "ok"),
}

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """All temporary files of the command go to `tmp_path`, which also marks its processes."""
    kept = {key: value for key, value in os.environ.items() if key != "FAIRLANE_URL"}
    return {**kept, "TMPDIR": str(tmp_path)}


Demo = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def demo(environment: dict[str, str], tmp_path: Path) -> Demo:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*DEMO, *arguments],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
        )

    return run


@pytest.fixture
def running(environment: dict[str, str], tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        DEMO, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def marked_processes(mark: Path) -> list[int]:
    """Return the processes that inherited our environment, wherever they were moved since."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(mark).encode() in environ.read_bytes():
                found.append(int(environ.parent.name))
        except OSError:
            continue
    return found


needs_proc = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc")


@pytest.mark.parametrize("driver", ["motor", "pymongo"])
def test_a_run_with_a_kill_keeps_every_promise(demo: Demo, driver: str) -> None:
    done = demo("--json", "--limit", "100", "--driver", driver)
    result = json.loads(done.stdout)
    assert (done.returncode, result["ok"], result.keys()) == (0, True, KEYS), done.stderr
    assert (result["published"], result["processed"], result["driver"]) == (100, 100, driver)
    assert (result["workers"], result["processes"]) == (64, 2)
    assert "killed worker-1" in done.stderr


@needs_proc
def test_a_run_of_jobs_with_a_kill_keeps_every_promise(demo: Demo, tmp_path: Path) -> None:
    done = demo("--jobs", "--json", "--limit", "40", "--workers", "8", "--driver", "pymongo")
    result = json.loads(done.stdout)
    assert (done.returncode, result["ok"]) == (0, True), done.stderr
    assert (result["done"], result["failed"], result["duplicates"]) == (36, 4, 6)
    assert result["starts"] > 40
    assert "killed worker-1" in done.stderr
    assert (marked_processes(tmp_path), list(tmp_path.iterdir())) == ([], [])


@needs_proc
def test_a_run_leaves_no_process_and_no_file_behind(demo: Demo, tmp_path: Path) -> None:
    done = demo("--no-kill", "--limit", "60", "--workers", "3", "--processes", "3")
    assert (done.returncode, "killed" in done.stderr) == (0, False), done.stderr
    assert "every group in publish order" in done.stdout
    assert (marked_processes(tmp_path), list(tmp_path.iterdir())) == ([], [])


def test_real_input_may_hold_any_json(demo: Demo, tmp_path: Path) -> None:
    bodies = [None, True, -(2**63), 1.5, "☕", [[]], {"$set": {"a.b": {"": "$$NOW"}}}]
    lines = [json.dumps({"group": group, "event": body}) for body in bodies for group in ("", "$a")]
    source = tmp_path / "events.jsonl"
    source.write_text("\n".join(lines))
    done = demo("--json", "--no-kill", "--workers", "4", "--input", str(source))
    assert (done.returncode, json.loads(done.stdout)["processed"]) == (0, 14), done.stderr


def test_a_bad_line_is_an_error_before_anything_starts(demo: Demo, tmp_path: Path) -> None:
    source = tmp_path / "events.jsonl"
    source.write_text('{"group": "a", "event": 1}\n\n{"group": "a"\n')
    done = demo("--json", "--input", str(source))
    assert (done.returncode, done.stdout) == (2, "")
    assert "line 3: not JSON" in done.stderr


@needs_proc
@pytest.mark.parametrize(
    ("moment", "number"), [("events in", signal.SIGINT), ("killed worker-1", signal.SIGTERM)]
)
def test_impatient_signals_leave_no_process_and_no_file_behind(
    running: "subprocess.Popen[str]", tmp_path: Path, moment: str, number: signal.Signals
) -> None:
    wait_for_line(running.stderr, moment)
    deadline = time.monotonic() + 30
    while running.poll() is None and time.monotonic() < deadline:  # to its very last moment
        running.send_signal(number)
        time.sleep(0.001)
    assert running.returncode == 128 + number
    assert (marked_processes(tmp_path), list(tmp_path.iterdir())) == ([], [])


@needs_proc
def test_no_process_outlives_a_killed_demo(
    running: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    wait_for_line(running.stderr, "killed worker-1")
    running.kill()
    deadline = time.monotonic() + 30
    while marked_processes(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert marked_processes(tmp_path) == []


def wait_for_line(lines: IO[str] | None, text: str) -> None:
    assert lines is not None
    seen = []
    for line in lines:
        seen.append(line)
        if text in line:
            return
    pytest.fail(f"ended without {text!r}: {''.join(seen)}")


async def test_a_given_server_keeps_its_databases_and_gets_rid_of_the_demo_s(
    demo: Demo, fairlane_url: str, connect: Callable[..., Any], db_name: str
) -> None:
    client = connect("pymongo")
    await client[db_name].mine.insert_one({"_id": 1})
    done = demo("--json", "--limit", "100", "--no-kill", "--url", fairlane_url)
    result = json.loads(done.stdout)
    assert (done.returncode, result["ok"]) == (0, True), done.stderr
    assert ":" in result["server"].partition(" ")[0]  # its address
    names = await client.list_database_names()
    assert [name for name in names if name.startswith("fairlane_demo_")] == []
    assert await client[db_name].list_collection_names() == ["mine"]


def test_an_unreachable_server_is_named_without_the_password(demo: Demo) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        done = demo("--json", "--url", f"mongodb://bob:s3cr3t@{address}/")
    assert (done.returncode, done.stdout) == (1, "")
    assert address in done.stderr
    assert "s3cr3t" not in done.stderr


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_a_missing_extra_is_named_with_the_command_that_installs_it(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; import fairlane.cli as c; c.main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"needs {missing}" in done.stderr
    assert "pip install 'fairlane[cli]'" in done.stderr
