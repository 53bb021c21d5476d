"""Every example of the documentation runs as a program of its own and prints what its page says."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from fairlane import AsyncJobQueue, AsyncMongoTransport, Jobs, Lease, NewJob, schema
from fairlane.cli.app import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"
DOCUMENTED_URL = "mongodb://localhost:27017"
SECONDS = 45


@dataclass(frozen=True)
class Run:
    """How an example is run: as a script or by pytest, what is typed, which signal ends it."""

    prints: tuple[str, ...] = ()
    typed: str = ""
    stop_after: str | None = None
    by: signal.Signals = signal.SIGTERM
    by_pytest: bool = False


@dataclass(frozen=True)
class Visit:
    """What is posted to a web application, what it answers, and what it prints when it is done."""

    path: str
    event: object
    answer: object
    prints: str
    more: tuple[str, ...] = ()
    """Paths that answer the same."""


RUNS = {
    "quickstart.py": Run(prints=("order-42 {'kind': 'paid'}",)),
    "blocking.py": Run(prints=("order-42 {'kind': 'paid'}",)),
    "job_queue.py": Run(
        prints=(
            "created 2",
            "created again: False",
            "sent to ann",
            "RETRY of cid",
            "ready 1 delayed 2 done 1",
        )
    ),
    "job_worker.py": Run(
        prints=("sent to ann@example.org attempt 2",),
        stop_after="sent to ann@example.org attempt 2\n",
    ),
    "job_listen.py": Run(
        prints=("sent to ann attempt 1", "sent to bob attempt 1"),
        stop_after="sent to bob attempt 1\n",
        by=signal.SIGINT,
    ),
    "blocking_jobs.py": Run(prints=("sent to ann", "delayed 1 done 1")),
    "blocking_types.py": Run(
        prints=(
            "pending priority 5 attempts 4",
            "{'number': 7, 'currency': 'EUR', 'due': '2030-01-31', 'total': '9.90'}",
            "cancelled True",
        )
    ),
    "blocking_threads.py": Run(prints=("done 4",)),
    "pool.py": Run(
        prints=("shipped order-42 2000", "shipped order-42 20"), stop_after="shipped order-42 20\n"
    ),
    "server.py": Run(prints=("mongodb://127.0.0.1:",), typed="\n"),
    "local_server.py": Run(prints=("published 1 to ",)),
    "first_transport.py": Run(
        prints=(
            "worker-1 holds order-42 paid",
            "worker-2 holds order-43 paid",
            "worker-3 gets None",
            "worker-3 holds order-42 shipped",
            "attempt 2 of order-43 paid",
            "ack by worker-2: False",
            "ack by worker-1: True",
            "groups left: 0",
        )
    ),
    "worker_pool.py": Run(
        prints=(
            "order-0 step 1 attempt 1",
            "order-0 step 2 attempt 2",
            "order-0 step 3 attempt 1",
            "dead: order-9 there is no step -1",
        )
    ),
    "pymongo_driver.py": Run(prints=("published 1",)),
    "own_client.py": Run(prints=("published 1",)),
    "dead_letters.py": Run(prints=("1 the total is missing 1", "moved back: 1")),
    "dead_head.py": Run(
        prints=(
            "stopped groups: 1",
            "order-42 is stopped by placed - no such customer",
            "to be claimed: None",
            "placed",
            "paid",
            "shipped",
        )
    ),
    "lease_batches.py": Run(prints=tuple(f"write line {number}" for number in range(1, 6))),
    "lanes.py": Run(prints=("reset-ann starts beside 4 imports", "handled 7")),
    "shares.py": Run(prints=("6 orders and 2 emails at work",)),
    "retries.py": Run(prints=("attempts: [1, 2, 3, 3]", "dead: no such order after 3")),
    "deploys.py": Run(
        prints=(
            *(f"attempt 1, interrupted {times} times" for times in range(3)),
            "exported shop-7 in parts",
            "left: 0",
        )
    ),
    "handlers.py": Run(
        prints=(
            "packed 42 ['pen']",
            "took less than a second",
            "packed 43 []",
            "cannot be decoded: event.number: must be int, not str",
        )
    ),
    "handler_logging.py": Run(
        prints=(
            "group=order-42 seq=1 attempt=1 charged 995",
            "group=- seq=- attempt=- closed",
        )
    ),
    "visibility.py": Run(prints=("page 0 done", "page 1 done", "page 2 done")),
    "indexes.py": Run(prints=("published 1",)),
    "wake_ups.py": Run(
        prints=(
            "order-42 {'kind': 'paid'}",
            "told by a change stream: True",
            "told by a change stream: False",
        )
    ),
    "outages.py": Run(
        prints=(
            "placed: 202",
            "handled order-42",
            "ok last answer before ",
            "placed: 503",
        )
    ),
    "partitions.py": Run(prints=("claimed order-42",)),
    "fencing.py": Run(prints=("worker-2 writes: True", "worker-1 writes: False")),
    "testing_your_code.py": Run(prints=("1 passed",), by_pytest=True),
    "testing_jobs.py": Run(prints=("1 passed",), by_pytest=True),
    "manual_clock.py": Run(prints=("1 passed",), by_pytest=True),
}
ORDER = Visit(
    path="/orders/42/events",
    event={"kind": "paid"},
    answer={"seq": 1},
    prints="handled order-42 {'kind': 'paid'}\n",
)
WEB_APPS = {
    "fastapi_app.py": ORDER,
    "aiohttp_app.py": ORDER,
    "fastapi_jobs.py": Visit(
        path="/users/ann",
        event=None,
        answer={"new": True},
        prints="welcomed ann\n",
        more=("/users/ann/reminder",),
    ),
    "web_lifespans.py": Visit(
        path="/orders/42", event=None, answer={"seq": 1}, prints="open: AsyncJobQueue\n"
    ),
}
TUTORIALS = {"shop.py"}
WORKERS = {"orders_worker.py"}
"""Run by `test_cli_worker.py`."""

Prepare = Callable[[str], Path]
Claim = Callable[..., Awaitable[Lease[Any]]]
Snapshot = Callable[[], Awaitable[dict[str, list[Any]]]]


@pytest.fixture
def prepare(fairlane_url: str, tmp_path: Path) -> Prepare:
    """Copy an example, with this test's server and database in place of the documented ones."""

    def prepare(name: str) -> Path:
        database = f'"docs_{uuid.uuid4().hex[:12]}"'
        source = re.sub('"(app|shop)"', database, (EXAMPLES / name).read_text())
        copy = tmp_path / f"test_{name}"
        copy.write_text(source.replace(DOCUMENTED_URL, fairlane_url))
        return copy

    return prepare


