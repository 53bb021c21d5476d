"""The command line of `fairlane demo`: what is refused at once, and how everything ends."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import TypeVar

import pytest
from typer.testing import CliRunner
from typer.testing import Result as Run

import fairlane
from fairlane.cli.app import app
from fairlane.cli.demo import command
from fairlane.cli.demo.check import Breach, Verdict
from fairlane.cli.demo.crew import DriverName
from fairlane.cli.demo.jobs.case import Evidence
from fairlane.cli.demo.jobs.check import check
from fairlane.cli.demo.jobs.enqueuing import Placed
from fairlane.cli.demo.jobs.ledger import Stored
from fairlane.cli.demo.jobs.plan import TICKING_ID, JobsPlan, PlannedJob
from fairlane.cli.demo.jobs.report import JobsResult
from fairlane.cli.demo.jobs.report import report as jobs_report
from fairlane.cli.demo.plan import Plan
from fairlane.cli.demo.records import Delivery, Execution, Settlement, digest
from fairlane.cli.demo.report import Leftovers, Report, Result, to_json
from fairlane.errors import ConfigurationError, ServerUnreachable

REPORT = Report(
    published=2,
    processed=2,
    groups=1,
    out_of_order=0,
    overlapping=0,
    lost=0,
    redelivered=0,
    dead=0,
    workers=64,
    processes=2,
    seconds=1.0,
    publish_per_s=2.0,
    process_per_s=2.0,
    p50_ms=1.0,
    p95_ms=1.0,
    p99_ms=1.0,
    server="a server",
    driver=DriverName.MOTOR,
    ok=True,
)


def invoke(*arguments: str) -> Run:
    return CliRunner().invoke(app, ["demo", *arguments], env={"FAIRLANE_URL": None})


class Conductor:
    """Stands in for the run: notes the plan, then does as it is told."""

    def __init__(self) -> None:
        self.plan: Plan | None = None
        self.report = REPORT
        self.breaches: tuple[Breach, ...] = ()
        self.error: BaseException | None = None

    async def __call__(self, plan: Plan, display: object) -> Result:
        self.plan = plan
        if self.error is not None:
            raise self.error
        verdict = Verdict(
            processed=2, redelivered=Counter(), ended_at=0, latencies=(), breaches=self.breaches
        )
        return Result(report=self.report, verdict=verdict, left=Leftovers(), waited=None)


C = TypeVar("C")


def standing_in(monkeypatch: pytest.MonkeyPatch, name: str, conductor: C) -> C:
    monkeypatch.setattr(command, name, conductor)
    return conductor


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Conductor:
    return standing_in(monkeypatch, "run", Conductor())


def test_defaults_are_64_workers_in_2_processes_with_a_kill_on_motor(run: Conductor) -> None:
    invoke()
    plan = run.plan
    assert plan is not None
    assert (plan.workers, plan.processes, plan.driver, plan.url) == (64, 2, "motor", None)
    assert plan.is_killing


def test_options_reach_the_plan(run: Conductor, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"group": "a", "event": 1}\n' * 9)
    arguments = "--no-kill --workers 3 --processes 1 --driver pymongo --limit 4 --url mongodb://h"
    invoke("--input", str(events), *arguments.split())
    plan = run.plan
    assert plan is not None
    assert (plan.workers, plan.processes, plan.driver) == (3, 1, "pymongo")
    assert (len(plan.events), plan.url, plan.is_killing) == (4, "mongodb://h", False)


def test_json_is_all_of_standard_output(run: Conductor) -> None:
    assert json.loads(invoke("--json").stdout)["server"] == "a server"


def test_a_good_run_ends_with_status_0(run: Conductor) -> None:
    assert invoke().exit_code == 0


def test_a_bad_run_ends_with_status_1_and_says_why(run: Conductor) -> None:
    run.report = Report(**{**json.loads(to_json(REPORT)), "ok": False})
    run.breaches = (Breach(kind="out_of_order", detail="[seq 7]"),) * 12
    result = invoke("--json")
    assert result.exit_code == 1
    assert result.stderr.count("out of order: [seq 7]") == 10
    assert "... and 2 more" in result.stderr


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigurationError("odd url"), 2),
        (ServerUnreachable("no server"), 1),
        (ExceptionGroup("", [ExceptionGroup("", [ServerUnreachable("no server")])]), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_an_error_is_one_line_and_a_status(
    run: Conductor, error: BaseException, status: int
) -> None:
    run.error = error
    result = invoke("--json")
    assert (result.exit_code, result.stdout) == (status, "")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--workers", "0"),
        ("--workers", "many"),
        ("--processes", "0"),
        ("--limit", "0"),
        ("--driver", "mysql"),
        ("--workers", "1"),
        ("--nonsense",),
        ("events.jsonl",),
        ("--input", "no/such/file.jsonl"),
    ],
)
def test_a_wrong_command_line_ends_with_status_2_before_anything_starts(
    run: Conductor, arguments: tuple[str, ...]
) -> None:
    assert (invoke(*arguments).exit_code, run.plan) == (2, None)


def test_a_bad_line_ends_with_status_2_and_its_number_before_anything_starts(
    run: Conductor, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"group": "a", "event": 1}\n{"group": 1}\n')
    result = invoke("--input", str(events))
    assert (result.exit_code, run.plan) == (2, None)
    assert "line 2: has no event" in result.stderr


class JobsConductor:
    """Stands in for a run over jobs: notes the plan, and judges what it is told was found."""

    def __init__(self) -> None:
        self.plan: JobsPlan | None = None
        self.starts = 1

    async def __call__(self, plan: JobsPlan, display: object) -> JobsResult:
        self.plan = plan
        evidence = evidence_of(plan.jobs[0], starts=self.starts)
        verdict = check(evidence)
        summary = jobs_report(plan, "a server", evidence, verdict)
        return JobsResult(report=summary, verdict=verdict, waited=None)


def evidence_of(job: PlannedJob, *, starts: int) -> Evidence:
    """What a run over one job leaves, and a tick; a further start has the lease of the first."""
    at = round(job.delay * 1_000_000_000)
    placed = Placed(job=job, id="job", is_created=True, started_at=0, returned_at=1)
    stored = [("job", "done", 1), (TICKING_ID, "pending", 0)]
    return Evidence(
        placed=[placed],
        executions=[
            *(handled("job", at + 10 * n, digest(job.payload())) for n in range(starts)),
            handled(TICKING_ID, at, ""),
        ],
        settlements=[
            Settlement(
                worker="w", kind="acked", group=group, seq=1, attempt=1, settled_at=at + 1_000
            )
            for group in ("job", TICKING_ID)
        ],
        stored=[
            Stored(id=key, state=state, attempts=attempts, epoch=1, is_leased=False)
            for key, state, attempts in stored
        ],
    )


def handled(group: str, at: int, digest: str) -> Execution:
    delivery = Delivery(group=group, index=0, seq=1, attempt=1, digest=digest)
    return Execution(
        worker="w", delivery=delivery, started_at=at, ended_at=at + 5, outcome="handled"
    )


@pytest.fixture
def run_jobs(monkeypatch: pytest.MonkeyPatch) -> JobsConductor:
    return standing_in(monkeypatch, "run_jobs", JobsConductor())


def test_options_reach_the_plan_of_jobs(run_jobs: JobsConductor) -> None:
    arguments = "--jobs --no-kill --workers 3 --processes 1 --driver pymongo --limit 4"
    invoke(*arguments.split())
    plan = run_jobs.plan
    assert plan is not None
    assert (plan.workers, plan.processes, plan.driver) == (3, 1, "pymongo")
    assert (len(plan.jobs), plan.is_killing) == (4, False)


def test_a_good_run_of_jobs_ends_with_status_0(run_jobs: JobsConductor) -> None:
    result = invoke("--jobs", "--limit", "1", "--json")
    assert (result.exit_code, json.loads(result.stdout)["ok"]) == (0, True), result.stderr


def test_a_job_that_was_started_twice_ends_with_status_1_and_is_named(
    run_jobs: JobsConductor,
) -> None:
    run_jobs.starts = 2
    result = invoke("--jobs", "--limit", "1")
    assert (result.exit_code, "BROKEN" in result.stdout) == (1, True)
    assert "job 0 (quick, job) was started 2 times, but counts 1 attempt" in result.stderr


def test_jobs_take_no_input(run_jobs: JobsConductor) -> None:
    result = invoke("--jobs", "--input", "events.jsonl")
    assert (result.exit_code, run_jobs.plan) == (2, None)
    assert "does not go with --jobs" in result.stderr


def test_version_is_shown() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.stdout == f"fairlane {fairlane.__version__}\n"


@pytest.mark.parametrize("arguments", [("--help",), ("demo", "--help")])
def test_flags_stand_alone_in_the_help(arguments: tuple[str, ...]) -> None:
    colored = CliRunner().invoke(app, arguments, env={"COLUMNS": "80"}).stdout
    shown = re.sub(r"\x1b\[[\d;]*m", "", colored)  # GitHub's runners force colours
    assert "--help" in shown
    assert "bool" not in shown.lower()


@pytest.mark.parametrize("what", ["on purpose", "130 after Ctrl-C", "143"])
def test_the_help_tells_what_may_surprise(what: str) -> None:
    shown = CliRunner().invoke(app, ["demo", "--help"], env={"COLUMNS": "200"}).stdout
    assert what in shown
