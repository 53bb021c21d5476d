"""The result of `fairlane demo --jobs`: its keys, when it is good, and the table for people."""

import json
from collections import Counter
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from fairlane.cli.demo.breach import Breach
from fairlane.cli.demo.causes import Cause
from fairlane.cli.demo.jobs.case import Evidence
from fairlane.cli.demo.jobs.check import Verdict
from fairlane.cli.demo.jobs.enqueuing import Placed
from fairlane.cli.demo.jobs.plan import JobsPlan, planned
from fairlane.cli.demo.jobs.report import JobsReport, JobsResult, report
from fairlane.cli.demo.jobs.rules import KINDS, Kind
from fairlane.cli.demo.jobs.table import PROMISES, jobs_table
from fairlane.cli.demo.report import to_json

SECOND = 1_000_000_000
KEYS = [
    *("enqueued", "duplicates", "done", "failed", "ticks"),
    *("starts", "repeated", "cut", "unstarted"),
    *("overlapping", "not_once", "wrong_end", "lost", "stuck"),
    *("miscounted", "unfenced", "early", "duplicated", "unexpected"),
    *("workers", "processes", "seconds", "enqueue_per_s", "end_per_s"),
    *("waited_p50_ms", "waited_p95_ms", "waited_p99_ms", "server", "driver", "ok"),
]
PLAN = JobsPlan(jobs=planned(2))
PLACED = [
    Placed(job=job, id=job.type, is_created=True, started_at=0, returned_at=SECOND)
    for job in PLAN.jobs
]
REPEATED: Counter[Cause] = Counter({"failure": 2, "kill": 1})
COUNTS = {"jobs": 2, "done": 1, "failed": 1, "duplicates": 1, "ticks": 3, "unstarted": 1, "cut": 1}
VERDICT = Verdict(
    **COUNTS, repeated=REPEATED, waits=(SECOND, 3 * SECOND), ended_at=4 * SECOND, breaches=()
)


def summary(verdict: Verdict = VERDICT, calls: int = 2) -> JobsReport:
    evidence = Evidence(placed=PLACED[:calls], executions=[], settlements=[], stored=[])
    return report(PLAN, "a server", evidence, verdict)


def broken(kind: Kind) -> Verdict:
    return replace(VERDICT, breaches=(Breach(kind=kind, detail=""),))


def test_the_json_object_has_exactly_the_promised_keys() -> None:
    assert list(json.loads(to_json(summary()))) == KEYS


def test_rates_and_waits_are_in_seconds_and_milliseconds() -> None:
    told = summary()
    assert (told.seconds, told.enqueue_per_s, told.end_per_s) == (4.0, 2.0, 0.5)
    assert (told.waited_p50_ms, told.waited_p99_ms) == (1000.0, 3000.0)


def test_a_run_without_breaches_is_ok() -> None:
    assert summary().ok


@pytest.mark.parametrize("kind", KINDS)
def test_any_breach_makes_the_run_bad_and_is_counted_under_its_kind(kind: Kind) -> None:
    told = summary(broken(kind))
    assert (told.ok, getattr(told, kind)) == (False, 1)


def test_a_run_that_did_not_enqueue_all_is_bad() -> None:
    assert not summary(calls=1).ok


def rows(verdict: Verdict = VERDICT, waited: float | None = 3.0) -> dict[str, str]:
    out = StringIO()
    result = JobsResult(report=summary(verdict), verdict=verdict, waited=waited)
    Console(file=out, width=80).print(jobs_table(result))
    return {line[:13].strip(): line[13:].strip() for line in out.getvalue().splitlines()}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_broken_is_marked(kind: Kind) -> None:
    shown = rows(broken(kind))
    assert [name for name, row in shown.items() if "BROKEN" in row] == [
        PROMISES[kind][0],
        "verdict",
    ]


def test_what_the_kill_cost_is_told() -> None:
    assert rows()["repeated"].split(maxsplit=1) == ["3", "planned failures 2, kill 1"]
    assert rows()["cut"].endswith("handlers by the kill, and 1 lease before the start")


def test_a_run_without_a_kill_says_nothing_of_one() -> None:
    assert "kill" not in str(rows(waited=None))


def test_the_table_fits_eighty_columns() -> None:
    assert max(len(row) for row in rows().values()) <= 80 - 13