@pytest.fixture
def environment(fairlane_url: str) -> dict[str, str]:
    return {**os.environ, "FAIRLANE_TEST_URL": fairlane_url, "PYTHONUNBUFFERED": "1"}


def test_every_example_is_run() -> None:
    run = RUNS.keys() | WEB_APPS.keys() | TUTORIALS | WORKERS
    assert {path.name for path in EXAMPLES.glob("*.py")} == run


def test_every_example_stands_on_a_page() -> None:
    pages = "".join(page.read_text() for page in [ROOT / "README.md", *DOCS.rglob("*.md")])
    assert [path.name for path in EXAMPLES.glob("*.py") if path.name not in pages] == []


def test_no_example_drops_what_a_reader_has() -> None:
    """A reader runs them on a database of an own, too."""
    examples = [path.read_text() for path in EXAMPLES.glob("*.py")]
    assert not any(re.search(r"\.(drop|clear|purge)\(", source) for source in examples)


def test_pages_contain_no_python_of_their_own() -> None:
    inline = re.compile(r"^(```|:::)\{?(python|code-block)", re.MULTILINE)
    assert [page.name for page in DOCS.rglob("*.md") if inline.search(page.read_text())] == []


def test_command_reference_names_every_command_and_option() -> None:
    page = (DOCS / "reference" / "command.md").read_text()
    group = typer.main.get_group(app)
    options = [
        option
        for command in group.commands.values()
        for parameter in command.params
        for option in parameter.opts
    ]
    missing = [name for name in [*group.commands, *options] if name not in page]
    assert missing == []


async def test_storage_reference_names_every_stored_field(
    transport: AsyncMongoTransport[Any], claim: Claim, snapshot: Snapshot
) -> None:
    await transport.publish("dead", "event")
    await transport.dead_letter(await claim(), "why")
    await transport.publish("failed", "event", message_id="m")
    await transport.nack(await claim(), error="why")
    page = (DOCS / "reference" / "storage.md").read_text()
    stored = await snapshot()
    fields = {field for documents in stored.values() for each in documents for field in each}
    assert {field for field in fields if f"`{field}`" not in page} == set()


async def test_storage_reference_names_every_field_of_a_job(fairlane_url: str) -> None:
    page = (DOCS / "reference" / "storage.md").read_text()
    async with AsyncJobQueue.connect(fairlane_url, f"docs_{uuid.uuid4().hex[:12]}") as queue:
        await queue.enqueue_many([NewJob(n, unique_key=f"k{n}") for n in range(3)], "t")
        await queue.enqueue(1, "t", unique_key="other")
        jobs = Jobs()
        jobs.recurring("r", every=60)(print)
        for definition in jobs:
            await queue._recurrer.ensure(definition)
        for end in (queue.ack, queue.fail, queue.nack):
            if job := await queue.claim():
                await end(job)
        documents = await queue._store.jobs.find({}, sort=[("_id", 1)], limit=0)
        await queue.drop()
    fields = {field for document in documents for field in document}
    assert {field for field in fields if f"`{field}`" not in page} == set()


