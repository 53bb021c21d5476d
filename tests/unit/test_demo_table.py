"""The table of `fairlane demo`: what a person reads at the end."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from fairlane.cli.demo.check import Verdict
from fairlane.cli.demo.crew import DriverName
from fairlane.cli.demo.report import Leftovers, Report, Result
from fairlane.cli.demo.table import table

REPORT = Report(
    published=20_000,
    processed=20_000,
    groups=300,
    out_of_order=0,
    overlapping=0,
    lost=0,
    redelivered=15,
    dead=0,
    workers=64,
    processes=2,
    seconds=60.0,
    publish_per_s=500.0,
    process_per_s=333.0,
    p50_ms=20_123.0,
    p95_ms=26_031.0,
    p99_ms=26_444.0,
    server="SecantusDB 1.2.3 (repaired planner)",
    driver=DriverName.MOTOR,
    ok=True,
)
VERDICT = Verdict(
    processed=20_000,
    redelivered=Counter(failure=12, kill=3),
    ended_at=0,
    latencies=(),
    breaches=(),
)
RESULT = Result(report=REPORT, verdict=VERDICT, left=Leftovers(), waited=5.0)

Rows = Callable[[Result], dict[str, str]]


@pytest.fixture
def rows() -> Rows:
    def read(result: Result) -> dict[str, str]:
        out = StringIO()
        Console(file=out, width=80).print(table(result))
        return {line[:14].strip(): line[14:].strip() for line in out.getvalue().splitlines()}

    return read


def test_what_is_broken_is_marked(rows: Rows) -> None:
    shown = rows(replace(RESULT, left=Leftovers(locks=2)))
    assert "BROKEN" in shown["left behind"]
    assert "ok" in shown["lost"]


@pytest.mark.parametrize("name", ["latency p95", "latency p99"])
def test_slow_latencies_are_explained_by_the_kill_on_one_line(rows: Rows, name: str) -> None:
    assert rows(RESULT)[name].endswith("ms; the killed worker's groups waited 5 s for leases")


def test_a_run_without_a_kill_says_nothing_of_one(rows: Rows) -> None:
    assert "kill" not in str(rows(replace(RESULT, waited=None)))


def test_redeliveries_are_told_apart(rows: Rows) -> None:
    assert rows(RESULT)["redelivered"].split(maxsplit=1) == ["15", "planned failures 12, kill 3"]


def test_the_server_has_a_row_of_its_own(rows: Rows) -> None:
    assert rows(RESULT)["server"] == "SecantusDB 1.2.3"


def test_one_of_a_kind_is_singular(rows: Rows) -> None:
    one = replace(REPORT, published=1, groups=1, workers=1, processes=1)
    shown = rows(replace(RESULT, report=one))
    assert shown["published"].endswith("event in 1 group")
    assert shown["workers"].endswith("claimer in 1 process")
