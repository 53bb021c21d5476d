"""What a worker tells of its health: to a probe, in a file, and of several processes."""

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_fakes import FakeSource

from fairlane.cli.worker.health import Document, document, fleet_document
from fairlane.cli.worker.plan import HealthPlan
from fairlane.cli.worker.serving import response
from fairlane.cli.worker.telling import beside, telling
from fairlane.errors import FairlaneError
from fairlane.worker import WorkerPool


def one(state: str = "ok", age: float | None = 0.5, **fields: Any) -> Document:
    return {"state": state, "last_poll_age": age, "running": 1, "leased": 2, **fields}


def answer(request: str, state: str = "ok") -> tuple[int, str]:
    head, _, body = response(
        f"{request}\r\nHost: h\r\n\r\n".encode(), lambda: one(state)
    ).partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


@pytest.mark.parametrize(
    ("request_line", "state", "status"),
    [
        ("GET /health HTTP/1.1", "ok", 200),
        ("GET /health?x=1 HTTP/1.0", "ok", 200),
        ("GET /health HTTP/1.1", "starting", 503),
        ("GET /health HTTP/1.1", "degraded", 503),
        ("GET /health HTTP/1.1", "draining", 503),
        ("GET /live HTTP/1.1", "degraded", 200),
        ("GET / HTTP/1.1", "ok", 404),
        ("POST /health HTTP/1.1", "ok", 405),
        ("nonsense", "ok", 400),
        ("", "ok", 400),
    ],
)
def test_a_probe_gets_a_status_and_json(request_line: str, state: str, status: int) -> None:
    got, body = answer(request_line, state)
    assert got == status
    assert isinstance(json.loads(body), dict)


def test_health_is_told_to_a_probe_whole() -> None:
    assert json.loads(answer("GET /health HTTP/1.1")[1]) == one()


def test_head_has_no_body() -> None:
    assert answer("HEAD /health HTTP/1.1") == (200, "")


def test_a_pool_that_is_not_made_yet_is_starting() -> None:
    assert document(None)["state"] == "starting"


def test_of_a_pool_its_health_its_name_and_its_process_are_told() -> None:
    told = document(WorkerPool(FakeSource(), print, worker_id="w"))
    assert told == {
        "state": "stopped",
        "last_poll_age": None,
        "running": 0,
        "leased": 0,
        "worker_id": "w",
        "pid": os.getpid(),
    }


@pytest.mark.parametrize(
    ("states", "together"),
    [
        (["ok", "ok"], "ok"),
        (["ok", "starting"], "starting"),
        (["degraded", "starting", "ok"], "degraded"),
        (["silent", "degraded"], "silent"),
        (["ok", "restarting", "silent"], "restarting"),
    ],
)
def test_several_processes_are_as_well_as_the_worst(states: list[str], together: str) -> None:
    assert fleet_document([one(state) for state in states])["state"] == together


def test_several_processes_have_the_sum_of_their_work_and_the_oldest_poll() -> None:
    processes = [one(age=0.5), one(age=2.0)]
    told = fleet_document(processes)
    assert told == {**one(age=2.0), "running": 2, "leased": 4, "processes": processes}


def test_no_poll_of_one_process_is_none_of_all() -> None:
    assert fleet_document([one(), one(age=None)])["last_poll_age"] is None


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_so():  # noqa: ASYNC110  what is waited for tells nobody
            await asyncio.sleep(0.005)


async def test_the_file_holds_health_and_goes_with_the_process(tmp_path: Path) -> None:
    file = tmp_path / "health.json"
    async with telling(HealthPlan(file=file), one):
        await until(file.exists)
        told = json.loads(file.read_text())
        assert told.pop("at").endswith("+00:00")
        assert told == one()
    assert os.listdir(tmp_path) == []


async def test_the_file_goes_with_a_worker_that_fails(tmp_path: Path) -> None:
    file = tmp_path / "health.json"

    async def fail() -> None:
        async with telling(HealthPlan(file=file), one):
            await until(file.exists)
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert os.listdir(tmp_path) == []


async def test_a_loop_that_ends_before_its_block_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail() -> None:
        raise LookupError("too long a line")

    async with beside(fail()):
        await asyncio.sleep(0)
    assert "has ended before it" in caplog.text


async def test_a_file_that_cannot_be_written_is_logged_once_and_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlane.cli.worker.telling.EVERY", 0.0)
    told = []

    def ask() -> Document:
        told.append(1)
        return one()

    async with telling(HealthPlan(file=tmp_path / "no" / "health.json"), ask):
        await until(lambda: len(told) > 2)
    assert [record.getMessage()[:22] for record in caplog.records] == ["health cannot be told,"]


async def probe(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    told = await reader.read()
    writer.close()
    return told


def port_of(caplog: pytest.LogCaptureFixture) -> int:
    return int(caplog.messages[0].rpartition(":")[2].partition("/")[0])


async def test_the_port_answers_and_outlives_what_is_not_http(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    async with telling(HealthPlan(port=0), one):
        port = port_of(caplog)
        assert await probe(port, b"x" * 20_000) == b""
        assert b" 200 OK" in await probe(port, b"GET /health HTTP/1.1\r\n\r\n")


async def test_a_client_that_says_nothing_is_left_to_itself(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairlane.cli.worker.serving.SECONDS", 0.05)
    caplog.set_level("INFO")
    async with telling(HealthPlan(port=0), one):
        assert await probe(port_of(caplog), b"GET /health") == b""


async def test_a_port_that_is_taken_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with telling(HealthPlan(port=0), one):
        with pytest.raises(FairlaneError, match=r"health cannot be told at 127.0.0.1:"):
            async with telling(HealthPlan(port=port_of(caplog)), one):
                pass