def test_storage_reference_names_every_index() -> None:
    page = (DOCS / "reference" / "storage.md").read_text()
    locks = (*schema.LOCK_INDEXES, schema.TOKEN_INDEX)
    of_jobs = (*schema.JOB_INDEXES, *schema.HISTORY_INDEXES)
    indexes = (*schema.MESSAGE_INDEXES, *locks, *schema.DEAD_INDEXES, *of_jobs)
    keys = [
        ", ".join(f"{field}: {direction}" for field, direction in index.document["key"].items())
        for index in indexes
    ]
    assert [each for each in keys if f"`{each}`" not in page] == []


@pytest.mark.parametrize("name", RUNS)
def test_example_runs_and_prints_what_the_page_says(
    name: str, prepare: Prepare, environment: dict[str, str]
) -> None:
    run = RUNS[name]
    script = prepare(name)
    command = _pytest(script) if run.by_pytest else [sys.executable, "-W", "error", str(script)]
    status, output = _output(command, environment, run)
    assert status == 0, output
    assert _lines_in_order(run.prints, output), output


@pytest.mark.parametrize("name", sorted(WEB_APPS))
def test_web_application_handles_what_is_posted_and_stops_on_sigterm(
    name: str, prepare: Prepare, environment: dict[str, str]
) -> None:
    port, visit = _free_port(), WEB_APPS[name]
    script = prepare(name)
    script.write_text(script.read_text().replace("8080", str(port)))
    with _started([sys.executable, str(script)], environment) as process:
        for path in (visit.path, *visit.more):
            answer = _post(process, f"http://127.0.0.1:{port}{path}", visit.event)
            assert answer == visit.answer
        assert visit.prints in _until(process, visit.prints)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=SECONDS)
    assert process.returncode in {0, -signal.SIGTERM}  # uvicorn raises the signal again at its end


def test_each_step_of_the_tutorial_on_jobs_prints_what_the_page_says(
    prepare: Prepare, environment: dict[str, str]
) -> None:
    script, page = prepare("shop.py"), (DOCS / "tutorial" / "jobs.md").read_text()
    steps = re.findall(r"bin/python shop\.py (\w+)\n```\n\n```text\n(.*?)```", page, re.DOTALL)
    for step, text in steps:
        before, is_stopped, after = text.partition("^C\n")
        with _started([sys.executable, str(script), step], environment) as process:
            printed = _until_all(process, before.splitlines()) if is_stopped else []
            if is_stopped:
                process.send_signal(signal.SIGINT)
            printed += process.communicate(timeout=SECONDS)[0].splitlines()
        assert process.returncode == 0
        assert set((before + after).splitlines()) <= set(printed), f"{step}: {printed}"
    assert [step for step, _ in steps] == ["order", "order", "look", "work", "look"]


def _until_all(process: subprocess.Popen[str], expected: list[str]) -> list[str]:
    """Read until each of these lines has come, in whatever order and with others between them."""
    printed: list[str] = []
    while not set(expected) <= set(printed) and process.stdout is not None:
        line = process.stdout.readline()
        assert line, f"it has ended after {printed}"
        printed.append(line.rstrip("\n"))
    return printed


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _post(application: subprocess.Popen[str], url: str, event: object) -> object:
    """Post as soon as the application listens."""
    request = urllib.request.Request(
        url, json.dumps(event).encode(), {"Content-Type": "application/json"}
    )
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as response:
                return json.load(response)
        except urllib.error.URLError:
            if application.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _pytest(script: Path) -> list[str]:
    options = ["-q", "-o", "asyncio_mode=auto", "--rootdir", str(script.parent)]
    return [sys.executable, "-m", "pytest", *options, "-c", os.devnull, str(script)]


def _output(command: list[str], environment: dict[str, str], run: Run) -> tuple[int, str]:
    """Run to the end, or send the signal as soon as `stop_after` has been printed."""
    with _started(command, environment) as process:
        output = "".join(_until(process, run.stop_after))
        if run.stop_after is not None:
            process.send_signal(run.by)
        output += process.communicate(run.typed, timeout=SECONDS)[0]
    return process.returncode, output


@contextmanager
def _started(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _until(process: subprocess.Popen[str], line: str | None) -> Iterator[str]:
    if line is None or process.stdout is None:
        return
    for printed in process.stdout:
        yield printed
        if printed == line:
            return


def _lines_in_order(expected: tuple[str, ...], output: str) -> bool:
    position = 0
    for line in expected:
        position = output.find(line, position) + 1
        if position == 0:
            return False
    return True
